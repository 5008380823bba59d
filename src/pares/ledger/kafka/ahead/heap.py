"""Memory that was freed, given back to the system.

A client that catches up, after its process stood still or its broker was away, fetches megabytes at once. What they took is
freed as they are read, but stays with glibc's arenas: they give back the end of what they have, and in front of the end there
is always some small thing that lives on. So a process would keep what its worst moment took, and more after a worse one.
[20 s without processor time, again and again, at 2 MB a second: 51 MB, half of it free; an hour on a busy machine: 18 MB more]
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from typing import Any, Final

GROWN: Final = 2 << 20
"""Bytes by which a process has to have grown before it is worth a try."""
REST: Final = 20.0
"""Seconds between two tries at least: each looks through all that the process has freed."""
LATELY: Final = 4
"""Tries of which it is remembered what came of them."""
MOST: Final = 320.0
"""And at the most: after a try of which little came they are twice as many. [a process that grows for its own reasons]"""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def private() -> int:
    """Bytes of this process that are in memory and that no file backs, about; 0 where the system does not say so."""
    try:
        with open("/proc/self/statm", "rb") as pages:
            _, resident, shared, *_ = pages.read().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * _PAGE


def give_back() -> None:
    """What is free goes back to the system, from the midst of arenas too. Elsewhere than on glibc nothing is done."""
    trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Spare:
    """When to try, and what came of it."""

    def __init__(self) -> None:
        self._rest = REST
        self._tried: float | None = None
        """When it looked last whether to try."""
        self._before = 0
        self._after: deque[int] = deque(maxlen=LATELY)
        """How large it was after each of the last tries. [one in the midst of catching up leaves much; what a process needs
        grows, too]"""

    def due(self, now: float) -> bool:
        """Whether to give back now; then `gave` is called."""
        if self._tried is None or now < self._tried + self._rest:
            self._tried = now if self._tried is None else self._tried
            return False
        self._tried, self._before = now, private()
        return not self._after or self._before > min(self._after) + GROWN

    def gave(self) -> None:
        self._after.append(private())
        little = self._before - self._after[-1] < GROWN // 2
        self._rest = min(2 * self._rest, MOST) if little else REST
