"""What a `KafkaSink` has published last, in a topic of its own: a mark in the same transaction as the rows.

The topic is compacted and has one partition; a mark's key is its seat, so the last one that was committed stays. Readers take
committed marks alone, so one seat's open transaction hides what other seats have committed behind it, until it ends: they wait,
and go on in the order in which they have begun.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pares.core.errors import ConfigError, LedgerUnavailable
from pares.ledger.handle_state import keep_after_fork
from pares.ledger.kafka.client import client_module, new_client
from pares.ledger.kafka.errors import GROUP_AUTHORIZATION, PARTITION_EOF, unavailable
from pares.ledger.kafka.seek import READING, Seeker
from pares.ledger.kafka.settings import Settings
from pares.ledger.kafka.topic import Topics
from pares.spark.sinks.base import Seat
from pares.spark.sinks.extents import Published

if TYPE_CHECKING:
    from confluent_kafka import Message

SETTINGS: Final = {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.1",
}
"""What the topic is made with, beside what every topic of pares is."""
_COMMITTED: Final[dict[str, Any]] = {"isolation.level": "read_committed", "fetch.wait.max.ms": 5}
_TURN: Final = 0.1
_PAUSE: Final = 0.02


class Mark(msgspec.Struct, frozen=True):
    """Of a seat. `last`: None if whatever comes may follow. `begun`: written before the rows; it is never the last of a
    transaction that was committed."""

    group: str | None
    role: str
    seat: int
    token: int
    last: Published | None
    begun: bool = False
    v: int = 1


class Marks:
    """The topic's reader. Safe to use from several threads."""

    def __init__(self, settings: Settings, topic: str, patience: float) -> None:
        """`patience`: seconds for which a transaction of another seat may stay open."""
        self.topic: Final = topic
        self._where = f"kafka://{settings.servers}/{topic}"
        self._patience = patience
        self._topics = Topics(settings, self._where)
        self._all = Seeker(settings, self._where)
        self._committed = Seeker(settings, self._where, {"isolation.level": "read_committed"})
        self._settings = settings
        self._consumer: Any = None
        self._lock = threading.Lock()
        self._place = 0
        self._last: dict[tuple[str | None, str, int], Published | None] = {}
        keep_after_fork(self)

    def connect(self, target: str) -> None:
        """Reach the brokers, and make the topic if it is missing. Raises `ConfigError` for one that forgets, and where there is
        no topic `target`."""
        self._topics.connect()
        if not self._topics.there(target):
            raise ConfigError(f"{self._where}: there is no topic {target} that this user may see: make it before")
        self._topics.settle(self.topic, 1, SETTINGS)
        found = self._topics.settings_of(self.topic)
        policy = None if found is None else found.get("cleanup.policy")
        if policy not in (None, "compact"):
            raise ConfigError(
                f"{self._where}: the topic {self.topic} has cleanup.policy={policy}, so a sink would forget what it has "
                "published: set cleanup.policy=compact"
            )

    def last(self, group: str | None, seat: Seat, upto: int | None = None) -> Published | None:
        """What was published last for a seat, by the marks below offset `upto`; None: by all that are there now.

        Raises `LedgerUnavailable`, also if a transaction of another seat stays open below that.
        """
        end = self._all.ends(self.topic, 0)[1] if upto is None else upto
        first = self._settled(end)
        with self._lock:
            self._read(max(self._place, first), end)
            return self._last.get((group, seat.role, seat.seat))

    def _settled(self, end: int) -> int:
        """Waits until no transaction is open below `end`. The first offset that there is.

        Not under the lock: the transaction may be another thread's, which reads marks before it ends.
        """
        deadline = time.monotonic() + self._patience
        while True:
            first, settled = self._committed.ends(self.topic, 0)
            if settled >= end:
                return first
            if time.monotonic() > deadline:
                raise self._late(settled)
            time.sleep(_PAUSE)

    def _read(self, at: int, end: int) -> None:
        """Takes in what is committed from `at` on to below `end`."""
        if at >= end:
            return
        kafka = client_module()
        consumer = self._consumer = self._consumer or new_client("Consumer", self._settings, {**READING, **_COMMITTED})
        consumer.assign([kafka.TopicPartition(self.topic, 0, at)])
        try:
            deadline = time.monotonic() + self._patience
            while True:
                message = consumer.poll(_TURN)
                if message is None:
                    if time.monotonic() > deadline:
                        raise self._late(at)
                elif message.error() is not None:
                    if self._ends(message, end):
                        return
                elif message.offset() >= end:
                    return
                else:
                    self._take(message.value() or b"")
                    self._place = at = message.offset() + 1
        finally:
            consumer.unassign()

    def _ends(self, message: Message, end: int) -> bool:
        """Whether it says that there is nothing more below `end`. Raises `LedgerUnavailable` for what is no such word."""
        error = message.error()
        assert error is not None
        if error.code() == PARTITION_EOF:
            return (message.offset() or 0) >= end
        if error.code() != GROUP_AUTHORIZATION and (error.fatal() or not error.retriable()):
            raise unavailable(error, self._where, "read what was published last", right=f"Read on topic {self.topic}")
        return False

    def _take(self, payload: bytes) -> None:
        mark = _decoded(payload)
        if mark is not None and not mark.begun:
            self._last[mark.group, mark.role, mark.seat] = mark.last

    def _late(self, at: int) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"{self._where}: no answer for {self._patience:g} s to what is committed from {at} on: another seat's transaction "
            "is open there, or the brokers are silent; nothing was published; try again"
        )

    def close(self) -> None:
        with self._lock:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None
        self._all.close()
        self._committed.close()
        self._topics.close()


def key(group: str | None, seat: Seat) -> bytes:
    return msgspec.json.encode([group, seat.role, seat.seat])


def _decoded(payload: bytes) -> Mark | None:
    """None for what no sink has written."""
    try:
        return msgspec.json.decode(payload, type=Mark)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
