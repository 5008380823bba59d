"""Kafka as a ledger: `kafka://HOST:PORT[,HOST:PORT...]/TOPIC`. One topic is one log.

What it promises is `Log`'s, and how:

- one total order: a partition's leader gives out the offsets. Foreign transactions and compaction leave holes;
- acknowledged records stay: `acks=all`, on a topic whose `min.insync.replicas` is 2 and which has no unclean elections (see
  `kafka.topic`; `pares doctor` says if it is otherwise). How many of the brokers must be lost at once to lose a record is
  for the topic to say;
- all or nothing: an append is one record batch, as long as it is not larger than the topic's `max.message.bytes` (18 MiB on
  topics made here). A larger one goes in several, in order, and may end after any of them. A process that is stopped for
  longer than `timeout` in the very middle of handing over an append may send it in two parts;
- **an append whose outcome is unknown** (`LedgerUnavailable` with `unknown=True`) may still land: until an append of the same
  ledger to the same partition is acknowledged, never after; see `kafka.append`. There is at most one such append a partition
  and ledger;
- a reader is told of appends: a thread waits for them at the brokers (see `kafka.tail`); a bell rings
  for its own partition alone, and for urgent appends alone. An empty answer of `read` is as fresh as the brokers' last word to
  that thread: milliseconds old as a rule, at most a second if it has lost them and doesn't know yet. It never misses what this
  ledger has appended, or what an `end` of it has told of; and after an append that failed it is the leader's own answer. Where
  many appends are not urgent the thread waits for urgent ones, and `read` asks the leader;
- an urgent append wakes readers at once, but for one of a program of release 0.1 in a group so large that most appends are not
  urgent: that one is found by the next read, or after two and a half seconds.

What it does not promise: to see at once that the topic was deleted and made anew. As a rule the brokers say so in answer to the
fetch that waits for news, or to the next one. Where the client library does not find the new topic (see `Appender.renew`),
`identity` asks the brokers after some seconds without news. Then all clients are made anew. A topic that is gone is made when a
member looks which log it is; an append never makes one.

What a member costs when nothing happens is its clients, each of which wakes a few times a second: so the administrator's and
the seeker's are made when they are needed, and given back when they have not been used for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from pares.core.errors import LedgerUnavailable
from pares.ledger.address import Address, Options
from pares.ledger.base import Capabilities, Entry, Log, Membership, check_partitions, grown_partitions
from pares.ledger.handle_state import Lifetime, keep_after_fork
from pares.ledger.kafka.append import Appender
from pares.ledger.kafka.checks import checks
from pares.ledger.kafka.seek import Seeker
from pares.ledger.kafka.settings import Settings, log, take
from pares.ledger.kafka.shared import TURNS, Together
from pares.ledger.kafka.tail import Tails
from pares.ledger.kafka.topic import Topic, Topics
from pares.ledger.service_log import LOOK, Gone, Known, TailedLog
from pares.ledger.source import Source
from pares.ledger.window import Window

if TYPE_CHECKING:
    from pares.ledger.kafka.topic import Asked

T = TypeVar("T")

_SILENCE: Final = 5.0
"""Seconds after which the brokers are asked for a topic's id when the tail hears nothing: it may not hear of that either."""
_ASIDE: Final = 2.0
"""Seconds for which that answer is not waited for then."""
_NEWS: Final = 0.3
"""Seconds for which a topic that is not there is asked for again."""
_PAUSE: Final = 0.02


