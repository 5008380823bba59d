"""Locks on the lives of members (R7), in a file system of the world's own, which knows which of them are free.

A lock becomes free when its process is killed or ends, or when it is given up, and never while the process stands still. What
that proves to an onlooker is judged by the code that ships (`pares.runtime.death.evidence`), on the facts that this file
system gives: what is found under a name, and whether its lock is to be had. Faults are done to files: one is removed, or
another is put in its place; machines share a folder, and locks do not travel with the files (`shared`). `lose` is the fault
against which a holder looks before it writes (A3): somebody has closed the descriptor, so the lock is free while its member
lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pares.core.wire.records import Lock as Statement
from pares.runtime.death import evidence
from pares.runtime.death.evidence import Found
from pares.sim.engine import MS
from pares.sim.world.process import Process
from pares.sim.world.seam import Ground

LOOK_AGAIN: Final = 250 * MS
"""Nanoseconds after which a lock is tried although nothing says that its process has ended."""
DEVICE: Final = "1"
"""All machines have one disk, and it has the same number on each."""


class LockFile:
    """One file, on one machine. `lock`: of its maker; None: nobody ever had a lock on it."""

    def __init__(self, machine: str, name: str, inode: str, content: bytes, lock: DeathLock | None) -> None:
        self.machine, self.name, self.lock = machine, name, lock
        self.found: Final = Found(True, DEVICE, inode, content)

    def free_for(self, machine: str) -> bool:
        """Whether a process of that machine gets the lock: those of other machines it does not see."""
        return self.lock is None or self.lock.free or machine != self.machine


class DeathLock:
    """As `pares.runtime.death.lock.DeathLock`."""

    def __init__(self, locks: Locks, process: Process, folder: Path, member: str) -> None:
        self.process = process
        self.member = member
        self.path = folder / f"{locks.number():032x}.alive"
        inode = locks.inode()
        self._locks = locks
        self.statement: Final = Statement(process.machine, DEVICE, inode, self.path.name, process.pid)
        self.free = False
        self.lost_at: int | None = None
        """The true time at which it was lost, by somebody else's mistake."""
        self.looked = False
        """Whether its holder has looked, since it last appended something, whether it still has it."""
        self._given_up = False

    @property
    def descriptor(self) -> int:
        return -1 if self._given_up else 1_000 + int(self.statement.inode)

    def lost(self, *, thoroughly: bool = True) -> str:
        self.process.cross("lost")
        self.looked = self.looked or thoroughly
        if self._given_up:
            return "it was given up"
        return "" if self.lost_at is None else f"its descriptor {self.descriptor} was closed"

    def release(self) -> None:
        """Its member has left: the file goes, so nothing is ever proven by it."""
        if not self._given_up:
            self.process.cross("death:release")
            self._locks.give_up(self, removed=True)
            self._given_up = True

    def abandon(self) -> None:
        """Its member is over without having left: its watchers can prove that."""
        if not self._given_up:
            self.process.cross("death:abandon")
            self._given_up = True
            self._locks.give_up(self, removed=False)


