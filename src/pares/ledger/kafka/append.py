"""Appending to Kafka: one idempotent producer a ledger, and what is known of an append that failed.

**One append, one record batch.** A broker takes a record batch whole or not at all, and puts nobody's records in between. So
the payloads of an append are collected (`linger.ms` is long) and then sent off at once (`flush`), one append at a time.

**No stale records.** An append that gets no answer in time is given up: it is purged from the client, which never sends it
again. What is already on the wire may still reach the broker. For how long is bounded twice over:

- by the wire: a request that reached the broker's machine is carried out when the broker goes on, or never;
- by the next append through this ledger to that partition: once it is acknowledged, an earlier one that failed has landed
  before it, or never will. The producer numbers its batches, and raises its epoch after one that it gave up, so the broker
  refuses what comes too late. (It would need a new producer to lose that, so there is one as long as the ledger is open.)

And there is never more than one such append a partition and ledger: after a failure the next one begins by asking the
partition's leader for its bounds, and sends nothing before the leader has answered.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pares.core.errors import ConfigError, LedgerUnavailable
from pares.ledger.base import MAX_BATCH, MAX_BATCH_BYTES
from pares.ledger.kafka.client import client_module, new_client, purge
from pares.ledger.kafka.errors import GONE, NO_RIGHT, TOO_LARGE, refused, too_large, unavailable
from pares.ledger.kafka.marks import Headers, headers
from pares.ledger.kafka.settings import Settings, log

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_LAST_WORDS: Final = 0.5
"""Seconds to wait for what becomes of an append that was purged."""
_NEWS: Final = 0.1
"""Seconds for which a topic that was refused is asked for again, before the refusal counts."""
_LOOK: Final = 0.2
"""Seconds that an append after one that failed waits for news of who leads its partition. What it asks may be the very broker
that is cut off, and that is not to hold it up for long."""
_FIRST: Final = 2.0
"""Seconds that the first append may take in any case: the producer needs a number from the brokers first."""
OVERHEAD: Final = 128
"""Bytes that a record batch of one record has besides its payload, and more than that."""
_FATAL: Final = -150
_EACH: Final = 48
"""Bytes that a record has besides its payload and its padding, and more than that."""
LARGEST: Final = MAX_BATCH_BYTES + (2 << 20)
"""Bytes of the record batch for the largest append."""


class _Sent:
    """What became of the records of one append."""

    __slots__ = ("error", "left", "offsets")

    def __init__(self, count: int) -> None:
        self.left = count
        self.offsets: list[int] = []
        self.error: KafkaError | None = None

    def answered(self, error: KafkaError | None, message: Message) -> None:
        self.left -= 1
        offset = message.offset() if error is None else None
        if error is not None or offset is None:
            self.error = self.error or error
        else:
            self.offsets.append(offset)


class Appender:
    """Appends of one ledger, to any topic. Safe to use from several threads; they take turns."""

    def __init__(
        self, settings: Settings, where: str, largest: Callable[..., int], ask: Callable[[str, int], object]
    ) -> None:
        self._settings = settings
        self._where = where
        self._largest = largest
        self._ask = ask
        self._producers: dict[str, Any] = {}
        """By topic: one for each that was made anew, and one, of the topic "", for all others."""
        self._turn = threading.Lock()
        self._shaken: set[tuple[str, int]] = set()
        """Partitions in which an append is of unknown outcome."""
        self._fatal: KafkaError | None = None
        """Why the producer can't go on."""
        self._troubles = 0
        self._told = ""
        self._anew: set[str] = set()
        """Topics that were deleted and made anew while this ledger was open."""
        self._warm: set[str] = set()
        """Topics, as above, whose producer has a number from the brokers."""

    @property
    def told(self) -> str:
        """What the client has last said of its connections."""
        return self._told

    def connect(self, topic: str) -> Any:
        """The producer for this topic; made if there is none."""
        key = self._key(topic)
        if key not in self._producers:
            self._fatal = None
            self._producers[key] = new_client(
                "Producer",
                self._settings,
                {
                    "acks": "all",
                    "enable.idempotence": True,
                    "delivery.timeout.ms": 2 * max(self._settings.milliseconds, 1000),
                    "request.timeout.ms": self._settings.milliseconds,
                    "linger.ms": max(self._settings.milliseconds, 1000),
                    "batch.num.messages": MAX_BATCH,
                    "batch.size": LARGEST,
                    "message.max.bytes": LARGEST,
                    "queue.buffering.max.messages": 4 * MAX_BATCH,
                    "error_cb": self._error,
                },
            )
        return self._producers[key]

    def renew(self, topic: str) -> None:
        """The topic was made anew. A producer that knew the old one may go on asking the broker that led it, for ever: it
        takes the new one's first epochs for old news (librdkafka's issue 4898). What it may still have on the wire was meant
        for a log that is gone, so nothing is lost with it; but it is for other topics too, and goes on serving those.
        """
        with self._turn:
            if topic in self._anew:
                self._drop(topic)
            self._anew.add(topic)

    def _key(self, topic: str) -> str:
        return topic if topic in self._anew else ""

    def _drop(self, topic: str) -> None:
        """The next append makes another producer."""
        key = self._key(topic)
        self._warm.discard(key)
        producer = self._producers.pop(key, None)
        if producer is not None:
            # Nothing of it may be sent any more; the client itself ends when it is forgotten.
            purge(producer)

    def append(
        self, topic: str, payloads: Sequence[bytes], partition: int, *, urgent: bool = True, padded: bool = False
    ) -> list[int]:
        """The offsets of `payloads`, appended in one record batch if that is not larger than the topic allows. `urgent`, and
        `padded` if readers may be lazy: see `kafka.marks`."""
        deadline = time.monotonic() + self._settings.timeout
        if not self._turn.acquire(timeout=self._settings.timeout):
            raise LedgerUnavailable(
                f"{self._where}: could not append: other appends of this ledger take too long; try again"
            )
        asked = (topic, partition) in self._shaken
        try:
            if asked:
                # Raises if the leader doesn't answer; then nothing was sent.
                self._ask(topic, partition)
                # The client may have heard in the outage that nobody leads the partition, and would not ask again for minutes.
                self.refresh(topic, _LOOK)
                deadline = max(deadline, time.monotonic() + self._settings.timeout / 2)
            producer = self.connect(topic)
            if self._key(topic) not in self._warm:
                deadline = max(deadline, time.monotonic() + _FIRST)
            offsets: list[int] = []
            for part in self._parts(topic, payloads):
                marks = headers(part, urgent=urgent, padded=padded, limit=self._largest(topic))
                try:
                    offsets += self._send(producer, topic, part, partition, deadline, marks)
                except LedgerUnavailable as error:
                    # Of an append in parts a part may stand in the log already.
                    error.unknown = error.unknown or bool(offsets)
                    if asked and error.unknown:
                        # The second on end, and the partition's leader has just answered another client: what hangs is this
                        # producer, with requests of before the outage. [eleven of twelve unanswered 15 s after a thaw]
                        log.info(
                            "%s: the producer hears nothing though the leader answers: another one is made", self._where
                        )
                        self._drop(topic)
                    raise
            self._shaken.discard((topic, partition))
            self._warm.add(self._key(topic))
            return offsets
        finally:
            self._turn.release()

    def _parts(self, topic: str, payloads: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
        """What goes into one record batch each: everything, unless the topic takes less. Raises for what fits in none."""
        limit = self._largest(topic)
        need = [len(payload) + _EACH for payload in payloads]
        if sum(need) + OVERHEAD > limit:
            limit = self._largest(topic, again=True)
        if max(need) + OVERHEAD - _EACH > limit:
            raise too_large(self._where, max(map(len, payloads)), limit)
        begin, size = 0, OVERHEAD
        for at, bytes_ in enumerate(need):
            if size + bytes_ > limit and at > begin:
                yield payloads[begin:at]
                begin, size = at, OVERHEAD
            size += bytes_
        yield payloads[begin:]

    def _send(
        self,
        producer: Any,
        topic: str,
        payloads: Sequence[bytes],
        partition: int,
        deadline: float,
        marks: Sequence[Headers],
    ) -> list[int]:
        troubles, sent = self._troubles, _Sent(len(payloads))
        for at, payload in enumerate(payloads):
            try:
                self._produce(producer, topic, payload, partition, sent, marks[at])
            except BaseException:
                # What was collected before it has not been sent yet, and never will be.
                self._give_up(producer, sent, len(payloads) - at)
                raise
        self._serve(producer, max(0.001, deadline - time.monotonic()), flush=True)
        if sent.left:
            self._give_up(producer, sent, 0)
        if not sent.left and sent.error is None:
            return sent.offsets
        raise self._failed(sent, topic, payloads, partition, troubled=self._troubles != troubles)

    def _produce(self, producer: Any, topic: str, payload: bytes, partition: int, sent: _Sent, marks: Headers) -> None:
        """Hand one record over to the client, which sends nothing yet."""
        kafka = client_module()
        end = time.monotonic() + _NEWS
        while True:
            try:
                producer.produce(topic, payload, partition=partition, on_delivery=sent.answered, headers=marks)
                return
            except BufferError as error:
                raise LedgerUnavailable(
                    f"{self._where}: could not append: the client's queue is full; try again later"
                ) from error
            except kafka.KafkaException as error:
                why: KafkaError = error.args[0]
            if why.code() in (*GONE, *NO_RIGHT) and time.monotonic() < end and self.refresh(topic):
                # The client goes by what it heard last: the topic may have grown, or be there again, or the right.
                time.sleep(0.01)
                continue
            if why.fatal() or why.code() == _FATAL:
                # Why it can't go on, it says to its callback. The next append makes another one.
                self._serve(producer, 0)
                why = self._fatal or why
                self._drop(topic)
            raise unavailable(why, self._where, "append", told=self._told, right=f"Write on topic {topic}")

    def _give_up(self, producer: Any, sent: _Sent, never: int) -> None:
        """Take back what is not answered yet; the last `never` records were not even handed over."""
        purge(producer)
        end = time.monotonic() + _LAST_WORDS
        while sent.left > never and time.monotonic() < end:
            self._serve(producer, 0.01)

    def _failed(
        self, sent: _Sent, topic: str, payloads: Sequence[bytes], partition: int, *, troubled: bool
    ) -> LedgerUnavailable | ConfigError:
        kafka = client_module()
        error = sent.error or kafka.KafkaError(kafka.KafkaError._MSG_TIMED_OUT)
        # Without a number from the brokers the producer has never sent anything.
        never = self._fatal is not None and self._key(topic) not in self._warm
        error = self._fatal or error
        certain = not sent.offsets and (never or (not sent.left and refused(error) and not troubled))
        if error.fatal() or error.code() == _FATAL:
            self._drop(topic)
        if not certain:
            self._shaken.add((topic, partition))
        if certain and error.code() in TOO_LARGE:
            return too_large(self._where, max(map(len, payloads)), self._largest(topic, again=True))
        told, right = self._told if troubled else "", f"Write on topic {topic}"
        return unavailable(error, self._where, "append", unknown=not certain, told=told, right=right)

    def _serve(self, producer: Any, timeout: float, *, flush: bool = False) -> None:
        """Let the producer's callbacks run. It raises here what ends it."""
        kafka = client_module()
        try:
            if flush:
                producer.flush(timeout)
            else:
                producer.poll(timeout)
        except (kafka.KafkaException, SystemError) as error:
            # A SystemError when a delivery report came together with it: the client's binding calls back regardless.
            why: Any = error if isinstance(error, kafka.KafkaException) else error.__cause__
            if not isinstance(why, kafka.KafkaException):
                raise
            self._error(why.args[0])

    def refresh(self, topic: str, timeout: float | None = None) -> bool:
        """Have the producer look at the topic again; False if no broker answers in `timeout` seconds (None: the ledger's)."""
        kafka = client_module()
        seconds = self._settings.timeout if timeout is None else min(timeout, self._settings.timeout)
        try:
            self.connect(topic).list_topics(topic, timeout=seconds)
        except kafka.KafkaException as error:
            log.debug("%s: no news of %s: %s", self._where, topic, error)
            return False
        return True

    def _error(self, error: KafkaError) -> None:
        self._troubles += 1
        self._told = self._settings.scrubbed(error.str())
        if error.fatal():
            self._fatal = error
        log.debug("%s: %s", self._where, self._told)

    def close(self) -> None:
        """Give the producer back. An append that another thread is in the middle of ends first, or fails."""
        got = self._turn.acquire(timeout=self._settings.timeout + _LAST_WORDS)
        try:
            producers, self._producers = [*self._producers.values()], {}
            for producer in producers:
                purge(producer)
                self._serve(producer, _LAST_WORDS, flush=True)
                if len(producer) == 0 and got:
                    # At once, and not when the last traceback that knows the client is forgotten.
                    producer.close()
        finally:
            if got:
                self._turn.release()