class _Shared:
    """What a ledger and its topics have in common: the clients, each made when it is needed."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lifetime = Lifetime(settings.url)
        where = f"kafka://{settings.servers}/{settings.topic}"
        self.topics = Topics(settings, where)
        self.seeker = Seeker(settings, where)
        self.appender = Appender(settings, where, self.topics.largest, self.seeker.ends)
        self.tails = Tails(settings, where, self.replaced, self._tidy)
        self.known = Known()
        self._last: dict[str, str] = {}
        """Of each topic: the identity that it had when it was last there."""
        self._asked: dict[str, tuple[Asked, float]] = {}
        """Of topics: what the brokers are being asked, and since when."""
        self._patience = TURNS * settings.timeout
        self._questions: dict[tuple[str, str, int], Together[Any]] = {}
        """What threads ask together, by what it is, and of which topic and partition."""
        keep_after_fork(self)

    def look(self, topic: str, wait: float | None = None) -> tuple[str, int]:
        """`wait`: seconds for the brokers' answer, if others than for any; then nobody else is waited for."""
        if wait is not None:
            return self._look(topic, wait)
        return self._together(("look", topic, -1), lambda: self._look(topic, None))

    def _together(self, what: tuple[str, str, int], question: Callable[[], T]) -> T:
        """The answer to a question that other threads may ask at the same time."""

        def ask() -> T:
            self.lifetime.check()  # it may have been closed since the caller began to wait
            return question()

        together = self._questions.get(what) or self._questions.setdefault(what, Together(self._patience))
        return together.ask(ask)

    def _look(self, topic: str, wait: float | None) -> tuple[str, int]:
        self._asked.pop(topic, None)
        asked = time.monotonic()
        found = self.topics.describe(topic, wait)
        while found is None and time.monotonic() < asked + _NEWS:
            # Any broker may be asked, and one that hears of a new topic later than the others says that there is none.
            time.sleep(_PAUSE)
            found = self.topics.describe(topic)
        return self._take(topic, found, asked)

    def look_aside(self, topic: str) -> None:
        """Ask the brokers for the topic's identity, or take what they have answered; don't wait for it."""
        asked = self._asked.pop(topic, None)
        if asked is not None and asked[0].done():
            try:
                self._take(topic, self.topics.answer(topic, asked[0]), asked[1])
                return
            except LedgerUnavailable as error:
                log.debug("%s", error)
                asked = None
        self._asked[topic] = asked or (self.topics.ask(topic), time.monotonic())

    def _take(self, topic: str, found: Topic | None, asked: float) -> tuple[str, int]:
        if found is None:
            self.known.forget(topic)
            raise Gone(f"{self.settings.url}: the topic {topic} is gone; a member that looks for it makes it anew")
        if self._last.setdefault(topic, found.identity) != found.identity:
            self._last[topic] = found.identity
            self._renew(topic)
        self.known.put(topic, found.identity, found.partitions, asked)
        return found.identity, found.partitions

    def remake(self, topic: str, partitions: int) -> bool:
        missing = not self.topics.there(topic)
        self.topics.settle(topic, partitions)
        return missing

    def _renew(self, topic: str) -> None:
        """It is another topic of that name: new clients, which know nothing of the one before."""
        self.seeker.renew()
        self.tails.renew()
        self.appender.renew(topic)

    def replaced(self, topic: str) -> None:
        self.seeker.forget()
        self.tails.forget(topic)
        self._asked.pop(topic, None)
        self.known.doubt(topic)

    def refresh(self, topic: str) -> None:
        if not self.settings.readonly:
            self.appender.refresh(topic)

    def ends(self, topic: str, partition: int, least: int = 0) -> tuple[int, int]:
        """As the partition's leader says. One that has just become it answers when it knows: `least` needs no thought."""
        return self._together(("ends", topic, partition), lambda: self.seeker.ends(topic, partition))

    def fetch(self, topic: str, partition: int, offset: int, end: int, max_records: int) -> list[Entry]:
        found, quiet = self.seeker.fetch(topic, partition, offset, end, max_records)
        if quiet:
            self.window(topic, partition).quiet.noted()
        return found

    def append(self, topic: str, payloads: Sequence[bytes], partition: int, urgent: bool) -> list[int]:
        padded = self.window(topic, partition).readers_may_be_lazy
        try:
            return self.appender.append(topic, payloads, partition, urgent=urgent, padded=padded)
        except LedgerUnavailable as error:
            if error.unknown:
                self.seeker.doubt()
            raise

    def catch_up(self, window: Window) -> bool:
        return self._together(("news", window.topic, window.partition), lambda: self._catch_up(window))

    def _catch_up(self, window: Window) -> bool:
        life, since = window.life, time.monotonic()
        news = self.seeker.news(window.topic, window.partition, window.high, window.known)
        if news is not None:
            self.tails.put(window, news, life, since)
        return news is not None

    def stuck(self, window: Window) -> None:
        self.tails.stuck(window)

    def trim(self, topic: str, partition: int, before: int) -> None:
        self.topics.delete_before(topic, partition, before)
        self.seeker.forget()

    def window(self, topic: str, partition: int) -> Window:
        return self.tails.window(topic, partition)

    def follow(self, window: Window, offset: int) -> None:
        self.tails.follow(window, offset)

    def follows(self, topic: str) -> bool:
        heard = self.tails.heard(topic)
        return heard is not None and time.monotonic() < heard + _SILENCE

    def _tidy(self) -> None:
        """By the tail's thread, every few seconds."""
        self.seeker.rest()
        if self.topics.rest():
            self._asked.clear()

    def close(self) -> None:
        if self.lifetime.end():
            self.tails.close()
            self.appender.close()
            self.seeker.close()
            self.topics.close()


class KafkaLog(TailedLog):
    """One topic as a log."""

    kind = "kafka"
    teller = log
    notes = True

    def __init__(self, shared: _Shared, topic: str, url: str) -> None:
        super().__init__(shared, topic, url)
        self._shared = shared

    @property
    def capabilities(self) -> Capabilities:
        from pares.ledger.kafka.group import session_ms

        bound = session_ms(self._shared.settings) / 1000
        return msgspec.structs.replace(super().capabilities, reassignment_bound=bound)

    def broker_time(self) -> bool:
        """Whether entries carry the time of the broker that took them (message.timestamp.type=LogAppendTime). False too if the
        user has no right to see the topic's settings."""
        self._open()
        settings = self._shared.topics.settings_of(self._topic)
        return settings is not None and settings.get("message.timestamp.type") == "LogAppendTime"

    def _identity(self) -> str:
        """The topic's id. Asked aside while the topic is followed: any broker may be asked, also one that is silent while the
        partition's leader is not."""
        self._open()
        shared = self._shared
        known = shared.known.get(self._topic)
        if known is not None and shared.tails.heard(self._topic) is not None:
            now = time.monotonic()
            heard = shared.follows(self._topic)
            ask_at = known[2] + (LOOK if heard else _SILENCE)
            if now >= ask_at:
                shared.look_aside(self._topic)
                known = shared.known.get(self._topic) or known
            if heard or now < ask_at + _ASIDE:
                return known[0]
        return shared.look(self._topic)[0]


