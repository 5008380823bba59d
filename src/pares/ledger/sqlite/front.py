"""Writers that wait for SQLite's write lock: a few try again at once, all others now and then.

SQLite has no queue: a writer that finds the lock taken can only try again later. A hundred that try each millisecond take the
processor from the one that has it. So `PLACES` writers of a database try that often, and the others rarely, until one of these
places is free. A place is a lock on a byte of the database's bell, which the kernel takes from a process that dies. A process
that is stopped in one keeps nobody from SQLite's own lock: if all places are lost that way, the others still try, rarely.

A strict queue would be fairer, and slower: each turn would wait until the kernel has woken the next writer, which on a busy
machine takes longer than the write.
"""

from __future__ import annotations

import fcntl
import os
import random
import struct
import time
from typing import Final

PLACES: Final = 4
OFTEN: Final = 0.001
"""Seconds between tries. SQLite's own waiting sleeps longer and longer, and comes up to 29 ms late."""
RARELY: Final = 0.03
_LOCK: Final = getattr(fcntl, "F_OFD_SETLK", None)
"""A lock of the open file: those of the process would go when any descriptor of the bell is closed."""
_OPEN: Final = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


class Front:
    """One writer's wait. `bell`: its path."""

    def __init__(self, bell: str) -> None:
        self._bell = bell
        self._descriptor = -1

    def pause(self) -> None:
        """Wait until it is time to try again."""
        often = _LOCK is None or self._descriptor >= 0 or self._take()
        time.sleep((OFTEN if often else RARELY) * random.uniform(0.5, 1.0))

    def _take(self) -> bool:
        """Take a place, if one is free."""
        try:
            descriptor = os.open(self._bell, _OPEN)
        except OSError:
            return False
        for place in range(PLACES):
            try:
                _lock(descriptor, fcntl.F_WRLCK, place)
            except OSError:
                continue
            self._descriptor = descriptor
            return True
        os.close(descriptor)
        return False

    def leave(self) -> None:
        """Give the place up. May be called twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            _lock(descriptor, fcntl.F_UNLCK, 0, 0)  # closing would not do where a fork has copied the descriptor
            os.close(descriptor)


def _lock(descriptor: int, how: int, begin: int, length: int = 1) -> None:
    """`length` 0: to the end. Raises `OSError`."""
    assert _LOCK is not None
    fcntl.fcntl(descriptor, _LOCK, struct.pack("hhqqi0q", how, os.SEEK_SET, begin, length, 0))