class Locks:
    """All of a world."""

    def __init__(self, world: Ground) -> None:
        self.world = world
        self.all: dict[tuple[str, str], DeathLock] = {}
        """By machine and inode."""
        self.files: dict[tuple[str, str], LockFile] = {}
        """What is where: by machine and name."""
        self.shared = False
        """Whether all machines see each other's files."""
        self.delay = (MS // 2, 3 * MS)
        """How long after a death its watchers are woken."""
        self.given_up: list[Callable[[DeathLock], object]] = []
        """Called with a lock that is about to become free while its process lives."""
        self._watches: list[Deaths] = []
        self._inodes = 0
        self._rng = world.random("death locks")

    def inode(self) -> str:
        """Never given twice, as if no file system gave one again."""
        self._inodes += 1
        return str(self._inodes)

    def number(self) -> int:
        return self._rng.getrandbits(128)

    def take(self, process: Process, folder: Path, member: str) -> DeathLock:
        process.cross("death:take")
        lock = DeathLock(self, process, folder, member)
        self.all[process.machine, lock.statement.inode] = lock
        self.put(LockFile(process.machine, lock.path.name, lock.statement.inode, member.encode(), lock))
        process.at_kill.append(lambda: self._free(lock))
        return lock

    def give_up(self, lock: DeathLock, *, removed: bool) -> None:
        for look in self.given_up:
            look(lock)
        if removed:
            self.all.pop((lock.process.machine, lock.statement.inode), None)
            if self.is_there(lock):
                self.remove_file_of(lock)
        self._free(lock)

    def lose(self, lock: DeathLock) -> None:
        """Fault: it is free, and its member lives on."""
        if not lock.free:
            lock.lost_at = self.world.now
            self._free(lock)

    def of(self, member: str) -> DeathLock | None:
        return next((lock for lock in self.all.values() if lock.member == member), None)

    def _free(self, lock: DeathLock) -> None:
        if lock.free:
            return
        lock.free = True
        for watch in self._watches:
            if watch.watches(lock.member):
                self.world.after(self._rng.randint(*self.delay), watch.wake, lock.member)

    # Files -----------------------------------------------------------------------------------------------------------

    def put(self, file: LockFile) -> None:
        """In the place of whatever has that name."""
        self.files[file.machine, file.name] = file

    def remove_file_of(self, lock: DeathLock) -> None:
        """Fault: what stands under its name is gone. (The lock is on the file, and goes on.)"""
        self.files.pop((lock.process.machine, lock.path.name), None)

    def is_there(self, lock: DeathLock) -> bool:
        """Whether its file still stands under its name."""
        file = self.files.get((lock.process.machine, lock.path.name))
        return file is not None and file.lock is lock

    def replace(self, lock: DeathLock) -> None:
        """Fault: another file of the same name and content, on which nobody has a lock."""
        self.put(LockFile(lock.process.machine, lock.path.name, self.inode(), lock.member.encode(), None))

    def look(self, machine: str, name: str) -> LockFile | None:
        """What a process of that machine finds under the name."""
        here = self.files.get((machine, name))
        if here is not None or not self.shared:
            return here
        return next((file for (_, other), file in self.files.items() if other == name), None)

    # Watches ---------------------------------------------------------------------------------------------------------

    def add(self, watch: Deaths) -> None:
        self._watches.append(watch)
        watch.process.at_kill.append(lambda: self.remove(watch))

    def remove(self, watch: Deaths) -> None:
        if watch in self._watches:
            self._watches.remove(watch)


class Watched(NamedTuple):
    """A member that is watched, and the file that was opened for that, if there was one."""

    statement: Statement
    file: LockFile | None


class Deaths:
    """As `pares.runtime.death.watcher.DeathWatch`. Its one descriptor stands for itself: `Bells.also` takes it."""

    def __init__(self, process: Process, locks: Locks) -> None:
        self.process = process
        self.on_wake: Callable[[], object] = lambda: None
        """Set by the bells that wait for it."""
        self._locks = locks
        self._watched: dict[str, Watched] = {}
        self._proven: dict[str, Statement] = {}
        self._due = 0
        self.woken = False
        self.number = process.world.descriptors.add(self)
        self._locks.add(self)

    def watch(self, members: Mapping[str, Statement]) -> None:
        self.process.cross("deaths:watch")
        self._proven = {m: s for m, s in self._proven.items() if members.get(m) == s}
        new = {m: s for m, s in members.items() if m not in self._proven}
        if any(m not in self._watched for m in new):
            self._due = 0
        before = self._watched
        self._watched = {m: before[m] if m in before else Watched(s, self._open(s)) for m, s in new.items()}

    def _open(self, statement: Statement) -> LockFile | None:
        here = evidence.is_here(statement, self.process.machine)
        return self._locks.look(self.process.machine, statement.file) if here else None

    def watches(self, member: str) -> bool:
        return member in self._watched

    def wake(self, member: str) -> None:
        """Its process has ended, says the operating system."""
        if member in self._watched:
            self._due, self.woken = 0, True
            self.on_wake()

    @property
    def provable(self) -> frozenset[str]:
        return frozenset(m for m, watched in self._watched.items() if self._is_stated(m, watched))

    @property
    def proven(self) -> frozenset[str]:
        return frozenset(self._proven)

    def filenos(self) -> list[int]:
        return [self.number]

    def check(self, now_ns: int) -> list[str]:
        self.process.cross("deaths:check")
        self.woken = False
        if now_ns < self._due:
            return []
        self._due = now_ns + LOOK_AGAIN
        dead: list[str] = []
        for member, watched in self._watched.items():
            if self._proves(member, watched):
                dead.append(member)
        for member in dead:
            self._proven[member] = self._watched.pop(member).statement
        return dead

    def _proves(self, member: str, watched: Watched) -> bool:
        machine, (statement, file) = self.process.machine, watched
        if not evidence.is_here(statement, machine):
            return False
        there = self._locks.look(machine, statement.file) is file
        free = file is None or file.free_for(machine)
        return evidence.proves(free=free, stated=self._is_stated(member, watched), there=there)

    @staticmethod
    def _is_stated(member: str, watched: Watched) -> bool:
        return evidence.is_stated(None if watched.file is None else watched.file.found, member, watched.statement)

    def poll_interval(self, now_ns: int) -> float | None:
        if not self.provable:
            return None
        return max(0, self._due - now_ns) / 1e9

    def close(self) -> None:
        self._watched.clear()
        self._proven.clear()
        self._locks.remove(self)
