"""Locks on the lives of members (R7), without a file system: the world knows which of them are free.

A lock becomes free when its process is killed or ends, or when it is given up, and never while the process stands still. Of
processes on another machine nothing is ever proven. `lose` is the fault against which a holder looks before it writes (A3):
somebody has closed the descriptor, so the lock is free while its member lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pares.core.wire.records import Lock as Statement
from pares.sim.engine import MS
from pares.sim.world.process import Process

if TYPE_CHECKING:
    from pares.sim.world.simulation import World

LOOK_AGAIN: Final = 250 * MS
"""Nanoseconds after which a lock is tried although nothing says that its process has ended."""


class DeathLock:
    """As `pares.runtime.death.lock.DeathLock`."""

    def __init__(self, process: Process, folder: Path, member: str) -> None:
        self.process = process
        self.member = member
        self.path = folder / f"{process.world.locks.number():032x}.alive"
        inode = process.world.locks.inode()
        self.statement: Final = Statement(process.machine, "1", inode, self.path.name, process.pid)
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
            self.process.world.locks.give_up(self, removed=True)
            self._given_up = True

    def abandon(self) -> None:
        """Its member is over without having left: whoever watches can prove that."""
        if not self._given_up:
            self.process.cross("death:abandon")
            self._given_up = True
            self.process.world.locks.give_up(self, removed=False)


class Locks:
    """All of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.all: dict[tuple[str, str], DeathLock] = {}
        """By machine and inode."""
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
        lock = DeathLock(process, folder, member)
        self.all[process.machine, lock.statement.inode] = lock
        process.at_kill.append(lambda: self._free(lock))
        return lock

    def give_up(self, lock: DeathLock, *, removed: bool) -> None:
        for look in self.given_up:
            look(lock)
        if removed:
            self.all.pop((lock.process.machine, lock.statement.inode), None)
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

    def find(self, process: Process, member: str, statement: Statement) -> DeathLock | None:
        """The lock that is proof, as seen by this process: on its own machine, the very one that was stated, and there."""
        lock = self.all.get((process.machine, statement.inode))
        stated = lock is not None and statement.boot == process.machine and lock.statement == statement
        return lock if stated and lock is not None and lock.member == member else None

    def add(self, watch: Deaths) -> None:
        self._watches.append(watch)
        watch.process.at_kill.append(lambda: self.remove(watch))

    def remove(self, watch: Deaths) -> None:
        if watch in self._watches:
            self._watches.remove(watch)


class Deaths:
    """As `pares.runtime.death.watcher.DeathWatch`. Its one descriptor stands for itself: `Bells.also` takes it."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.on_wake: Callable[[], object] = lambda: None
        """Set by the bells that wait for it."""
        self._locks = process.world.locks
        self._watched: dict[str, Statement] = {}
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
        self._watched = new

    def watches(self, member: str) -> bool:
        return member in self._watched

    def wake(self, member: str) -> None:
        """Its process has ended, says the operating system."""
        if member in self._watched:
            self._due, self.woken = 0, True
            self.on_wake()

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
        for member, statement in self._watched.items():
            lock = self._locks.find(self.process, member, statement)
            if lock is not None and lock.free:
                dead.append(member)
        for member in dead:
            self._proven[member] = self._watched.pop(member)
        return dead

    def poll_interval(self, now_ns: int) -> float | None:
        if not any(self._locks.find(self.process, m, s) for m, s in self._watched.items()):
            return None
        return max(0, self._due - now_ns) / 1e9

    def close(self) -> None:
        self._watched.clear()
        self._proven.clear()
        self._locks.remove(self)
