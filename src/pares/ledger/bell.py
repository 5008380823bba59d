"""Bells: how a reader learns of an append by another process without asking all the time.

SQLite has no way to tell another process that something was committed. Polling costs either time (20 ms between looks
are 10 ms of every takeover) or CPU (5 ms cost 1 % of a core in each idle member). So there is a file beside the
database: whoever commits writes one byte to it, *after* the commit (SQLite's own files change before it is readable),
and readers watch that file with inotify. Nothing depends on the bell but speed: it may be deleted, or the system may
be out of inotify instances; then readers poll.

Within one process an eventfd does the same for the memory ledger.
"""

import ctypes
import os
import struct
import sys
import threading
from typing import Final, cast

from pares.core.errors import ClosedError, ForkedError

_IN_MODIFY: Final = 0x002
_IN_ATTRIB: Final = 0x004
_IN_DELETE_SELF: Final = 0x400
_IN_MOVE_SELF: Final = 0x800
_IN_IGNORED: Final = 0x8000
# Deleting a file that somebody has open shows as IN_ATTRIB (its number of links changes), not as IN_DELETE_SELF.
_WATCHED: Final = _IN_MODIFY | _IN_ATTRIB | _IN_DELETE_SELF | _IN_MOVE_SELF
_EVENT: Final = struct.Struct("iIII")


def ring(path: str) -> None:
    """Ring the bell file at `path`, making it if it isn't there. Never raises: a bell is only for speed.

    The file is opened anew each time (4 microseconds): so there is no descriptor to leak or to inherit, and a file that
    was deleted comes back.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.pwrite(descriptor, b"\a", 0)
        finally:
            os.close(descriptor)
    except OSError:
        pass


class _Descriptor:
    """A descriptor that knows whether it was closed, and in which process it was opened."""

    _descriptor = -1

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._process = os.getpid()
        self._lock = threading.Lock()

    def fileno(self) -> int:
        descriptor = self._descriptor
        if descriptor < 0:
            raise ClosedError("this bell was closed: ask the ledger for a new one")
        if os.getpid() != self._process:
            # Reading here would swallow the events of the parent, with whom the child shares the open file.
            raise ForkedError("this bell was made before a fork: open the ledger in the child and ask it for one")
        return descriptor

    def close(self) -> None:
        if self._descriptor < 0:
            return
        # No lock in a forked child: another thread of the parent may have held it at the fork.
        if os.getpid() != self._process:
            descriptor, self._descriptor = self._descriptor, -1
        else:
            with self._lock:
                descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class FileBell(_Descriptor):
    """Rings when the bell file at `path` is written to. Linux only; `OSError` when there is no inotify to be had.

    With `create` the file is made when it is missing (readers may come before writers).
    """

    def __init__(self, path: str, *, create: bool) -> None:
        self._path = os.fsencode(path)
        self._create = create
        self._watch = -1
        self._inode = (-1, -1)
        super().__init__(_inotify_init())
        try:
            self._look()
        except OSError:
            self.close()
            raise

    def clear(self) -> None:
        """Silence the bell; if its file was deleted or replaced, watch the new one.

        While there is no file to watch it stays silent; each `clear` looks again.
        """
        descriptor = self.fileno()
        with self._lock:
            if self._descriptor < 0:
                return
            changed = self._watch < 0
            while True:
                try:
                    events = os.read(descriptor, 4096)
                except BlockingIOError:
                    break
                at = 0
                while at < len(events):
                    watch, mask, _cookie, length = cast(tuple[int, int, int, int], _EVENT.unpack_from(events, at))
                    at += _EVENT.size + length
                    if mask & _IN_IGNORED and watch == self._watch:
                        self._watch = -1
                    changed = changed or mask != _IN_MODIFY
            if changed:
                try:
                    self._look()
                except OSError:
                    pass

    def _look(self) -> None:
        """Watch what is at the path now."""
        if self._create and not os.path.exists(self._path):
            ring(os.fsdecode(self._path))
        found = os.stat(self._path)
        inode = (found.st_dev, found.st_ino)
        if self._watch >= 0 and inode == self._inode:
            return
        old = self._watch
        self._watch = _inotify_add(self._descriptor, self._path)
        self._inode = inode
        if old >= 0 and old != self._watch:
            _inotify_remove(self._descriptor, old)


class PipeBell(_Descriptor):
    """Rings when `ring` is called, by any thread of this process."""

    _write_end = -1

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            super().__init__(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))
        else:
            read_end, self._write_end = os.pipe()
            os.set_blocking(read_end, False)
            os.set_blocking(self._write_end, False)
            super().__init__(read_end)

    def ring(self) -> None:
        """Make the descriptor readable; nothing happens after `close`."""
        with self._lock:
            if self._descriptor < 0:
                return
            try:
                if self._write_end < 0:
                    os.eventfd_write(self._descriptor, 1)
                else:
                    os.write(self._write_end, b"\a")
            except BlockingIOError:
                pass  # full, so it rings already

    def clear(self) -> None:
        """Silence the bell."""
        descriptor = self.fileno()
        with self._lock:
            if self._descriptor < 0:
                return
            try:
                if self._write_end < 0:
                    os.eventfd_read(descriptor)
                else:
                    while os.read(descriptor, 4096):
                        pass
            except BlockingIOError:
                pass

    def close(self) -> None:
        super().close()
        write_end, self._write_end = self._write_end, -1
        if write_end >= 0:
            os.close(write_end)


_libc: ctypes.CDLL | None = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _inotify_init() -> int:
    if _libc is None:
        raise OSError("this platform has no inotify")
    return _check(int(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)))


def _inotify_add(descriptor: int, path: bytes) -> int:
    assert _libc is not None
    return _check(int(_libc.inotify_add_watch(descriptor, path, ctypes.c_uint32(_WATCHED))))


def _inotify_remove(descriptor: int, watch: int) -> None:
    assert _libc is not None
    _libc.inotify_rm_watch(descriptor, watch)
