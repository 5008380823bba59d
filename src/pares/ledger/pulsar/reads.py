"""Reading elsewhere than at the tail: what a reader asks for that is older than the tail's window.

It costs a reader of its own, which is made and dropped, so more than was asked for is read, and kept: a member that joins looks
backwards for a snapshot, and one that trims looks for a place by age, in a dozen reads each.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import Final

from pares.ledger.base import MAX_READ_BYTES, Entry, limited
from pares.ledger.counted.places import Place
from pares.ledger.pulsar.client import Client
from pares.ledger.pulsar.errors import unavailable
from pares.ledger.pulsar.feed import Feed, Seen
from pares.ledger.pulsar.fold import Fold
from pares.ledger.pulsar.seek import at, look_back
from pares.ledger.pulsar.settings import Settings

_KEPT: Final = 8 << 20
"""Bytes that are kept, beyond what was asked for."""
_AHEAD: Final = 5_000
"""Entries that are read, if there are so many."""


class Reads:
    """For any thread. Raises `Refused`, `Broken` and `LedgerUnavailable`."""

    def __init__(self, settings: Settings, client: Client, feed: Feed) -> None:
        self._settings = settings
        self._client = client
        self._feed = feed
        self._lock = threading.Lock()
        self._entries: list[Entry] = []
        self._low = self._high = 0
        """What is kept has everything from `_low` to below `_high`."""
        self._log = ""

    def fetch(self, offset: int, end: int, most: int, seen: Seen) -> list[Entry]:
        """Entries from `offset` on; none only if there are none below `end`."""
        with self._lock:
            if self._log != seen.log:
                self._log, self._entries, self._low, self._high = seen.log, [], 0, 0
            if not (self._low <= offset < self._high and (found := self._kept(offset, most))):
                self._read(offset, end, most, seen)
                found = self._kept(offset, most)
            return found

    def _kept(self, offset: int, most: int) -> list[Entry]:
        first = bisect_left(self._entries, offset, key=_offset)
        return limited(self._entries[first : first + most], most)

    def _read(self, offset: int, end: int, most: int, seen: Seen) -> None:
        """Into what is kept."""
        places, start = self._feed.places, Place(seen.start.place, seen.start.sequence)
        while True:
            place = places.before(offset)
            if place is None or place.offset < start.offset <= offset:
                place = start
            if place.offset > offset:
                why = "what stands there was deleted, and not by pares"
                raise unavailable(self._settings.where, f"read at offset {offset}", why)
            if self._read_from(place, offset, end, most, seen):
                return
            if place == start:
                why = "where the log begins was deleted, and not by pares"
                raise unavailable(self._settings.where, f"read at offset {offset}", why)
            places.drop(place)

    def _read_from(self, place: Place, offset: int, end: int, most: int, seen: Seen) -> bool:
        """False if the topic has this place no more."""
        name, low = self._feed.name, int(place.sequence) if place.sequence else -1
        if low < 0:
            reader = self._client.reader(name, -1)
        elif (begun := at(self._client, self._settings, name, low)) is None:
            return False
        else:
            reader = begun[0]
        fold = Fold(seen.log, self._settings.where, place.offset, low)
        self._entries, self._low, self._high = [], place.offset, place.offset
        size = 0
        try:
            while fold.next < end and not (fold.next > offset and self._enough(offset, most, size)):
                raw = reader.next(self._settings.timeout)
                if raw is None:
                    raise unavailable(
                        self._settings.where, f"read at offset {offset}", "the broker does not show it in time"
                    )
                taken = look_back(self._client, self._settings, name, fold, raw)
                if fold.between:
                    self._feed.places.passed(fold.next, str(raw.place))
                if taken is not None:
                    self._entries += taken.entries
                    size += sum(len(entry.payload) for entry in taken.entries)
                    size = self._shorten(size, offset)
                self._high = fold.next
        finally:
            reader.close()
        return True

    def _enough(self, offset: int, most: int, size: int) -> bool:
        wanted = len(self._entries) - bisect_left(self._entries, offset, key=_offset)
        return wanted >= max(most, _AHEAD) or size > _KEPT + MAX_READ_BYTES

    def _shorten(self, size: int, offset: int) -> int:
        """Nobody has asked for what stands before `offset`."""
        if size <= _KEPT:
            return size
        first = bisect_left(self._entries, offset, key=_offset)
        self._low = offset if first == len(self._entries) else min(offset, self._entries[first].offset)
        self._entries = self._entries[first:]
        return sum(len(entry.payload) for entry in self._entries)


def _offset(entry: Entry) -> int:
    return entry.offset
