"""Which records of a term may be given out now (C9): what waits, what is out, what is to be given out again later (C10).

A lane is what is in order: a partition, a key, or a single record. Of one lane one record is out at a time, and the next one
follows when it is done: also while it waits for its retry, so that order holds, and no other lane waits for it. Lanes that have
something to give are served in the order of offsets, what comes again first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, Generic, Literal, TypeVar

from msgspec import Struct

Order = Literal["partition", "key", "none"]
T = TypeVar("T")
MAX_SLEEPING: Final = 250
"""Records of one partition that wait for a retry, before nothing new of it is given out: what is kept of them in the log is
bounded, too."""


class Entry(Struct, Generic[T], eq=False):
    """One record. `tries`: how often it was given out."""

    offset: int
    lane: object
    value: T
    tries: int = 0


class Lanes(Generic[T]):
    """Of one term. Times are of a stopwatch, and arguments."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._behind: dict[object, deque[Entry[T]]] = {}
        """By lane, while one of it is ready, out or asleep: those that wait for it."""
        self._new: list[tuple[int, Entry[T]]] = []
        self._again: list[tuple[int, Entry[T]]] = []
        self._asleep: list[tuple[int, int, Entry[T]]] = []
        self.left = 0
        """Records that are not done, wherever they are."""
        self.out = 0
        """Records that are given out."""

    @property
    def ready(self) -> int:
        """Lanes that have something to give, as of the last `wake`."""
        return len(self._new) + len(self._again)

    @property
    def asleep(self) -> int:
        return len(self._asleep)

    @property
    def unstarted(self) -> int:
        """Records that are not out."""
        return self.left - self.out

    def lane_of(self, offset: int, key: bytes | None) -> object:
        """Records without a key are in no order but that of a partition."""
        if self._order == "partition":
            return None
        return offset if self._order == "none" or key is None else key

    def add(self, offset: int, key: bytes | None, value: T, tries: int = 0) -> None:
        """One more record, of a greater offset than all before."""
        entry = Entry(offset, self.lane_of(offset, key), value, tries)
        self.left += 1
        behind = self._behind.get(entry.lane)
        if behind is None:
            self._behind[entry.lane] = deque()
            self._make_ready(entry)
        else:
            behind.append(entry)

    def _make_ready(self, entry: Entry[T]) -> None:
        heappush(self._again if entry.tries else self._new, (entry.offset, entry))

    def wake(self, now: int) -> None:
        """Retries whose time has come are ready."""
        while self._asleep and self._asleep[0][0] <= now:
            self._make_ready(heappop(self._asleep)[2])

    def wakes_at(self) -> int | None:
        """When the next retry is due; None if none is."""
        return self._asleep[0][0] if self._asleep else None

    def next(self, may: Callable[[int], bool] = lambda offset: True) -> Entry[T] | None:
        """The next one to give out; None if there is none now. `may`: whether one of that offset may be given out."""
        for heap in (self._again, self._new):
            if not heap or not may(heap[0][0]) or (heap is self._new and self.asleep >= MAX_SLEEPING):
                continue
            entry = heappop(heap)[1]
            entry.tries += 1
            self.out += 1
            return entry
        return None

    def done(self, entry: Entry[T]) -> None:
        """It was given out, and is done: the next one of its lane may follow."""
        self.out -= 1
        self.left -= 1
        behind = self._behind[entry.lane]
        if behind:
            self._make_ready(behind.popleft())
        else:
            del self._behind[entry.lane]

    def again(self, entry: Entry[T], at: int) -> None:
        """It was given out, and is to be given out again at that time, or later."""
        self.out -= 1
        heappush(self._asleep, (at, entry.offset, entry))

    def put_back(self, entry: Entry[T]) -> None:
        """It was given out, and nobody has seen it."""
        self.out -= 1
        entry.tries -= 1
        self._make_ready(entry)
