"""Bells: how a reader learns of an append by another process without asking all the time.

Neither a file nor SQLite has a way to tell another process that something was committed. Polling costs either time (20 ms
between looks are 10 ms of every takeover) or CPU (5 ms cost 1 % of a core in each idle member). So there is a named pipe beside
the log. After the commit of an urgent append, its writer writes one byte into the pipe, and readers wait for that with an
edge-triggered epoll. Readers leave the bytes where they are, so each byte wakes every waiting reader; when the pipe is full,
the writer makes room first. (Realm wakes its processes in the same way.) Only speed depends on the bell: if it is deleted, or
the system has no such pipes, readers poll.

Why not inotify: the kernel takes up to 16 ms to close one, in which a killed process is not yet dead, and its locks are not yet
free. That alone would be four times what a proven takeover may take (R7).

Within one process an eventfd does the same for the memory ledger.
"""

import contextlib
import os
import select
import stat
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from pares.core.errors import ClosedError, ForkedError

_OPEN: Final = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
_ROOM: Final = 4096
LISTEN: Final = 0.1
_POLL: Final = 0.005
"""Seconds between looks while waiting: with a bell, which may stop working, and without one."""

T = TypeVar("T")


def make(path: str) -> None:
    """Make the bell at `path`, if nothing is there. `OSError` if that can't be done."""
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path, 0o600)


def ring(path: str) -> None:
    """Ring the bell at `path`, if there is one and a reader listens. Never raises: a bell is only for speed.

    It is opened anew each time (a few microseconds). So there is no descriptor to leak or to inherit, and a bell that was
    deleted and made again rings.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | _OPEN)  # raises if no reader listens
        try:
            try:
                os.write(descriptor, b"\a")
            except BlockingIOError:
                _make_room(path)
                os.write(descriptor, b"\a")
        finally:
            os.close(descriptor)


def _make_room(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | _OPEN)
    try:
        os.read(descriptor, _ROOM)
    finally:
        os.close(descriptor)


class Ringer:
    """Rings the bell at one path many times: keeps it open, which is four times as quick. A bell that was deleted and made
    again is found after `_LOOK` seconds."""

    _LOOK: Final = 1.0

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._descriptor = -1
        self._inode = (-1, -1)
        self._looked = -1.0
        self._closed = False

    def ring(self) -> None:
        """Ring it, if it is there. Never raises."""
        with self._lock:
            try:
                if time.monotonic() > self._looked + self._LOOK:
                    self._look()
                os.write(self._descriptor, b"\a")
            except BlockingIOError:
                with contextlib.suppress(OSError):
                    os.read(self._descriptor, _ROOM)
                    os.write(self._descriptor, b"\a")
            except OSError:
                if not self._closed:
                    ring(self._path)

    def _look(self) -> None:
        found = os.lstat(self._path)
        if (found.st_dev, found.st_ino) == self._inode and self._descriptor >= 0:
            self._looked = time.monotonic()
            return
        self._give_back()
        if not self._closed:
            self._descriptor = os.open(self._path, os.O_RDWR | _OPEN)
            there = os.fstat(self._descriptor)
            if not stat.S_ISFIFO(there.st_mode):
                self._give_back()
                return
            self._inode, self._looked = (there.st_dev, there.st_ino), time.monotonic()

    def _give_back(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def close(self) -> None:
        """Give the descriptor back."""
        with self._lock:
            self._closed = True
            self._give_back()


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
            # The child shares the open file with its parent: reading here would take the parent's events.
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
            self._give_back(descriptor)

    def _give_back(self, descriptor: int) -> None:
        os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class FileBell(_Descriptor):
    """Rings when any process calls `ring` with the same path. `OSError` where there is no such bell.

    With `create` it is made when it is missing, as readers may come before writers.
    """

    def __init__(self, path: str, *, create: bool) -> None:
        if not hasattr(select, "epoll"):
            raise OSError("this platform has no epoll")
        self._path = path
        self._create = create
        self._pipe = -1
        self._inode = (-1, -1)
        self._epoll = select.epoll()
        super().__init__(self._epoll.fileno())
        try:
            self._look()
        except OSError:
            self.close()
            raise

    def clear(self) -> None:
        """Silence the bell; if it was deleted or replaced, listen to the new one.

        While there is none it stays silent; each `clear` looks again.
        """
        self.fileno()
        with self._lock:
            if self._descriptor < 0:
                return
            self._epoll.poll(0)
            with contextlib.suppress(OSError):
                self._look()

    def _look(self) -> None:
        """Listen to what is at the path now."""
        try:
            found = os.lstat(self._path)
        except FileNotFoundError:
            if not self._create:
                raise
            make(self._path)
            found = os.lstat(self._path)
        if (found.st_dev, found.st_ino) == self._inode:
            return
        pipe = _listen(self._path)
        self._hang_up()
        there = os.fstat(pipe)
        self._pipe, self._inode = pipe, (there.st_dev, there.st_ino)
        self._epoll.register(pipe, select.EPOLLIN | select.EPOLLET)
        self._epoll.poll(0)  # forget what was rung before: the caller reads first

    def _hang_up(self) -> None:
        pipe, self._pipe = self._pipe, -1
        if pipe >= 0:
            self._epoll.unregister(pipe)
            os.close(pipe)

    def _give_back(self, descriptor: int) -> None:
        pipe, self._pipe = self._pipe, -1
        self._epoll.close()
        if pipe >= 0:
            os.close(pipe)


def _listen(path: str) -> int:
    """The pipe at `path`, opened so that it never comes to an end: for writing, too, where that is allowed."""
    try:
        descriptor = os.open(path, os.O_RDWR | _OPEN)
    except PermissionError:
        descriptor = os.open(path, os.O_RDONLY | _OPEN)
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no named pipe")
    return descriptor


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


def awaited(look: Callable[[], list[T]], new_bell: Callable[[], FileBell | None], timeout: float) -> list[T]:
    """What `look` returns, as soon as that is not empty; after `timeout` seconds what it returns then. Raises what it
    raises."""
    found = look()
    if found or timeout <= 0:
        return found
    deadline = time.monotonic() + timeout
    bell = new_bell()
    try:
        listening = select.poll()
        if bell is not None:
            listening.register(bell.fileno(), select.POLLIN)
        while True:
            if bell is not None:
                bell.clear()
            found = look()
            left = deadline - time.monotonic()
            if found or left <= 0:
                return found
            listening.poll(min(left, LISTEN if bell is not None else _POLL) * 1000)
    finally:
        if bell is not None:
            bell.close()
