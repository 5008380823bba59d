"""Asking Kafka: where a partition begins and ends, and what stands at any place in it.

It has a client of its own, because a broker answers the requests of one connection in turn: behind a fetch that waits for new
records all others would wait, too. And a look back (at the anchor of R12, at a snapshot) must not move the place that the tail
has reached.

Clients are replaced now and then, and closed by their last user. Left to be forgotten they might live for ever, with
their threads and connections: librdkafka's binding loses count of an exception that is being handled when it is called, so
that whatever its traceback knows is never freed. For the same reason nothing here calls a client while it handles an exception.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pares.core.errors import LedgerRewound, LedgerUnavailable
from pares.ledger.base import MAX_READ_BYTES, Entry, limited
from pares.ledger.handle_state import Lifetime
from pares.ledger.kafka.client import client_module, new_client
from pares.ledger.kafka.errors import (
    GONE,
    GROUP_AUTHORIZATION,
    LOST_POSITION,
    MOVING,
    PARTITION_EOF,
    SILENT,
    unavailable,
)
from pares.ledger.kafka.marks import is_quiet
from pares.ledger.kafka.settings import Settings, log
from pares.ledger.kafka.shared import KEPT, TURNS, Passage, Passages, within

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_AHEAD: Final = 10_000
"""Entries fetched at once for somebody who reads a log from its beginning on."""
_NEWS: Final = 0.2
"""Seconds for which a topic that is not there is asked for again."""
_PAUSE: Final = 0.01
_STALL: Final = 0.1
_TURN: Final = 0.05
_FEW: Final = 100
"""A caller that asks for no more than this does not read on."""
IDLE: Final = 30.0
"""Seconds after which a client that nobody uses is given back: each wakes a few times a second, whatever it is for."""


class News(NamedTuple):
    """What stands in a partition from a place on."""

    entries: list[Entry]
    quiet: frozenset[int]
    """The offsets of those that are not urgent."""
    at_end: bool
    """Whether the leader has said that nothing follows."""


class _Client:
    """A client, and how many are using it. The seeker's `_making` guards both."""

    __slots__ = ("consumer", "replaced", "users")

    def __init__(self, consumer: Any) -> None:
        self.consumer = consumer
        self.users = 0
        self.replaced = False


