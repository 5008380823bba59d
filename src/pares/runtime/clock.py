"""The stopwatch of this process: it must run while the machine sleeps, and nothing else is asked of it.

A stopwatch that stands still in a suspended machine would let a member believe, after waking up, in a lease that ended hours
ago. On Linux CLOCK_BOOTTIME runs on. On macOS CLOCK_MONOTONIC does. Elsewhere it is what Python calls monotonic; where that
stops in sleep, a member that slept is harmless only behind a fence (docs/guarantees.md).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Final


def _pick() -> Callable[[], int]:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC)
    return time.monotonic_ns


stopwatch: Final[Callable[[], int]] = _pick()
"""Nanoseconds; only differences mean anything, and only within one boot of one machine."""


def wall_us() -> int:
    """The wall clock in microseconds: written down for people (R17) and for new bases (R9), never decided by."""
    return time.time_ns() // 1000
