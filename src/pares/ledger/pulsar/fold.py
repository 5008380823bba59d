"""Offsets: what they are in a topic whose own ids rise with holes.

**Counting.** An entry's offset is the number of entries before it. So that nobody has to read a log from its beginning, each
record says which record its writer had read last, and which offset comes after that one (see `counted.records`). A reader that
wants to begin at the end takes the last record, goes back to the one that it names, which is a few records before, and counts
from there.

**Copies.** A client whose connection breaks sends again what was not acknowledged, so a record may stand in the topic twice,
and an append of unknown outcome may come late, after the next one of its writer. Such a record does not count: a writer's
appends have numbers, and a number that is not above the one before it is passed over. All readers have to agree on that,
wherever they began. A record's copies stand behind the record that its writer had read last: so a reader that began behind that
one looks back that far (`Before`), and no further.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from pares.ledger.base import Entry
from pares.ledger.counted.records import Head, Start, decode, unpack
from pares.ledger.pulsar.client import Raw

_WRITERS: Final = 4096
"""Writers whose last number is remembered."""
_HALVES: Final = 256
"""Appends of several parts that may be under way; of more, the oldest is given up."""


class Before(Exception):
    """What stands behind the place `after` has to be known, as far as the fold's `low`."""

    def __init__(self, after: int) -> None:
        super().__init__(after)
        self.after = after


class Taken(NamedTuple):
    """What a record has completed."""

    head: Head
    offset: int
    entries: list[Entry]


class Fold:
    """What is known after some records of a topic, in order."""

    def __init__(self, log: str, where: str, next: int, low: int, start: Start | None = None) -> None:
        """Behind the record at the place `low` comes the offset `next`. -1: before all records."""
        self.log = log
        self.next = next
        self.low = low
        """Everything behind this place is known."""
        self.last = low
        """The place of the last record of this log that was read."""
        self.read = low
        """The place of the last message, whoever's it is."""
        self.start = start or Start()
        self.foreign = 0
        """Messages that are none of this log's."""
        self._where = where
        self._numbers: dict[str, tuple[int, int]] = {}
        self._parts: dict[tuple[str, int], dict[int, bytes]] = {}

    @property
    def between(self) -> bool:
        """Whether no append is under way that this reader has begun to read."""
        return not self._parts

    def take(self, raw: Raw) -> Taken | None:
        """The next message. None if it is none of this log's, or changes nothing. Raises `Before`, and then nothing was done;
        and `CapabilityError`."""
        found = decode(raw.data, self.log, self._where)
        if found is None:
            self.foreign += 1
            self.read = raw.place
            return None
        head, body = found
        after = int(head.after) if head.after else -1
        if after < self.low:
            raise Before(after)
        self.read = self.last = raw.place
        if not self._is_next(head):
            return None
        if head.start.offset > self.start.offset and head.start.offset <= self.next:
            self.start = head.start
        if head.kind != "entries":
            return Taken(head, self.next, [])
        whole = self._whole(head, body)
        payloads = None if whole is None else unpack(whole, head.holds)
        if payloads is None:
            return None
        first, self.next = self.next, self.next + head.holds
        return Taken(head, first, [Entry(first + at, raw.ms, each) for at, each in enumerate(payloads)])

    def prepend(self, found: Sequence[Raw], after: int) -> None:
        """What stands behind the place `after`, up to `low`."""
        numbers, self._numbers = self._numbers, {}
        parts, self._parts = self._parts, {}
        for raw in found:
            known = decode(raw.data, self.log, self._where) if after < raw.place <= self.low else None
            if known is not None and self._is_next(known[0]) and known[0].kind == "entries":
                self._whole(*known)
        for by, number in numbers.items():
            self._numbers[by] = max(number, self._numbers.get(by, number))
        for key, bodies in parts.items():
            self._parts[key] = {**self._parts.get(key, {}), **bodies}
        self.low = min(self.low, after)

    def _is_next(self, head: Head) -> bool:
        """Whether its writer has written no later one before it, nor this one."""
        before = self._numbers.pop(head.by, (0, 0))
        number = head.n, head.part
        self._numbers[head.by] = max(before, number)  # behind all others, so that the longest unused goes first
        if len(self._numbers) > _WRITERS:
            del self._numbers[next(iter(self._numbers))]
        return number > before

    def _whole(self, head: Head, body: bytes) -> bytes | None:
        """An append's whole body, once its last part is here."""
        bodies = self._parts.pop((head.by, head.n), {})
        if head.part == head.parts - 1:
            whole = len(bodies) == head.part
            return b"".join([*(bodies[at] for at in sorted(bodies)), body]) if whole else None
        self._parts[head.by, head.n] = {**bodies, head.part: body}
        if len(self._parts) > _HALVES:
            del self._parts[next(iter(self._parts))]
        return None
