"""Reading elsewhere than at the tail: what a reader asks for that is older than the tail's window.

It costs reads of the same shard, of which there are five a second for everybody. So a page is taken whole, as it costs no
more than one record, and is kept: a member that joins looks backwards for a snapshot, and one that trims looks for a place by
age, in a dozen reads each.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from typing import Final

from pares.ledger.base import MAX_READ_BYTES, Entry, limited
from pares.ledger.counted.places import Place
from pares.ledger.kinesis.client import Client
from pares.ledger.kinesis.errors import unavailable
from pares.ledger.kinesis.fold import Fold, Raw
from pares.ledger.kinesis.settings import Settings
from pares.ledger.kinesis.tail import Seen, Tail

_KEPT: Final = 8 << 20
"""Bytes that are kept, beyond what was asked for."""
_BEGINS: Final = 60.0
"""Seconds for which it is believed where a stream begins that forgets by itself."""


class Reads:
    """For any thread."""

    def __init__(self, settings: Settings, client: Client, tail: Tail) -> None:
        self._settings = settings
        self._client = client
        self._tail = tail
        self._lock = threading.Lock()
        self._entries: list[Entry] = []
        self._low = self._high = 0
        """What is kept has everything from `_low` to below `_high`."""
        self._id = ""
        self._begins: tuple[str, int, float] = ("", 0, 0.0)

    def fetch(self, offset: int, end: int, most: int, seen: Seen) -> list[Entry]:
        """Entries from `offset` on; none only if there are none below `end`."""
        with self._lock:
            if self._id != seen.stream.id:
                self._id, self._entries, self._low, self._high = seen.stream.id, [], 0, 0
            if not (self._low <= offset < self._high and (found := self._kept(offset, most))):
                self._read(offset, end, most, seen)
                found = self._kept(offset, most)
            return found

    def _kept(self, offset: int, most: int) -> list[Entry]:
        at = bisect_left(self._entries, offset, key=_offset)
        return limited(self._entries[at : at + most], most)

    def _read(self, offset: int, end: int, most: int, seen: Seen) -> None:
        """Into what is kept."""
        while True:
            place = self._tail.places.before(offset) or self._first(seen)
            if place is not None and place.offset > offset:
                self._begins = ("", 0, 0.0)
                raise unavailable(
                    self._settings.where, f"read at offset {offset}", "it has just gone out of the stream"
                )
            if place is None or self._read_from(place, offset, end, most, seen):
                return
            self._tail.places.drop(place)

    def _read_from(self, place: Place, offset: int, end: int, most: int, seen: Seen) -> bool:
        """False if the stream has this place no more."""
        stream, tail = seen.stream, self._tail
        after = "", 0
        if place.sequence:
            found = tail.page_at(stream, place.sequence)
            if found is None:
                return False
            (sequence, arrival_ms, _), page = found
            after = sequence, arrival_ms
        elif stream.has_its_beginning(self._client.now()):
            page = tail.page(self._client.iterator(tail.name, stream.shard, "TRIM_HORIZON"))
        else:
            return False
        fold = Fold.at(stream.id, stream.born_ms, self._settings.where, place.offset, after)
        self._entries, self._low, self._high = [], place.offset, place.offset
        size = 0
        while True:
            for raw in page.records:
                size += self._take(fold, raw)
            if fold.next is None or fold.begins is not None:
                return False  # what it began from was not the stream's beginning
            wanted = len(self._entries) - bisect_left(self._entries, offset, key=_offset)
            enough = self._high > offset and (self._high >= end or wanted >= most or size > _KEPT + MAX_READ_BYTES)
            if enough or page.behind_ms == 0:
                return True
            size = self._shorten(size, offset)
            page = tail.page(page.next or "")

    def _take(self, fold: Fold, raw: Raw) -> int:
        taken = fold.take(raw)
        if fold.next is not None:
            self._high = fold.next
            if fold.between and fold.last == raw.sequence:
                self._tail.places.passed(fold.next, raw.sequence)
        if taken is None or not taken.entries:
            return 0
        self._entries += taken.entries
        return sum(len(entry.payload) for entry in taken.entries)

    def _shorten(self, size: int, offset: int) -> int:
        """Nobody has asked for what stands before `offset`."""
        if size <= _KEPT:
            return size
        at = bisect_left(self._entries, offset, key=_offset)
        self._low = offset if at == len(self._entries) else min(offset, self._entries[at].offset)
        self._entries = self._entries[at:]
        return sum(len(entry.payload) for entry in self._entries)

    def start(self, seen: Seen) -> int:
        """The first offset that can be read."""
        stream, start = seen.stream, seen.start
        first = self._tail.places.before(0)
        if first is not None and not first.sequence and stream.has_its_beginning(self._client.now()):
            return start.offset
        with self._lock:
            id, offset, asked = self._begins
            if id != stream.id or time.monotonic() > asked + _BEGINS:
                held = bool(start.sequence) and self._tail.page_at(stream, start.sequence) is not None
                place = Place(start.place, start.sequence) if held else self._first(seen)
                offset = place.offset if place is not None else seen.next or 0
                self._begins = stream.id, offset, time.monotonic()
        return max(offset, start.offset)

    def _first(self, seen: Seen) -> Place | None:
        """The first place at which offsets are known, in a stream that has forgotten its beginning."""
        stream, tail = seen.stream, self._tail
        fold = Fold(stream.id, stream.born_ms, self._settings.where)
        page = tail.page(self._client.iterator(tail.name, stream.shard, "TRIM_HORIZON"))
        while True:
            for raw in page.records:
                fold.take(raw)
                if fold.begins is not None:
                    place = Place(*fold.begins)
                    tail.places.add(place)
                    return place
            if page.behind_ms == 0:
                return None
            page = tail.page(page.next or "")


def _offset(entry: Entry) -> int:
    return entry.offset
