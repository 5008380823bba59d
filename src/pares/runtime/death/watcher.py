"""Watching the few members whose death this member should notice first (R7), inside the member's own loop.

The proof is the lock (lock.py), and only the lock. What wakes the loop at the right moment is a pidfd of the process
that stated it: readable as soon as the process has ended, by which time the kernel has closed its files. But a pid is
a hint. It may mean another process here (another pid namespace, a number used again), so it is believed only if the
kernel shows the lock among that pid's open files; and even then the lock is tried now and then all the same.
Without a pidfd, and after one that fired while the lock is still held (by a forked child, by the command of `pares
run`), the lock is tried every few milliseconds: one system call.

A witness (R22) watches all members of its host, in whatever containers they are. It is told by `closings` when a lock file is
closed, wherever the process is, and tries no lock before that; but for one look at all of them each `REST_NS`, for a lock
that somebody has let go of without closing the file.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pares.core.wire.records import Lock
from pares.runtime.death.closings import Closings
from pares.runtime.death.lock import Candidate, forks, shows_lock

SOON_NS: Final = 5_000_000
"""Between attempts when nothing will wake us."""
AT_ONCE_NS: Final = 500_000
"""Between the first attempts after a pidfd fired: the lock is free, unless somebody is just removing the file."""
AT_ONCE_TRIES: Final = 8
SOON_TRIES: Final = 20
"""After these, where a closing was told: the kernel is about to drop the lock, and may have been held up between the two."""
MANY_FILES: Final = 512
"""Of a process with more open files the kernel is asked in one piece for its locks."""
SELDOM_NS: Final = 1_000_000_000
"""Between attempts while a pidfd is there to wake us, at the least: in case it means another process. That is worth an attempt
when the member looks anyway, and no wake-up of its own."""
REST_NS: Final = 10_000_000_000
"""The same of a witness; for all members at the same time, so that it wakes once for all of them."""
IDLE: Final = 4
"""Members that need not be watched any more, of which what finds out about their deaths is kept: to look for it in another
process costs a millisecond. [on a machine that is too slow each member is late now and then, and its neighbours change whom
they watch, back and forth]"""
NEVER_NS: Final = 2**63
"""Of a member whose lock file is not there: nothing will ever be proven of it."""


class _Watched:
    """One member that is watched."""

    def __init__(self, statement: Lock, candidate: Candidate | None) -> None:
        self.statement = statement
        self.candidate = candidate
        self.pidfd = -1
        self.closing = -1
        """By which number a witness is told that the file was closed; -1: it is not."""
        self.due = 0
        """When the lock is to be tried next; 0 = at the next check."""
        self.hurry = 0
        """How many attempts are still to be made at once."""
        self.deaf = True
        """Whether nothing will wake us any more: there is no pidfd, or it has fired."""

    def next(self, now: int) -> int:
        """When to try again, after an attempt that has proven nothing."""
        if self.hurry > 0:
            self.hurry -= 1
            return now + (AT_ONCE_NS if self.closing < 0 or self.hurry >= SOON_TRIES else SOON_NS)
        if self.closing >= 0:
            return (now // REST_NS + 1) * REST_NS
        return now + (SOON_NS if self.deaf else SELDOM_NS)


class DeathWatch:
    """Which of a changing set of members are proven dead.

    Promised: a member that `check` returns is gone for good. Not promised: that a death is noticed at all (see
    `prove`); when the lock is free and somebody calls `check` as `filenos` and `poll_interval` ask for, it is noticed
    within milliseconds, or a second if the pid came to be another process' while it was looked up. No thread, no waiting.
    Not safe for several threads. `witness`: for a process that does nothing else, and whose own death nobody waits for: it is
    told of closings, and wakes for nothing else.
    """

    def __init__(self, folder: Path, *, witness: bool = False) -> None:
        self._folder = folder
        self._watched: dict[str, _Watched] = {}
        self._idle: dict[str, _Watched] = {}
        """What was dropped last, the newest last."""
        self._proven: dict[str, Lock] = {}
        self._pids: dict[int, _Watched] = {}
        self._closings: Closings | None = None
        self._files: dict[int, _Watched] = {}
        """By the number of its closing."""
        self._spent: list[_Watched] = []
        """Of members that were proven dead: closed later, as a member that has just heard of a death has more urgent work."""
        with forks.guard:
            if witness and hasattr(select, "epoll"):
                with contextlib.suppress(OSError):  # without, it watches as a member does
                    self._closings = Closings()
            told = self._closings is not None or (hasattr(select, "epoll") and hasattr(os, "pidfd_open"))
            self._epoll = select.epoll() if told else None
            if self._epoll is not None and self._closings is not None:
                self._epoll.register(self._closings.descriptor, select.EPOLLIN)
            forks.add(self)

    def watch(self, members: Mapping[str, Lock]) -> None:
        """Watches exactly these members, by what their `join` stated; those watched already go on being watched."""
        while self._spent:
            self._close(self._spent.pop())
        for member in [m for m, w in self._watched.items() if members.get(m) != w.statement]:
            self._idle[member] = self._watched.pop(member)
        for member in [m for m, statement in self._proven.items() if members.get(m) != statement]:
            del self._proven[member]
        for member, statement in members.items():
            if member not in self._watched and member not in self._proven:
                idle = self._idle.pop(member, None)
                if idle is not None and idle.statement == statement and idle.candidate is not None:
                    idle.due, self._watched[member] = 0, idle
                    continue
                if idle is not None:
                    self._close(idle)
                self._add(member, statement)
        for member in [*self._idle][: -IDLE if self._closings is None else None]:
            self._close(self._idle.pop(member))

    @property
    def provable(self) -> frozenset[str]:
        """The members that are watched, are not known to be dead, and whose lock files were found here."""
        return frozenset(member for member, watched in self._watched.items() if watched.candidate is not None)

    @property
    def proven(self) -> frozenset[str]:
        """The members that are watched and were proven dead, whether `check` has just said so or long ago."""
        return frozenset(self._proven)

    def filenos(self) -> list[int]:
        """What to select for reading: readable when a watched process has ended. The same for the life of this watch,
        however the set changes; empty where the system tells of no process and of no closing."""
        return [] if self._epoll is None else [self._epoll.fileno()]

    def check(self, now_ns: int | None = None) -> list[str]:
        """The members proven dead since the last check; each is returned once. `now_ns`: any stopwatch, but always the
        same one. Call it when `filenos` are readable and when `poll_interval` has passed."""
        now = time.monotonic_ns() if now_ns is None else now_ns
        self._woken()
        dead: list[str] = []
        for member, watched in self._watched.items():
            if watched.due > now:
                continue
            if watched.candidate is None:
                watched.due = NEVER_NS
            elif watched.candidate.attempt():
                dead.append(member)
            else:
                watched.due = watched.next(now)
        for member in dead:
            gone = self._watched.pop(member)
            self._spent.append(gone)
            self._proven[member] = gone.statement
        return dead

    def poll_interval(self, now_ns: int | None = None) -> float | None:
        """Seconds after which to check again, without being woken; None when nobody is watched of whom that would tell
        anything: either nothing can be proven, or a pidfd wakes us."""
        waits = (watched.due for watched in self._watched.values() if watched.deaf or watched.hurry or not watched.due)
        due = min(waits, default=NEVER_NS)
        if due == NEVER_NS:
            return None
        now = time.monotonic_ns() if now_ns is None else now_ns
        return max(0, due - now) / 1e9

    def close(self) -> None:
        """Stops watching. May be called twice."""
        with forks.guard:
            self.close_in_child()

    def close_in_child(self) -> None:
        for watched in (*self._watched.values(), *self._idle.values(), *self._spent):
            if watched.candidate is not None:
                watched.candidate.close_in_child()
            if watched.pidfd >= 0:
                os.close(watched.pidfd)
        self._watched.clear()
        self._idle.clear()
        self._spent.clear()
        self._pids.clear()
        self._files.clear()
        self._proven.clear()
        if self._closings is not None:
            self._closings.close()
            self._closings = None
        if self._epoll is not None:
            self._epoll.close()
            self._epoll = None

    def _add(self, member: str, statement: Lock) -> None:
        with forks.guard:
            candidate = Candidate.open(self._folder, member, statement)
            watched = _Watched(statement, candidate)
            if candidate is not None and self._closings is not None:
                with contextlib.suppress(OSError):
                    watched.closing = self._closings.add(candidate.descriptor)
                    self._files[watched.closing] = watched
            # Also for a witness that the kernel tells of no more files.
            hears = self._epoll if hasattr(os, "pidfd_open") and watched.closing < 0 else None
            if candidate is not None and hears is not None and _holds_lock(statement):
                with contextlib.suppress(OSError):
                    watched.pidfd = os.pidfd_open(statement.pid)
                    # Once: having fired, it would fire for ever, and has nothing more to say.
                    hears.register(watched.pidfd, select.EPOLLIN | select.EPOLLONESHOT)
                    self._pids[watched.pidfd] = watched
                    watched.deaf = False
            self._watched[member] = watched

    def _close(self, watched: _Watched) -> None:
        with forks.guard:
            if watched.closing >= 0 and self._files.get(watched.closing) is watched:
                del self._files[watched.closing]
                if self._closings is not None:
                    self._closings.remove(watched.closing)
            if watched.pidfd >= 0:
                self._pids.pop(watched.pidfd, None)
                if (
                    self._epoll is not None
                ):  # closing is not enough: a child forked behind Python's back may have it open
                    with contextlib.suppress(OSError):
                        self._epoll.unregister(watched.pidfd)
                os.close(watched.pidfd)
                watched.pidfd = -1
            if watched.candidate is not None:
                watched.candidate.close()

    def _woken(self) -> None:
        """Notes whose pidfd has fired, or whose file was closed."""
        if self._closings is not None:
            closed, missing = self._closings.take()
            for watched in [*self._files.values()] if missing else [self._files[n] for n in closed if n in self._files]:
                watched.due, watched.hurry = 0, AT_ONCE_TRIES + SOON_TRIES
        if self._epoll is None or not self._pids:
            return
        for pidfd, _ in self._epoll.poll(0):
            if pidfd not in self._pids:
                continue
            watched = self._pids[pidfd]
            watched.due, watched.hurry, watched.deaf = 0, AT_ONCE_TRIES, True


def _holds_lock(statement: Lock) -> bool:
    """Whether the kernel says that this pid, as seen from here, holds a lock on that inode; False if it can't be asked.

    Asked of the process' own open files: to list the locks of a whole system the kernel stops all who take or drop one, which
    took 6 ms here. [a hundred members that look for whom to watch would keep the whole host from locking]
    """
    try:
        numbers = os.listdir(f"/proc/{statement.pid}/fd")
    except OSError:
        return _is_listed(statement)  # another user's process
    if len(numbers) > MANY_FILES:
        return _is_listed(statement)
    # The newest first: a member takes its lock late.
    for number in sorted(numbers, key=int, reverse=True):
        with contextlib.suppress(OSError):  # closed meanwhile
            found = os.stat(f"/proc/{statement.pid}/fd/{number}")
            if (str(found.st_dev), str(found.st_ino)) == (statement.device, statement.inode) and shows_lock(
                f"/proc/{statement.pid}/fdinfo/{number}"
            ):
                return True
    return False


def _is_listed(statement: Lock) -> bool:
    """The same, from the kernel's list of all locks."""
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as locks:
            lines = locks.readlines()
    except OSError:
        return False
    pid, inode = str(statement.pid), ":" + statement.inode
    fields = (line.split() for line in lines)
    return any(len(f) > 5 and f[1] == "FLOCK" and f[4] == pid and f[5].endswith(inode) for f in fields)
