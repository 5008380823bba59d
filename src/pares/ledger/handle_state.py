"""When a handle on a ledger may still be used: not after `close`, and never in a child that was forked with it.

A fork copies the handle's memory, but neither the threads that were using it nor the locks that the kernel holds for the
process. A copy that went on working would share one SQLite connection between two processes, which corrupts the file. So the
copy is dead, and raises an error that says so.
"""

import os
import weakref
from typing import Any, Final

from pares.core.errors import ClosedError, ForkedError


class Lifetime:
    """The state that a handle and everything handed out by it share."""

    __slots__ = ("_closed", "_process", "_url")

    def __init__(self, url: str) -> None:
        self._url = url
        self._process = os.getpid()
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def forked(self) -> bool:
        """True in a process other than the one that opened the handle. Asks the system: no hook can be missed."""
        return os.getpid() != self._process

    def check(self) -> None:
        """Raise unless the handle may be used here and now."""
        if os.getpid() != self._process:
            raise ForkedError(
                f"{self._url} was opened by process {self._process} before a fork and can't be used in its child "
                f"{os.getpid()}: open it again in the child"
            )
        if self._closed:
            raise self.closed_error(self._url)

    @staticmethod
    def closed_error(url: str) -> ClosedError:
        """The error for using what was closed."""
        return ClosedError(f"{url} was closed: open it again")

    def end(self) -> bool:
        """Close; True if this call did it and there is something to give back in this process."""
        first = not self._closed
        self._closed = True
        return first and not self.forked


_owners: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def keep_after_fork(owner: object) -> None:
    """In forked children, never free what `owner` has.

    A client's threads don't exist in a child. Ending the client there would wait for them for ever, or abort the process. So in
    a child no client is ended, not even when the interpreter ends.
    """
    import ctypes  # noqa: F401  # pyright: ignore[reportUnusedImport] - here, so that it need not be loaded in the child

    _owners.add(owner)


def _after_fork() -> None:
    if not _owners:
        return
    import ctypes

    for owner in [*_owners]:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


os.register_at_fork(after_in_child=_after_fork)
