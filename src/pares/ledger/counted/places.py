"""Places of a stream at which offsets are known: where reading from an offset may begin."""

from __future__ import annotations

import bisect
import threading
from typing import Final, NamedTuple

_EVERY: Final = 64
"""Records between two places that are kept."""
_MOST: Final = 4096


class Place(NamedTuple):
    """Behind the record with this sequence number comes this offset. An empty one: the stream's beginning."""

    offset: int
    sequence: str


class Places:
    """In ascending order, the last of each stretch. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: list[Place] = []
        self._passed = 0

    def passed(self, offset: int, sequence: str) -> None:
        """The tail has come here."""
        self._passed += 1
        if self._passed >= _EVERY:
            self._passed = 0
            self.add(Place(offset, sequence))

    def add(self, place: Place) -> None:
        with self._lock:
            at = bisect.bisect_left(self._places, place.offset, key=_offset)
            if at < len(self._places) and self._places[at].offset == place.offset:
                return
            self._places.insert(at, place)
            if len(self._places) > _MOST:
                del self._places[::2]

    def before(self, offset: int) -> Place | None:
        """The last one that is not behind this offset."""
        with self._lock:
            at = bisect.bisect_right(self._places, offset, key=_offset)
            return self._places[at - 1] if at else None

    def drop(self, place: Place) -> None:
        """The stream has it no more; nor those before it."""
        with self._lock:
            self._places = [each for each in self._places if each.offset > place.offset]

    def clear(self) -> None:
        with self._lock:
            self._places = []


def _offset(place: Place) -> int:
    return place.offset
