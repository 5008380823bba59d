"""Records that were given up (C10): where they are written to, with what a person needs to look at them and to bring them
back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from pares.core.consume.names import Partition
from pares.core.errors import CapabilityError, ConfigError
from pares.ledger import Ledger
from pares.ledger.base import MAX_PAYLOAD
from pares.ledger.sources import Record
from pares.ledger.topics.keyed import Topic
from pares.ledger.topics.opening import open_topic
from pares.runtime.host import Host
from pares.runtime.term import Term

VERSION: Final = 1
MOST_WHY: Final = 2000
"""Characters of a reason."""


class Letter(msgspec.Struct, omit_defaults=True):
    """A record that was given up, as a JSON object; `key` and `payload` in base64. (topic, tag, partition, offset) name it: of
    two letters with the same name one was written again after a crash. `tag` tells topics of one name apart."""

    group: str
    topic: str
    tag: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    payload: bytes | None
    """None: it was too large to be written once more, and stands where it stood."""
    why: str
    deliveries: int
    member: str
    token: int
    v: int = VERSION


class Stream(Protocol):
    """What dead letters are appended to: a `Log`, a topic of a ledger, or anything else with this method."""

    def append(self, payload: bytes, /) -> object: ...


class DeadLetters:
    """Of one consumer. `where`: the name of a topic in the ledger `beside`, a URL of a log, or an opened stream."""

    def __init__(self, where: str | Stream, beside: str | Ledger, host: Host) -> None:
        self._own: list[Ledger] = []
        self._topic: Topic | None = None
        if not isinstance(where, str):
            self._log: Stream = where
            return
        try:
            if "://" in where:
                self._log = self._opened(where, host)
            else:
                ledger = self._opened(beside, host) if isinstance(beside, str) else beside
                self._log = self._topic = open_topic(ledger, where)
        except BaseException:
            self.close()
            raise

    def _opened(self, url: str, host: Host) -> Ledger:
        self._own.append(host.open(url))
        return self._own[-1]

    def write(self, term: Term, record: Record, group: str, why: str, deliveries: int) -> None:
        """A record that was given out in that term. Returns when it stands there. Raises what the ledger raises."""
        partition = Partition.of(term.role)
        assert partition is not None, "the term of a consumer is a partition's"
        place = (group, partition.topic, partition.tag, partition.number, record.offset, record.timestamp_ms)
        end = (why[:MOST_WHY], deliveries, term.member, term.token)
        payload = msgspec.json.encode(Letter(*place, record.key, record.payload, *end))
        if len(payload) > MAX_PAYLOAD:
            payload = msgspec.json.encode(Letter(*place, record.key, None, *end))
        if self._topic is not None:
            self._topic.append(payload, key=record.key)
        else:
            self._log.append(payload)

    def close(self) -> None:
        """Of what was opened here."""
        if self._topic is not None:
            self._topic.close()
        for ledger in self._own:
            ledger.close()


def opened(where: str | Stream, beside: str | Ledger, topics: Iterable[str], host: Host) -> DeadLetters:
    """For a consumer of these topics. Raises `ConfigError`, and what opening raises."""
    if isinstance(where, str) and where in topics:
        raise ConfigError(f"dead_letter is {where!r}, which is consumed itself: give the name of another topic")
    try:
        return DeadLetters(where, beside, host)
    except CapabilityError as error:
        raise CapabilityError(
            f"dead_letter={where!r} can't be a topic there: give the URL of a log, or anything with append(payload) ({error})"
        ) from None


def letter_of(payload: bytes) -> Letter:
    """What stands in a dead-letter stream. Raises `ConfigError` for what is no dead letter."""
    try:
        return msgspec.json.decode(payload, type=Letter)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"this is no dead letter of pares: {error}") from None
