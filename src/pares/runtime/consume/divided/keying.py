"""What a term is given of its partition where that is divided by keys (C12): its slot's records, without those that another
division has done.

The slots of a partition that a consumer holds read it together: what one of them has fetched is kept in pieces, each taken
apart by slots once, and serves the others when they come to it. So a partition is fetched once by each consumer that holds
slots of it, as long as these are no further apart than the pieces that are kept; one that is, because its handler takes its
time, fetches what it needs again. The pieces of all partitions have `MOST_KEPT` times `batch_bytes` at most, what a
record takes beside its key and payload included.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from pares.core.consume.names import WHOLE, Partition, place_of
from pares.core.wire.divided.keys import Elsewhere
from pares.ledger.sources import Fetched, Record
from pares.runtime.consume.settings import Settings
from pares.runtime.consume.tenancy import Tenancy

MOST_KEPT: Final = 4
"""Fetches of `batch_bytes` each that are kept for other slots."""
BESIDE: Final = 250
"""Bytes that a record takes beside its key and payload, about. [where payloads are empty, as those of deletions are, pieces
count for nothing, and a slot that stays behind has all of them kept]"""


class Piece:
    """Records of a partition from `first` to before `next`, by slots."""

    def __init__(self, first: int, fetched: Fetched, slots: int) -> None:
        self.first = first
        self.next = fetched.next
        self.bytes = sum(BESIDE + len(record.key or b"") + len(record.payload) for record in fetched.records)
        self._of: dict[int, list[Record]] = {}
        for record in fetched.records:
            self._of.setdefault(place_of(record.key, record.offset) % slots, []).append(record)

    def of(self, slot: int, first: int) -> list[Record]:
        """Those of a slot that stand there or behind."""
        return [record for record in self._of.get(slot, ()) if record.offset >= first]


class Keying:
    """Of one consumer; called by its feeder alone."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pieces: OrderedDict[tuple[Partition, int], Piece] = OrderedDict()
        """By partition and first offset, the one that was used last at the end."""
        self._bytes = 0
        self._ends: dict[Partition, int] = {}
        """Where partitions had nothing to give in this round."""

    def begin_round(self, tenancies: Iterable[Tenancy]) -> None:
        """Each slot will be asked for once more. What all slots that are here have passed is forgotten."""
        if not self._pieces and not self._ends:
            return
        self._ends.clear()
        hindmost: dict[Partition, int] = {}
        for tenancy in tenancies:
            whole, at = tenancy.partition.whole, tenancy.progress.next
            if tenancy.partition.keys and tenancy.term:
                hindmost[whole] = min(at, hindmost.get(whole, at))
        for key, piece in list(self._pieces.items()):
            if key[0] not in hindmost or piece.next <= hindmost[key[0]]:
                self._drop(key)

    def fetch(self, tenancy: Tenancy, most: int) -> Fetched:
        """From where a tenancy is, so many records at most. Raises what the source raises."""
        at = tenancy.progress.next
        if tenancy.partition.slot == WHOLE:
            fetched = self._read(tenancy, at, most)
            return Fetched(tuple(_left(tenancy, fetched.records)), fetched.next)
        piece = self._piece(tenancy, at)
        if piece is None:
            return Fetched((), at)
        tenancy.end = max(tenancy.end, piece.next)
        records = _left(tenancy, piece.of(tenancy.partition.slot, at))
        if len(records) > most:
            return Fetched(tuple(records[:most]), records[most - 1].offset + 1)
        return Fetched(tuple(records), piece.next)

    def _read(self, tenancy: Tenancy, at: int, most: int) -> Fetched:
        number, settings = tenancy.partition.number, self._settings
        return tenancy.source.fetch(number, at, max_records=most, max_bytes=settings.batch_bytes, timeout=0.0)

    def _piece(self, tenancy: Tenancy, at: int) -> Piece | None:
        """One with what stands there; None if there is nothing yet."""
        whole = tenancy.partition.whole
        for key, piece in self._pieces.items():
            if key[0] == whole and piece.first <= at < piece.next:
                self._pieces.move_to_end(key)
                return piece
        if self._ends.get(whole) == at:
            return None
        fetched = self._read(tenancy, at, self._settings.batch)
        if fetched.next <= at:
            self._ends[whole] = at
            return None
        piece = self._pieces[whole, at] = Piece(at, fetched, tenancy.partition.keys)
        self._bytes += piece.bytes
        while self._bytes > MOST_KEPT * self._settings.batch_bytes and len(self._pieces) > 1:
            self._drop(next(iter(self._pieces)))
        return piece

    def _drop(self, key: tuple[Partition, int]) -> None:
        self._bytes -= self._pieces.pop(key).bytes


def _left(tenancy: Tenancy, records: Iterable[Record]) -> list[Record]:
    """Those that no other division has done, as far as the term knows."""
    found = list(records)
    if tenancy.elsewhere and tenancy.progress.next >= max(each.upto for each in tenancy.elsewhere):
        tenancy.elsewhere = ()  # all of that is passed
    return [record for record in found if not _was_done(tenancy.elsewhere, record)] if tenancy.elsewhere else found


def _was_done(elsewhere: Iterable[Elsewhere], record: Record) -> bool:
    at, place = record.offset, place_of(record.key, record.offset)
    return any(
        (at < each.position or any(first <= at < upto for first, upto in each.runs))
        for each in elsewhere
        if place % each.slots == each.slot
    )
