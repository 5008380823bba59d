"""The newest records of a segment, for readers that keep up.

Such a reader asks for what was read of the file a moment ago; so what readers get of a line is taken from it when it is read,
once, and is a slice of three lists from then on. [of a hundred members each reads what all of them beat: a second walk over the
lines costs as much as the first] Nothing of it is an object that Python's collector looks at. [it comes for each few hundred
of those; and members with one history are all gone through as a whole at the same moment, by which a machine that has a
hundred of them makes their leases run out]
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable
from itertools import count, repeat
from typing import Any, Final, cast

from pares.ledger.base import Entry
from pares.ledger.file.frame import RECORD, Frame

_MOST: Final = 1 << 16
"""Bytes of bodies that are kept of what was asked for."""
_UNREAD: Final = 1 << 19
"""Bytes of bodies that are kept until they are asked for. [a reader that is late finds a second of a storm when it comes, of
which all but the end was let go before it asked: it goes over the file twice, and is later]"""
_made: Final[Callable[[type[Entry], tuple[int, int, bytes]], Entry]] = cast(Any, tuple).__new__
"""Makes an entry in half the time that its class takes."""


class Fresh:
    """Those that were read last. `base`: the offset of the segment's first record; `clock`: the name of the stopwatch whose
    stamps are told."""

    def __init__(self, base: int, clock: bytes) -> None:
        self._base = base
        self._clock = clock
        self._first = 0
        """The number of the oldest one."""
        self._bytes = 0
        self._asked = 0
        """The number behind the newest one that was asked for."""
        self._places = array("Q")
        """Of each record, where its line stands."""
        self._walls = array("q")
        self._payloads: list[bytes] = []
        self._stamps: list[int | None] = []

    def add(self, frame: Frame, at: int, number: int) -> int:
        """Take in the records of the line at this place, the first of which has this number. Returns how many they are."""
        if self._bytes > _MOST:
            self._let_go()
        stamp, wall_ms = frame.stamp(self._clock), frame.wall_us // 1000
        if frame.kind == RECORD:  # a beat: nearly all are
            body = frame.body
            self._bytes += len(body)
            self._places.append(at)
            self._walls.append(wall_ms)
            self._payloads.append(body)
            self._stamps.append(stamp)
            return 1
        payloads = frame.payloads()
        records = len(payloads)
        self._bytes += sum(map(len, payloads))
        self._places.extend(repeat(at, records))
        self._walls.extend(repeat(wall_ms, records))
        self._payloads += payloads
        self._stamps += [stamp] * records
        return records

    def _let_go(self) -> None:
        """Let go of the older half, up to the end of a line, if all of that was asked for, or if it is too much. [readers that
        keep up find nothing of what they ask for, each time all was let go]"""
        gone = (len(self._payloads) + 1) // 2
        while self._places[gone - 1 : gone] == self._places[gone : gone + 1]:
            gone += 1
        if self._first + gone > self._asked and self._bytes <= _UNREAD:
            return
        self._bytes -= sum(map(len, self._payloads[:gone]))
        del self._places[:gone], self._walls[:gone], self._payloads[:gone], self._stamps[:gone]
        self._first += gone

    def has(self, number: int) -> bool:
        """Whether the record with this number is kept, or is still to come."""
        return number >= self._first and bool(self._payloads)

    def reaches(self, at: int) -> bool:
        """Whether a line at this place, if it has records, is kept or still to come."""
        return bool(self._places) and at >= self._places[0]

    def number_at(self, at: int) -> int | None:
        """The number of the first record of the line at this place, which is reached; None if no line with records is there."""
        index = bisect_left(self._places, at)
        return self._first + index if index < len(self._places) and self._places[index] == at else None

    def payload(self, number: int) -> bytes:
        """Of the record with this number, which is kept."""
        return self._payloads[number - self._first]

    def read(self, number: int, most: int, size: int) -> tuple[list[Entry], list[int | None]]:
        """See `Segment.read`. The record with this number is kept."""
        begin = number - self._first
        end = begin + most
        payloads = self._payloads[begin:end]
        if self._bytes > size:
            end = begin + _within(payloads, size)
            payloads = self._payloads[begin:end]
        entries = list(map(_made, repeat(Entry), zip(count(self._base + number), self._walls[begin:end], payloads)))
        stamps = self._stamps[begin:end]
        self._asked = max(self._asked, number + len(entries))
        if self._bytes > _MOST:
            self._let_go()
        return entries, stamps


def _within(payloads: list[bytes], size: int) -> int:
    """How many of these have so many bytes together at most; one at least."""
    total = 0
    for number, payload in enumerate(payloads):
        total += len(payload)
        if total > size and number:
            return number
    return len(payloads)
