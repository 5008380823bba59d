"""What a member of the demo has in its hands: of each instrument, whether it has looked at its term and has yet to write.

In a file that the member maps into its memory, so that the process that has just frozen it can look, and need not trust in a
moment by the clock: on a busy machine that comes before the look, or after the write.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator
from pathlib import Path


def file_of(folder: Path, name: str) -> Path:
    """Where the member `name` keeps it."""
    return folder / f"{name}.hands"


class Hands:
    """The member's side."""

    def __init__(self, path: Path, roles: list[str]) -> None:
        self._places = {role: place for place, role in enumerate(roles)}
        with path.open("w+b") as file:
            file.truncate(len(roles))
            self._map = mmap.mmap(file.fileno(), len(roles))

    @contextlib.contextmanager
    def hold(self, role: str) -> Iterator[None]:
        """Around what lies between the look at the term of `role` and its write."""
        place = self._places[role]
        self._map[place] = 1
        try:
            yield
        finally:
            self._map[place] = 0


def full(path: Path) -> bool:
    """Whether the member whose file this is has anything in its hands."""
    return path.exists() and any(path.read_bytes())