class Seeker:
    """Bounds, and reads at any offset. Safe to use from several threads; reads take turns."""

    def __init__(self, settings: Settings, where: str, reading: Mapping[str, Any] = MappingProxyType({})) -> None:
        """`reading`: settings of the client in the place of some in `READING`."""
        self._settings = settings
        self._reading = reading
        self._where = where
        self._patience = TURNS * settings.timeout
        self._lock = threading.Lock()
        self._making = threading.Lock()
        self._client: _Client | None = None
        self._passages = Passages()
        self._doubts = False
        self._newest: dict[tuple[str, int], tuple[int, float]] = {}
        """Of each partition: where it ended last, and when that was asked."""
        self._ended = False
        self._quiet: set[int] = set()
        """Of the last fetch: the offsets of entries that are not urgent."""
        self._used = time.monotonic()
        self._told = ""

    def ends(self, topic: str, partition: int, timeout: float | None = None) -> tuple[int, int]:
        """The first offset and the next one, by the partition's leader, now. Raises `LedgerUnavailable`."""
        began = time.monotonic()
        end = began + (timeout or self._settings.timeout)
        with self._using() as client:
            while True:
                asked = time.monotonic()
                found = self._bounds(client, topic, partition, (end - began) / 2)
                if isinstance(found, tuple):
                    before = self._newest.get((topic, partition))
                    if before is None or before[1] < asked:
                        self._newest[topic, partition] = found[1], asked
                    return found
                if found.code() in (*GONE, *MOVING):
                    self.doubt()
                # Another broker may lead by now, or the topic have been made a moment ago.
                again = began + _NEWS if found.code() in GONE else end if found.code() in (*MOVING, *SILENT) else 0.0
                if not self._refresh(client, topic, end) or time.monotonic() + _PAUSE >= again:
                    right = f"Read on topic {topic}"
                    raise unavailable(found, self._where, "ask for the log's bounds", told=self._told, right=right)
                time.sleep(_PAUSE)

    @staticmethod
    def _bounds(client: _Client, topic: str, partition: int, timeout: float) -> tuple[int, int] | KafkaError:
        kafka = client_module()
        place = kafka.TopicPartition(topic, partition)
        try:
            low, high = client.consumer.get_watermark_offsets(place, timeout=timeout, cached=False)
        except kafka.KafkaException as error:
            return error.args[0]
        return low, high

    def _refresh(self, client: _Client, topic: str, end: float) -> bool:
        """Have the client ask who leads the topic: it does not by itself when the broker that did is silent.

        One that gets no answer is replaced. It may have no broker left to ask: where a cluster's last broker comes back, its
        first answer may be that there is none, since it is let in again a moment later. The client believes it, and forgets
        every address.
        """
        try:
            client.consumer.list_topics(topic, timeout=max(0.05, end - time.monotonic()))
        except client_module().KafkaException as error:
            log.debug("%s: no news of %s: %s", self._where, topic, error)
            with self._making:
                self._replace(client)
            return False
        return True

    def fetch(self, topic: str, partition: int, offset: int, end: int, max_records: int) -> tuple[list[Entry], bool]:
        """Entries from `offset` on, which is below `end`; none only if there is nothing but holes up to `end`. And whether any
        that came with them is not urgent.

        A caller that reads on may get what was fetched for another one a moment before; one that asks for a few gets what the
        broker has had since. Those that wait for their turn meanwhile need one fetch, if they are in the same passage."""
        place, called, reads_on = (topic, partition), time.monotonic(), max_records > _FEW
        wanted, since = (max(max_records, _AHEAD), called - KEPT) if reads_on else (max_records, called)
        with within(self._lock, self._patience):
            self._let_go_of_doubtful(place)
            passage = self._passages.reaching(place, offset)
            if passage is not None:
                lacks = passage.lacks(offset, end, max_records)
                if not lacks and passage.asked >= since:
                    return passage.take(offset, max_records), False
                if self._go_on(passage, offset, end, wanted if lacks else 0):
                    found = passage.take(offset, max_records)
                    self._passages.tidy()
                    return found, bool(self._quiet)
                self._passages.forget()
            asked = time.monotonic()
            entries, error = self._fetch(place, offset, end, wanted)
            if error is not None and not entries:
                raise self._unread(error, topic, offset)
            found = limited(entries, max_records)
            if reads_on:
                self._passages.put(place, entries, asked)
            return found, bool(self._quiet)

    def _go_on(self, passage: Passage, offset: int, end: int, wanted: int) -> bool:
        """Fetch the last entry of a passage once more, and what follows, for a reader at `offset`. False if nothing is there
        any more. Raises `LedgerRewound` if something else is: no reader may go on in another log as if it
        were the same (R12)."""
        asked, last = time.monotonic(), passage.last
        beside = len(last.payload)
        entries, error = self._fetch(passage.place, last.offset, max(end, last.offset + 1), 1 + wanted, beside)
        if error is not None and not (entries and entries[-1].offset >= offset):
            if error.code() in LOST_POSITION:
                return False
            raise self._unread(error, passage.place[0], offset)
        if entries and entries[0].offset == last.offset and entries[0] != last:
            self._passages.forget()
            what = f"entry {last.offset} of partition {passage.place[1]}"
            raise LedgerRewound(f"{self._where}: {what} is not what it was: it is another log, or it lost its tail")
        return passage.goes_on(entries, asked)

    def _let_go_of_doubtful(self, place: tuple[str, int]) -> None:
        if self._doubts:
            self._doubts = False
            self._passages.forget()
        if place in self._newest:
            self._passages.ends(place, *self._newest[place])

    def news(self, topic: str, partition: int, offset: int, known: int) -> News | None:
        """What stands at `offset` and behind it; up to below `known` at least, if that is more. None if that can't be said:
        then the leader's bounds tell what the matter is."""
        with within(self._lock, self._patience), self._using() as client:
            place = [client_module().TopicPartition(topic, partition, offset)]
            entries: list[Entry] = []
            client.consumer.assign(place)
            error = self._collect(client.consumer, place, known, _AHEAD, entries)
            # As its last answer had it: where readers are lazy nothing else is asked for that.
            at_end = not entries or entries[-1].offset + 1 == _end_known(client.consumer, place[0])
            with contextlib.suppress(client_module().KafkaException, RuntimeError):
                client.consumer.unassign()
            quiet = frozenset(self._quiet)
        if error is not None or (known > offset and (not entries or entries[-1].offset < known - 1)):
            return None
        return News(entries, quiet, at_end)

    def doubt(self) -> None:
        """What was fetched before is not handed on any more: it may be another log now, or one that has lost its tail."""
        self._doubts = True

    def rest(self) -> None:
        """Give back what has not been used lately."""
        if time.monotonic() > self._used + IDLE and self._client is not None:
            self.renew()
        if self._lock.acquire(blocking=False):
            try:
                self._passages.tidy()
            finally:
                self._lock.release()

    def forget(self) -> None:
        """The log is another one: what was read ahead is not in it."""
        self.doubt()

    def renew(self) -> None:
        """Ask through a new client: the old one may look for a topic that was made anew where the one before was."""
        self.doubt()
        with self._making:
            client = self._client
            if client is None:
                return
            self._replace(client)
            last = client.users == 0
        if last:
            client.consumer.close()

    def _fetch(
        self, place: tuple[str, int], offset: int, end: int, wanted: int, beside: int = 0
    ) -> tuple[list[Entry], KafkaError | None]:
        """What stands there, and what went wrong, if that ended it. `beside`: bytes of it that do not count."""
        kafka, entries = client_module(), list[Entry]()
        with self._using() as client:
            start = [kafka.TopicPartition(*place, offset)]
            client.consumer.assign(start)
            error = self._collect(client.consumer, start, end, wanted, entries, beside)
            with contextlib.suppress(kafka.KafkaException, RuntimeError):
                client.consumer.unassign()
        if error is not None and error.code() in (*GONE, *MOVING, *LOST_POSITION):
            self.doubt()
        return entries, error

    def _unread(self, error: KafkaError, topic: str, offset: int) -> LedgerUnavailable:
        return unavailable(
            error, self._where, f"read at offset {offset}", told=self._told, right=f"Read on topic {topic}"
        )

    def _collect(
        self, consumer: Any, place: list[Any], end: int, wanted: int, entries: list[Entry], beside: int = 0
    ) -> KafkaError | None:
        """Add to `entries` what comes from `place` on, until it is enough. What went wrong, if that ended it."""
        kafka = client_module()
        offset, size = place[0].offset, -beside
        self._quiet.clear()
        deadline = time.monotonic() + self._settings.timeout
        stalled = time.monotonic() + _STALL
        while len(entries) < wanted and size < MAX_READ_BYTES and (not entries or entries[-1].offset < end - 1):
            messages = _next(consumer, min(wanted - len(entries), 1000))
            for message in messages:
                error = message.error()
                if error is not None:
                    if error.code() == PARTITION_EOF:
                        return None
                    if error.code() == GROUP_AUTHORIZATION:
                        continue  # said of a group that nobody joins: a client that may only read the topic reads all the same
                    if error.fatal() or not error.retriable():
                        return error
                    continue
                entry = to_entry(message)
                if entry.offset >= offset:
                    entries.append(entry)
                    if is_quiet(message):
                        self._quiet.add(entry.offset)
                    size += len(entry.payload)
                    deadline = time.monotonic() + self._settings.timeout
            now = time.monotonic()
            if not messages and not entries and now > stalled:
                # An assignment that follows right upon another one is sometimes taken up late.
                consumer.assign(place)
                stalled = now + 2 * _STALL
            if not messages and now > deadline:
                return kafka.KafkaError(kafka.KafkaError._TIMED_OUT)
        return None

    @contextlib.contextmanager
    def _using(self) -> Generator[_Client]:
        """The client of now, which is not closed before the end of the `with`."""
        self._used = time.monotonic()
        with self._making:
            if self._ended:
                raise Lifetime.closed_error(self._where)
            client = self._client = self._client or _Client(self._make())
            client.users += 1
        try:
            yield client
        finally:
            with self._making:
                client.users -= 1
                last = client.replaced and client.users == 0
            if last:
                client.consumer.close()

    def _replace(self, client: _Client) -> None:
        """The next caller gets another one."""
        client.replaced = True
        if self._client is client:
            self._client = None

    def _make(self) -> Any:
        return new_client(
            "Consumer",
            self._settings,
            {
                **READING,
                **self._reading,
                "fetch.wait.max.ms": 5,
                "fetch.message.max.bytes": 1 << 18,
                "queued.min.messages": 1,
                "queued.max.messages.kbytes": 4096,
                "error_cb": self._error,
            },
        )

    def _error(self, error: KafkaError) -> None:
        self._told = self._settings.scrubbed(error.str())
        log.debug("%s: %s", self._where, self._told)

    def close(self) -> None:
        """Give the client back; somebody who is using it does so at the end. Nobody is given another one."""
        with self._making:
            self._ended = True
        self.renew()


