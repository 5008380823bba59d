"""Memory that was freed, given back to the system.

A client that catches up, after its process stood still or its broker was away, fetches megabytes at once. What they took is
freed as they are read, but stays with glibc's arenas: they give back the end of what they have, and in front of the end there
is always some small thing that lives on. So a process would keep what its worst moment took, and more after a worse one.
[20 s without processor time, again and again, at 2 MB a second: 51 MB, half of it free]
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

MUCH: Final = 4 << 20
"""Bytes in a second that are no traffic but a client that catches up."""
REST: Final = 30.0
"""Seconds between two times at least: it looks through all that the process has freed."""


def give_back() -> None:
    """What is free goes back to the system, from the midst of arenas too. Elsewhere than on glibc nothing is done."""
    trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Spare:
    """When there may be much to give back: once it is calm again."""

    def __init__(self) -> None:
        self._came = 0
        self._much = False
        self._last = -REST

    def came(self, size: int) -> None:
        """So many bytes of records."""
        self._came += size

    def due(self, now: float) -> bool:
        """Asked about once a second. Whether to give back now; then the next time is `REST` seconds off at least."""
        calm = self._came <= MUCH
        self._came, self._much = 0, self._much or not calm
        if not (calm and self._much and now >= self._last + REST):
            return False
        self._much, self._last = False, now
        return True
