"""A disk that is full: files can't grow beyond a few bytes, as the system itself has it, or a call to it fails."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def files_of_at_most(size: int, pid: int = 0) -> Iterator[None]:
    """Writing beyond it fails in this process, or another one, whoever writes: Python, Arrow, SQLite or Java. (Python and Java
    ignore the signal.)"""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


class Full:
    """The operating system, as a module has it, that has no room when it is called for the `at`th time to make or write
    something."""

    MAKES = ("mkdir", "open", "fsync", "link", "replace", "write")

    def __init__(self, at: int) -> None:
        self.left = at

    def __getattr__(self, name: str) -> Any:
        known = getattr(os, name)
        return self._full(known) if name in self.MAKES else known

    def _full(self, do: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            self.left -= 1
            if self.left == -1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return do(*given)

        return call
