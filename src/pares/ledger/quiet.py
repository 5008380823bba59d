"""How many of a partition's entries are not urgent (R21), as its reader sees them.

Readers go by it, and writers. A reader of a partition in which such entries are many no longer waits for each: that is worth
while in large groups, where all beat and nobody need be woken. A writer makes an urgent entry such that it wakes those readers,
too, where it has lately seen an entry that is not urgent. So a small group, whose entries are all urgent, pays nothing.

Both go by what they have read, so they may differ for a moment: then an urgent entry is found a little later, as one of a
writer that knows nothing of all this (release 0.1) always is.
"""

from __future__ import annotations

import time
from typing import Final

PERIOD: Final = 10.0
MANY: Final = 6
"""So many in a period are many."""
NONE: Final = 30.0
"""Seconds without one after which they are no longer many."""
LATELY: Final = 60.0
"""Seconds after one for which readers may be lazy: longer than `NONE`, as another has read it later."""


class Quiet:
    """A count for one partition. The lock of its window guards it."""

    def __init__(self) -> None:
        self.many = False
        self._count = 0
        self._began = self._last = -LATELY

    def seen(self, count: int) -> None:
        """Entries came now, and so many of them are not urgent."""
        now = time.monotonic()
        if now >= self._began + PERIOD:
            self._began, self._count = now, 0
        self._count += count
        if count:
            self._last = now
        if self._count >= MANY:
            self.many = True
        elif now >= self._last + NONE:
            self.many = False

    def noted(self) -> None:
        """There was one, some time ago."""
        self._last = time.monotonic()

    @property
    def lately(self) -> bool:
        return time.monotonic() < self._last + LATELY
