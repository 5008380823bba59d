"""When others close a file that they had open for writing: what wakes a witness when a member's process is gone.

A member alone has its lock file open for writing, and whatever ends it, the kernel closes that, right before it drops the lock.
Linux tells of it by inotify, for the file itself and not for its name; also when the process that closes it lives in another
container, where no number of a process here means it. It is told only when the last copy of the descriptor is gone, as the
lock is: a command of `pares run` that has inherited it keeps both.

For a witness only. The kernel takes up to 16 ms to close an inotify instance, during which a process that was killed is not
dead yet, and its locks are held: so a member, whose own death others are to see, has none (see `ledger.bell`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Final

_CLOSE_WRITE: Final = 0x0008
_OVERFLOW: Final = 0x4000
_GONE: Final = 0x8000
"""The kernel has ended this watch itself: the file was removed, and nobody has it open any more."""
_EVENT: Final = struct.Struct("iIII")
_READ: Final = 64 * 1024


class Closings:
    """Raises `OSError` where the system has no such thing, or has no more of them to give. Not safe for several threads."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "inotify_init1"):
            raise OSError(errno.ENOSYS, "this system has no inotify")
        self._libc = libc
        self.descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        """Readable when somebody has closed one of the files."""
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "no inotify instance can be had")

    def add(self, descriptor: int) -> int:
        """From now on closings of this open file are told. The number under which they are; raises `OSError`."""
        # By the descriptor: its name may lead to another file by now.
        path = f"/proc/self/fd/{descriptor}".encode()
        number: int = self._libc.inotify_add_watch(self.descriptor, path, _CLOSE_WRITE)
        if number < 0:
            raise OSError(ctypes.get_errno(), f"{path.decode()} can't be watched")
        return number

    def remove(self, number: int) -> None:
        self._libc.inotify_rm_watch(self.descriptor, number)  # gone already: no matter

    def take(self) -> tuple[set[int], bool]:
        """The numbers of files that were closed since the last call, and whether some may be missing. Never waits."""
        found: set[int] = set()
        missing = False
        while True:
            try:
                text = os.read(self.descriptor, _READ)
            except BlockingIOError:
                return found, missing
            at = 0
            while at < len(text):
                number, mask, _, length = _EVENT.unpack_from(text, at)
                at += _EVENT.size + length
                if mask & _OVERFLOW:
                    missing = True
                elif mask & (_CLOSE_WRITE | _GONE):
                    found.add(number)

    def close(self) -> None:
        """May be called twice."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