READING: Final[dict[str, Any]] = {
    # A client that reads has to name a group. Nobody joins it, and nothing is committed to it.
    "group.id": "pares",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    # A foreign transaction that never ends must not stop the readers.
    "isolation.level": "read_uncommitted",
    "fetch.min.bytes": 1,
    "fetch.error.backoff.ms": 10,
    # By default a partition whose queue is full is left alone for a second, also when it is read from elsewhere meanwhile.
    "fetch.queue.backoff.ms": 5,
    "check.crcs": True,
}


def _next(consumer: Any, count: int) -> list[Message]:
    """The next messages, as soon as there is one; none if none comes for a while."""
    first = consumer.poll(_TURN)
    return [] if first is None else [first, *consumer.consume(count - 1, timeout=0)] if count > 1 else [first]


def _end_known(consumer: Any, place: Any) -> int:
    """Where the partition ended by the last answer to a fetch; -1 if there was none."""
    try:
        return consumer.get_watermark_offsets(place, cached=True)[1]
    except client_module().KafkaException:
        return -1


def to_entry(message: Message) -> Entry:
    """A record as an entry. A record without a value, which nobody here writes, is an empty one."""
    value: Any = message.value()
    return Entry(message.offset() or 0, message.timestamp()[1], value if isinstance(value, bytes) else b"")
