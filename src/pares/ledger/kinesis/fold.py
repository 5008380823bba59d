"""Offsets: what they are in a stream whose own numbers have 186 bits and holes, and whose beginning is gone after a day.

**Counting.** An entry's offset is the number of entries before it. A stream that still has its beginning is counted from there.
Later a reader can't do that, nor would it want to: so each record says which record its writer had read last, and which offset
comes after that one. A reader that begins anywhere goes on until a record names one that it has read, and then knows all
offsets, also of what it has passed. Records are written all the time where members are, so that takes two or three of them.

**Births.** A log that nobody has written to for `SILENCE` begins at a new offset, which its next writer says by a `birth`: the
microseconds from the making of the stream to the arrival of the birth, by the service's clock. No stream of one shard takes an
entry each microsecond, so that is above every offset that was ever given out, also where nobody can count any more. A birth
counts if it names the record before it, or if that is older than `SILENCE`; else its writer was not the only one, and goes by
what the others wrote. All readers that know the record before it agree on that; others know no offset until a later record
tells them.

**Parts.** An append counts where its last part stands, whether a reader has the others or not. A reader that began in the
middle of one knows where its entries are and can't read them; nobody who reads from an earlier place is troubled by that.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pares.ledger.base import Entry
from pares.ledger.counted.records import LIMIT, Head, Start, decode, unpack

SILENCE: Final = 6 * 3_600_000
"""Milliseconds: a quarter of the least that a stream keeps."""
_WRITERS: Final = 256
"""Appends of several parts that may be under way; of more, the oldest is given up."""


class Raw(NamedTuple):
    """A record as the service gives it."""

    sequence: str
    arrival_ms: int
    data: bytes


class Taken(NamedTuple):
    """What a record has completed: an append with its entries (None: this reader lacks a part of it), or nothing yet."""

    head: Head
    offset: int
    entries: list[Entry] | None


class Fold:
    """What is known after some records of a stream, in order. `next` is None as long as no offset is known."""

    def __init__(
        self, log: str, born_ms: int, where: str, *, next: int | None = None, start: Start | None = None
    ) -> None:
        self.log = log
        self.next = next
        self.last = ""
        """The sequence number of the last record of this log that was read."""
        self.last_ms = 0
        self.start = start or Start()
        self.whole = False
        """Whether the stream was read from the first record that it still has."""
        self.foreign = 0
        """Records that are none of this log's."""
        self.begins: tuple[int, str] | None = None
        """The offset behind the first record that was read, and that record's sequence number, once offsets are known."""
        self._where = where
        self._born_ms = born_ms
        self._count = 0
        self._counts: dict[str, int] = {}
        self._parts: dict[tuple[str, int], list[bytes]] = {}

    @classmethod
    def at(cls, log: str, born_ms: int, where: str, offset: int, after: tuple[str, int]) -> Fold:
        """After the record with this sequence number and time of arrival, behind which comes this offset. An empty number:
        before all records."""
        fold = cls(log, born_ms, where, next=offset)
        fold.last, fold.last_ms = after
        fold.whole = not fold.last
        return fold

    @property
    def between(self) -> bool:
        """Whether no append is under way that this reader has begun to read."""
        return not self._parts

    def take(self, raw: Raw) -> Taken | None:
        """The next record. None if it is none of this log's, or changes nothing. Raises `CapabilityError`."""
        found = decode(raw.data, self.log, self._where)
        if found is None:
            self.foreign += 1
            return None
        head, body = found
        before, before_ms = self.last, self.last_ms
        self.last, self.last_ms = raw.sequence, raw.arrival_ms
        if head.start.offset > self.start.offset and (self.next is None or head.start.offset <= self.next):
            self.start = head.start
        if not before and self.next == 0 and head.after:
            # Its writer had read another: the stream has lost its beginning all the same (its retention was lower once).
            self.next = None
        if head.kind == "birth":
            self._birth(head, raw, before, before_ms)
        else:
            self._learn(head)
        taken = self._entries(head, body, raw.arrival_ms) if head.kind == "entries" else None
        if self.next is None:
            self._counts[raw.sequence] = self._count
        if head.kind != "entries":
            return Taken(head, -1 if self.next is None else self.next, [])
        return taken

    def _learn(self, head: Head) -> None:
        if self.next is None and (known := self._counts.get(head.after)) is not None:
            self.next = head.next + self._count - known
            first = next(iter(self._counts))
            self.begins = head.next - (known - self._counts[first]), first
            self._counts = {}

    def _birth(self, head: Head, raw: Raw, before: str, before_ms: int) -> None:
        if before:
            counts = head.after == before or (before_ms > 0 and raw.arrival_ms > before_ms + SILENCE)
        else:
            counts = self.whole and not head.after
        if counts:
            new = max(0, raw.arrival_ms - self._born_ms) * 1000
            if self.next is None:
                self.begins = new, raw.sequence
            self.next = min(new if self.next is None else max(new, self.next), LIMIT - 1)
            self._counts = {}

    def _entries(self, head: Head, body: bytes, arrival_ms: int) -> Taken | None:
        key = head.by, head.n
        parts = self._parts.pop(key, [])
        whole = len(parts) == head.part
        if head.part < head.parts - 1:
            if whole:
                self._parts[key] = [*parts, body]
                if len(self._parts) > _WRITERS:
                    del self._parts[next(iter(self._parts))]
            return None
        self._count += head.holds
        if self.next is None:
            return None
        first, self.next = self.next, self.next + head.holds
        payloads = unpack(b"".join([*parts, body]), head.holds) if whole else None
        if payloads is None:
            return Taken(head, first, None)
        return Taken(head, first, [Entry(first + at, arrival_ms, each) for at, each in enumerate(payloads)])
