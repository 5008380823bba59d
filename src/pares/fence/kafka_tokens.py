"""The topic in which a `KafkaFence` keeps tokens: one record for each term that has passed, in one partition.

A record is written inside a transaction of the seat's own id, so it stands there only if the broker still let its writer in.
Its key names seat and token, so that compaction keeps the record of a high token whatever comes after it: with a key that
names the seat alone, a late record of a lower token would make the broker forget the higher one. A term that passes deletes
its predecessor's record (a record without a value), so the topic stays as small as there are seats.

Readers take every record, also of transactions that were aborted or are still open: each was written by somebody who had
been given that token, and a token that was given out is what a lower one has to yield to. And so another seat's transaction
that never ends hides nothing from them.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

import msgspec

from pares.core.errors import ConfigError, LedgerUnavailable
from pares.fence.base import MAX_TOKEN
from pares.ledger.kafka.seek import Seeker
from pares.ledger.kafka.settings import Settings
from pares.ledger.kafka.topic import Topics

SETTINGS: Final = {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "min.cleanable.dirty.ratio": "0.1",
    "max.message.bytes": "1048588",
}
"""What the topic is made with, beside what every topic of pares is."""
_PAUSE: Final = 0.01
_AT_ONCE: Final = 10_000


class Passed(msgspec.Struct, frozen=True):
    """A term that has passed the fence."""

    group: str | None
    role: str
    seat: int
    token: int
    at_ms: int
    """The writer's wall clock, for people."""


class Found(NamedTuple):
    """Tokens of one seat."""

    highest: int | None
    below: int | None
    """The highest that is lower than the one asked about: of its predecessor."""


class Tokens:
    """The topic's reader. Safe to use from several threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.where: Final = f"kafka://{settings.servers}/{settings.topic}"
        self._topics = Topics(settings, self.where)
        self._seeker = Seeker(settings, self.where)

    def connect(self) -> None:
        """Reach the brokers, and make the topic if it is missing. Raises `ConfigError` for one that forgets."""
        topic = self._settings.topic
        self._topics.connect()
        self._topics.settle(topic, 1, SETTINGS)
        found = self._topics.settings_of(topic)
        policy = None if found is None else found.get("cleanup.policy")
        if policy not in (None, "compact"):
            raise ConfigError(
                f"{self.where}: the topic {topic} has cleanup.policy={policy}, so a fence that keeps its tokens there would "
                "forget them: name a topic for the fence alone (it is made if it is missing), or set cleanup.policy=compact"
            )

    def find(self, group: str | None, role: str, seat: int, token: int = 0, upto: int = 0) -> Found:
        """What stands of a seat, by the partition's leader, now. `upto`: read at least all below this offset.

        Raises `LedgerUnavailable`, also if the log that answers ends before `upto`.
        """
        topic = self._settings.topic
        first, end = self._ends(upto)
        self._seeker.forget()
        given = set[int]()
        while first < end and (entries := self._seeker.fetch(topic, 0, first, end, _AT_ONCE)[0]):
            for entry in entries:
                passed = decode(entry.payload)
                if passed is not None and (passed.group, passed.role, passed.seat) == (group, role, seat):
                    given.add(passed.token)
            first = entries[-1].offset + 1
        return Found(max(given, default=None), max((one for one in given if one < token), default=None))

    def _ends(self, upto: int) -> tuple[int, int]:
        deadline = time.monotonic() + self._settings.timeout
        while True:
            first, end = self._seeker.ends(self._settings.topic, 0)
            if end >= upto:
                return first, end
            # A broker that led the partition, and has not heard yet that another one does, knows less than was acknowledged.
            if time.monotonic() > deadline:
                raise LedgerUnavailable(
                    f"{self.where}: the topic ends at {end}, though a record before {upto} was acknowledged: was it deleted, "
                    "or is its leader changing? Nothing was written; try again"
                )
            time.sleep(_PAUSE)

    def close(self) -> None:
        self._seeker.close()
        self._topics.close()


def key(group: str | None, role: str, seat: int, token: int) -> bytes:
    return msgspec.json.encode([group, role, seat, token])


def encode(passed: Passed) -> bytes:
    return msgspec.json.encode(passed)


def decode(payload: bytes) -> Passed | None:
    """None for what no fence has written."""
    try:
        passed = msgspec.json.decode(payload, type=Passed)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return passed if 0 <= passed.token < MAX_TOKEN else None
