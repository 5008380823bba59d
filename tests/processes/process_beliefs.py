"""What a worker process believed, and when: in a file that it maps into its memory, so that the last sample survives SIGKILL.

A slot per term: role, token, and the first and last instant at which a check is known to have said yes. Instants are of the
stopwatch (CLOCK_BOOTTIME), which all processes of a host share. They are taken on the safe side: the belief began at the latest
when the first check had returned, and lasted at least until the last one was called. So two intervals that overlap prove a
broken promise, whatever the scheduler did in between.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SLOTS: Final = 4096
_SLOT: Final = struct.Struct("=qqqq")
_LAST: Final = struct.Struct("=q")


@dataclass(frozen=True)
class Belief:
    """`member` (a worker's name) believed from `first` to `last` that it held `role` by `token`."""

    member: str
    role: int
    token: int
    first: int
    last: int


class Recorder:
    """The worker's side."""

    def __init__(self, path: Path) -> None:
        with path.open("w+b") as file:
            file.truncate(SLOTS * _SLOT.size)
            self._map = mmap.mmap(file.fileno(), SLOTS * _SLOT.size)
        self._used = 0
        self._open: dict[int, tuple[int, int]] = {}

    def believed(self, role: int, token: int, called: int, returned: int) -> None:
        """A check that was called and returned at these instants has said that the term `token` holds."""
        known = self._open.get(role)
        if known is None or known[0] != token:
            offset = self._used * _SLOT.size
            self._used += 1
            _SLOT.pack_into(self._map, offset, role, token, returned, returned)
            self._open[role] = (token, offset + 3 * _LAST.size)
        else:
            _LAST.pack_into(self._map, known[1], called)


def beliefs(path: Path) -> list[Belief]:
    """What the worker whose file this is has believed so far, in the order in which it began."""
    content = path.read_bytes()
    found: list[Belief] = []
    for role, token, first, last in _SLOT.iter_unpack(content[: len(content) // _SLOT.size * _SLOT.size]):
        if token == 0:
            break
        found.append(Belief(path.stem, role, token, first, max(first, last)))
    return found
