"""What a process has for clocks: a stopwatch whose rate is wrong and may change, and a wall clock that may be set."""

from __future__ import annotations

from typing import Final

EPOCH_US: Final = 1_700_000_000_000_000


class Stopwatch:
    """It starts anywhere, and runs fast or slow. `read`: its reading at a true time not before its last change."""

    __slots__ = ("_began", "_reading", "rate")

    def __init__(self, offset: int = 0, rate: float = 1.0) -> None:
        self.rate = rate
        self._began = 0
        """The true time at which it began to run at this rate."""
        self._reading = offset
        """And its reading then."""

    def read(self, at: int) -> int:
        return self._reading + int((at - self._began) * self.rate)

    def when(self, reading: int) -> int:
        """The first true time with that reading, if its rate stays as it is."""
        at = self._began + int((reading - self._reading) / self.rate)
        while self.read(at) < reading:
            at += 1
        return at

    def change(self, at: int, rate: float) -> None:
        """From the true time `at` on it runs at another rate."""
        self._reading, self._began, self.rate = self.read(at), at, rate


class WallClock:
    """What people call the time. Nothing is decided by it, except a new base (R9)."""

    __slots__ = ("offset_us",)

    def __init__(self, offset_us: int = 0) -> None:
        self.offset_us = offset_us

    def read_us(self, at: int) -> int:
        return max(1, EPOCH_US + self.offset_us + at // 1_000)
