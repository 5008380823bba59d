"""Which of a slot's offsets to work on next, and how many to claim (C11).

A slot's ranges lie between those of other slots, in order. Work goes through them as through a partition, and passes over what
lies between. The next range is claimed when less than half of one is left to give out: so it is there before it is needed, also
when it lies behind the end of the partition, and a record that comes has its owner already. [records are fetched faster than
they are done: where half of one was left to fetch, ranges grew with them, and one of sixteen workers had most of a partition]

How large a range is follows from how long one lasts. Claims are to be few beside the records that they are about, so a range
that was used up in less than a quarter of a session makes the next one twice as large, and eight times as large if it took
less than an eighth of that: a worker that is quick has come to its size after a few claims. [ranges that double from 16 on are
used up before their claims have come back, and the reader goes from place to place for a handful of records each] No worker
is to sit on what others could do, so one that lasted for a session, though there was work at all times, makes the next one
half as large. The largest is so large that at any rate going to the next place of the partition costs little beside reading
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pares.core.wire.divided.ranges import MAX_OPEN
from pares.core.wire.states import Run

FIRST: Final = 16
"""Offsets of the first range that a member claims for a partition."""
LARGEST: Final = 200_000
MUCH: Final = 8
"""So many times as large the next one is, after one that lasted for so small a part of what it should."""


def end_of(runs: Sequence[Run]) -> int:
    """Where the last one ends; 0 if there is none."""
    return runs[-1][1] if runs else 0


class Sizes:
    """How many offsets to claim next, by one member of one partition. Times are of its stopwatch, and arguments."""

    def __init__(self, session_ns: int) -> None:
        self.size = FIRST
        self._session = session_ns
        self._since: int | None = None
        self._idle = False

    def idle(self) -> None:
        """There was nothing to do in what is claimed."""
        self._idle = True

    def claims(self, now: int) -> int:
        """Another range is to be claimed: how large."""
        before, self._since = self._since, now
        idle, self._idle = self._idle, False
        if before is not None:
            if now - before < self._session // 4:
                self.size = min((MUCH if now - before < self._session // 4 // MUCH else 2) * self.size, LARGEST)
            elif now - before > self._session and not idle:
                self.size = max(self.size // 2, 1)
        return self.size


class Ranges:
    """Of one term."""

    def __init__(self, runs: Sequence[Run] = ()) -> None:
        self.runs: list[Run] = list(runs)

    @property
    def end(self) -> int:
        """Where the last one ends; 0 if there was never one."""
        return end_of(self.runs)

    def owns(self, runs: Sequence[Run], position: int) -> None:
        """What the log has given to the slot by now, and has not seen done. Those before `position` are passed; the last one is
        kept, for its end."""
        self.runs = [run for run in runs[:-1] if run[1] > position] + list(runs[-1:])

    def at(self, next: int) -> Run | None:
        """The first one that reaches beyond the offset; None if all of them are passed."""
        return _first(self.runs, next)

    def within(self, first: int, before: int) -> int:
        """How many of these offsets they have."""
        return sum(max(0, min(upto, before) - max(begin, first)) for begin, upto in self.runs)

    def few(self, left: int, next: int, size: int) -> bool:
        """Whether another one is due, of that size. `left`: so many offsets were not given out."""
        return 2 * left <= size and sum(upto > next for _, upto in self.runs) < MAX_OPEN // 2


def _first(runs: Sequence[Run], next: int) -> Run | None:
    for run in runs:
        if run[1] > next:
            return run
    return None
