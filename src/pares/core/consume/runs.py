"""What is done of one partition, as a position and bounded runs above it: in order, none of which touches another (C3, C9)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from msgspec import Struct

Run = tuple[int, int]
"""From the first offset to before the second."""


def joined(runs: Iterable[Run], position: int = 0) -> list[Run]:
    """What lies at `position` or above it, in order; runs that overlap or touch are one."""
    found: list[Run] = []
    for first, upto in sorted(runs):
        first = max(first, position)
        if first >= upto:
            continue
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], upto))
        else:
            found.append((first, upto))
    return found


def among(runs: Sequence[Run], offset: int) -> bool:
    """Whether one of them has the offset. They are in order."""
    at = bisect_right(runs, (offset, offset)) if runs else 0
    return any(first <= offset < upto for first, upto in runs[max(0, at - 1) : at + 1])


class Done(Struct, frozen=True):
    """All before `position`, and `runs` above it, of which none touches the position."""

    position: int = 0
    runs: tuple[Run, ...] = ()

    def has(self, offset: int) -> bool:
        return offset < self.position or among(self.runs, offset)

    def plus(self, first: int, upto: int) -> Done:
        """With what lies from `first` to before `upto`."""
        runs = joined((*self.runs, (first, upto)), self.position)
        if runs and runs[0][0] == self.position:
            return Done(runs[0][1], tuple(runs[1:]))
        return Done(self.position, tuple(runs))