class KafkaLedger(KafkaLog):
    """A Kafka cluster, and in it the topic that the URL names; made when it is missing.

    Options: `partitions` (grows an existing topic), `replication` (of a new one), `retention` (seconds, or "none"),
    `timeout` (seconds that a request may take before it is given up; 1), `prefix` (before the names of the topics that
    `topic` is asked for), `config` (a properties file with client settings), `options` (the same as a dictionary), and
    `readonly` (to look on only: it makes nothing, needs no right to write, and takes topics that could not carry a group).

    Opening waits longer for a broker's first answer, 5 seconds, unless `timeout` is given: then so long. A broker that has
    answered has 5 seconds, or `timeout` if that is more, for each thing that is made: a topic, its partitions.

    `topic(name)` is the Kafka topic of that name, where Kafka allows the name. It is also a `Group`, by Kafka's own.
    """

    def __init__(self, address: Address, options: Options) -> None:
        settings = take(address, options)
        shared = _Shared(settings)
        super().__init__(shared, settings.topic, settings.url)
        try:
            shared.topics.connect()
            if settings.readonly:
                shared.topics.found(settings.topic)
                shared.look(settings.topic, settings.connect)
                return
            there = shared.topics.settle(settings.topic, settings.partitions or 1).partitions
            if grown_partitions(self.url, there, settings.partitions) > there:
                self._grow(settings.partitions or there)
            shared.look(settings.topic, settings.connect)
            shared.appender.refresh(settings.topic)
        except BaseException:
            self.close()
            raise

    def _grow(self, partitions: int) -> None:
        self._open()
        shared = self._shared
        shared.topics.grow(self._topic, partitions)
        deadline = time.monotonic() + 5.0
        while shared.look(self._topic)[1] < partitions and time.monotonic() < deadline:
            time.sleep(0.01)

    def has_topic(self, name: str) -> bool:
        """Whether such a topic is there: asking makes none."""
        self._open()
        shared = self._shared
        full = shared.settings.topic_name(name)
        return shared.topics.there(full)

    def topic(self, name: str, partitions: int = 4) -> Log:
        self._open()
        shared = self._shared
        full = shared.settings.topic_name(name)
        check_partitions(partitions, f"topic {name!r}")
        if shared.settings.readonly:
            shared.topics.found(full)
        else:
            shared.topics.settle(full, partitions)
        shared.look(full)
        return KafkaLog(shared, full, f"{self.url}#{quote(name, safe='')}")

    def source(self, topic: str) -> Source:
        """The source of a Kafka topic, named as `topic` names it; see `kafka.source`. It has clients of its own."""
        from pares.ledger.kafka.source import KafkaSource

        self._open()
        return KafkaSource(self._shared.settings, topic)

    def join(
        self,
        group: str,
        partitions: int,
        on_assigned: Callable[[Sequence[int]], None],
        on_revoked: Callable[[Sequence[int]], None],
        on_lost: Callable[[Sequence[int]], None],
        session: float | None = None,
    ) -> Membership:
        """Join Kafka's consumer group `group` for the partitions 0 to `partitions - 1`; see `kafka.group`. `session`: seconds;
        None: the client setting `session.timeout.ms`, or 6."""
        from pares.ledger.kafka.group import KafkaMembership, session_ms

        self._may_write()
        session_ms(self._shared.settings, session)  # before anything is opened: it may contradict
        self._open()
        shared = self._shared
        check_partitions(partitions, f"group {group!r}")
        topic = self._topic
        # As long as opening may take: what a topic is only the controller says, and there may be none for some seconds.
        if shared.look(topic, shared.settings.connect)[1] != partitions:
            # Kafka shares out all partitions of a topic: so one that has just as many, and carries nothing.
            topic = f"{self._topic[:200]}.group-{partitions}"
            shared.topics.settle(topic, partitions)
        told = (on_assigned, on_revoked, on_lost)
        return KafkaMembership(shared.settings, shared.lifetime, topic, group, told, session)

    def remove(self) -> None:
        """Delete the ledger's topic with all that is in it, for everybody; nothing happens if it isn't there.

        Raises `LedgerUnavailable` if the brokers refuse (the user has no right, or they allow no deletion).
        """
        self._may_write()
        self._open()
        self._shared.topics.delete(self._topic)

    def checks(self) -> list[tuple[str, str]]:
        """What `pares doctor` is to say of the topic and its settings: (good, note, warning or problem, and the text)."""
        self._open()
        shared = self._shared
        return [*checks(shared.topics, shared.settings, self.retention)]

    def close(self) -> None:
        super().close()
        self._shared.close()
