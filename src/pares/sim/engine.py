"""Virtual time: a queue of things that will happen, and a clock that jumps from one to the next.

Everything random in a simulation comes from one seed, and everything that happens comes from this queue, in the order of its
time and, at one time, in the order in which it was put in. So a seed is a whole history: it can be run again, with a trace.

There are two kinds of time. *True* time is the engine's, an integer of nanoseconds; no member ever sees it. A `Stopwatch` is
what a member has: it starts anywhere and runs fast or slow, by no more than its drift (A2).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final

_push = heapq.heappush

US: Final = 1_000
MS: Final = 1_000_000
SECOND: Final = 1_000_000_000


class Engine:
    """The queue. `now` is true time in nanoseconds; only `run` moves it."""

    __slots__ = ("_count", "events", "now")

    def __init__(self) -> None:
        self.now = 0
        self.events: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._count = 0

    def at(self, when: int, call: Callable[..., object], *args: Any) -> None:
        """`call(*args)` at `when`, or now if that is past."""
        self._count += 1
        _push(self.events, (max(when, self.now), self._count, call, args))

    def put(self, when: int, call: Callable[..., object], args: tuple[Any, ...]) -> None:
        """As `at`, in less time. `when`: a true time that is not past."""
        self._count = count = self._count + 1
        _push(self.events, (when, count, call, args))

    def after(self, delay: int, call: Callable[..., object], *args: Any) -> None:
        self.at(self.now + delay, call, *args)

    def run(self, until: int) -> None:
        """Everything that happens up to `until`, which is the time afterwards."""
        queue = self.events
        while queue and queue[0][0] <= until:
            self.now, _, call, args = heapq.heappop(queue)
            call(*args)
        self.now = max(self.now, until)


class Stopwatch:
    """A member's clock for durations: it starts anywhere, runs fast or slow, and may change its rate. `read` is its reading at
    a true time not before its last change, `when` the first true time with that reading if its rate stays as it is."""

    __slots__ = ("offset", "rate", "since")

    def __init__(self, offset: int = 0, rate: float = 1.0) -> None:
        self.offset = offset
        self.rate = rate
        self.since = 0
        """The true time from which it has run at this rate, and from `offset`."""

    def read(self, at: int) -> int:
        return self.offset + int((at - self.since) * self.rate)

    def when(self, reading: int) -> int:
        offset, since, rate = self.offset, self.since, self.rate
        away = int((reading - offset) / rate)
        while offset + int(away * rate) < reading:
            away += 1
        return since + away

    def change(self, at: int, rate: float) -> None:
        """From the true time `at` on it runs at another rate."""
        self.offset, self.since, self.rate = self.read(at), at, rate


class WallClock:
    """What people call the time: anywhere, and it may be set. Nothing is decided by it, except a new base (R9)."""

    __slots__ = ("offset_us",)

    EPOCH_US: Final = 1_700_000_000_000_000

    def __init__(self, offset_us: int = 0) -> None:
        self.offset_us = offset_us

    def read_us(self, at: int) -> int:
        return max(1, self.EPOCH_US + self.offset_us + at // US)
