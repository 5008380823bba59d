"""What a simulated process has for a host: the seam of `pares.runtime` (`pares.runtime.host.Host`), in virtual time."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from pares.core.errors import ConfigError
from pares.core.wire.records import Lock as Statement
from pares.ledger import Ledger, Log
from pares.ledger.registry import ClosableBus
from pares.runtime.claims.witness import Witness
from pares.runtime.here import HERE
from pares.runtime.host import Leaver
from pares.sim.world.bells import Bells
from pares.sim.world.bus import SharedBus, SimBus
from pares.sim.world.death import DeathLock, Deaths, Locks
from pares.sim.world.logs.ledger import SimLedger
from pares.sim.world.logs.shared import SharedLog
from pares.sim.world.process import Process
from pares.sim.world.scheduler import Task
from pares.sim.world.sync import Condition, Flag, Lock, Mailbox, RLock

EXIT_TIMEOUT: Final = 5.0
"""Seconds that an exiting process gives its members, as in production."""
LOCKS: Final = Path("/locks")
"""Where the locks of a machine are; there is no such folder."""


class Chance:
    """Ids and jitter, from the seed."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def token_hex(self, nbytes: int) -> str:
        self._process.cross("random")
        return self._process.rng.randbytes(nbytes).hex()

    def randrange(self, stop: int) -> int:
        self._process.cross("random")
        return self._process.rng.randrange(stop)


class HasHosts(Protocol):
    """A world (`simulation`), as hosts know it."""

    current: Task | None
    processes: dict[str, Process]
    logs: dict[str, SharedLog]
    buses: dict[str, SharedBus]
    locks: Locks
    on_member: list[Callable[[Process, Any], object]]

    def task(self) -> Task: ...

    def told(self, process: Process, text: str) -> None: ...

    def ledger(self, process: Process, log: SharedLog) -> SimLedger: ...

    def on_bus(self, process: Process, bus: SharedBus) -> SimBus: ...

    def start(self, name: str, main: Callable[[Process], object], *, machine: str) -> Process: ...


class SimHost:
    """Of one process."""

    def __init__(self, process: Process, world: HasHosts) -> None:
        self.process = process
        self._world = world
        self.now: Callable[[], int] = process.now
        self.wall_us: Callable[[], int] = process.wall_us
        self.pid = process.pid
        self.hostname = process.machine
        self.boot = process.machine
        self.env: Mapping[str, str] = process.env
        self.provable = True
        """Whether deaths can be proven on this machine."""
        self.members: dict[int, Leaver] = {}
        """Those that were begun and have not ended, in order."""
        self._counts: dict[str, int] = {}
        self._numbers = 0

    def context(self) -> contextvars.Context:
        """What its tasks run in."""
        context = contextvars.Context()
        context.run(HERE.set, self)
        return context

    # Tasks -----------------------------------------------------------------------------------------------------------

    def spawn(self, run: Callable[[], object], name: str) -> Task:
        self.process.cross("spawn")
        return self.process.spawn(run, name)

    def task(self) -> Task:
        return self._world.task()

    def ident(self) -> int:
        world = self._world
        return (world.current or world.task()).ident

    def sleep(self, seconds: float) -> None:
        process = self.process
        process.cross("sleep")
        process.block("sleep", process.deadline(seconds))

    def lock(self) -> Lock:
        return Lock(self.process)

    def rlock(self) -> RLock:
        return RLock(self.process)

    def flag(self) -> Flag:
        return Flag(self.process)

    def condition(self, lock: Any = None) -> Condition:
        return Condition(self.process, lock)

    def mailbox(self) -> Mailbox:
        return Mailbox(self.process)

    # The life of the process -----------------------------------------------------------------------------------------

    def begin(self, member: Leaver) -> None:
        self._numbers += 1
        self.members[self._numbers] = member
        for tell in self._world.on_member:
            tell(self.process, member)

    def end(self, member: Leaver) -> None:
        self.members = {number: other for number, other in self.members.items() if other is not member}

    def exit(self) -> None:
        """A normal exit: all members leave, at the same time."""
        members = list(self.members.values())
        closers = [self.spawn(self._closes(member), "leaving") for member in members[1:]]
        if members:
            self._closes(members[0])()
        for closer in closers:
            closer.join(EXIT_TIMEOUT)

    def _closes(self, member: Leaver) -> Callable[[], None]:
        def close() -> None:
            try:
                member.close(EXIT_TIMEOUT)
            except Exception as error:
                self._world.told(self.process, f"{member!r} could not be closed: {error!r}")

        return close

    @contextmanager
    def without_forks(self) -> Generator[None, None, None]:
        """Nothing forks here."""
        yield

    def count(self, what: str) -> int:
        self._counts[what] = self._counts.get(what, 0) + 1
        return self._counts[what]

    # Ledgers and deaths ----------------------------------------------------------------------------------------------

    def open(self, url: str, **options: Any) -> Ledger:
        """`sim://NAME`: a handle on the log of that name, by the usual weather."""
        scheme, _, name = url.partition("://")
        world = self._world
        if scheme != "sim" or name not in world.logs:
            raise ConfigError(f"{url} is no log of this world; it has: {', '.join(map('sim://{}'.format, world.logs))}")
        return world.ledger(self.process, world.logs[name])

    def open_bus(self, url: str, **options: Any) -> ClosableBus:
        """`simbus://NAME`."""
        scheme, _, name = url.partition("://")
        world = self._world
        if scheme != "simbus" or name not in world.buses:
            raise ConfigError(f"{url} is no bus of this world")
        return world.on_bus(self.process, world.buses[name])

    def bells(self, ledger: Log | None, partitions: Sequence[int] = (0,)) -> Bells:
        return Bells(self.process, ledger, tuple(partitions))

    def lock_folder(self, ledger: Log, given: str | os.PathLike[str] | None) -> Path | None:
        if not self.provable:
            return None
        return LOCKS if given is None else Path(given)

    def death_lock(self, folder: Path, member: str) -> DeathLock:
        return self._world.locks.take(self.process, folder, member)

    def deaths(self, folder: Path, *, witness: bool = False) -> Deaths:
        return Deaths(self.process, self._world.locks)

    def start_witness(self, settings: Mapping[str, Any]) -> None:
        """One of each machine, for each group; whatever becomes of the process that has started it."""
        world, machine, group = self._world, self.process.machine, settings["group"]
        name = f"witness of {group} on {machine}"
        before = world.processes.get(name)
        if before is not None and before.alive:
            return

        def main(process: Process) -> None:
            more = {"group": group, "lock_folder": settings["lock_folder"], "connect": "background"}
            with Witness(settings["ledger"], **more):
                process.host.flag().wait()

        world.start(name, main, machine=machine)

    def forget(self, folder: Path, member: str, statement: Statement) -> bool:
        """The lock stays: it is as good as gone, for nobody asks for it again."""
        self.process.cross("forget")
        return True

    # Chance ----------------------------------------------------------------------------------------------------------

    def random(self) -> Chance:
        return Chance(self.process)
