"""The stopwatch of this process: it must run while the machine sleeps, and nothing else is asked of it.

A stopwatch that stands still in a suspended machine would let a member believe, after waking up, in a lease that ended hours
ago. On Linux CLOCK_BOOTTIME runs on. On macOS CLOCK_MONOTONIC does. Elsewhere it is what Python calls monotonic; where that
stops in sleep, a member that slept is harmless only behind a fence (docs/guarantees.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from pares.ledger.local.stamp import own_stopwatch

stopwatch: Final[Callable[[], int]] = own_stopwatch
"""Nanoseconds; only differences mean anything, and only within one boot of one machine. Ledgers that note when something came
read the same one."""


def wall_us() -> int:
    """The wall clock in microseconds: written down for people (R17) and for new bases (R9), never decided by."""
    return time.time_ns() // 1000
