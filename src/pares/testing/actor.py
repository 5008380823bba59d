"""One process on a stage, by name: what befalls it, and what can be seen of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from pares.core.errors import ConfigError
from pares.runtime.member import Member
from pares.runtime.neli.claims_group import SUFFIX
from pares.sim.engine import SECOND, Stopwatch, WallClock
from pares.sim.world.faults import Strike
from pares.sim.world.process import Process
from pares.testing import virtual
from pares.testing.network import Network
from pares.testing.theatre import Theatre

T = TypeVar("T")
State = Literal["waiting", "running", "joining", "live", "frozen", "closing", "closed", "failed", "dead"]


class Actor:
    """A process: a name, a machine, clocks, a way to its ledgers; and a program, which may be started again. Made by
    `Stage.start` and `Stage.member`."""

    def __init__(
        self, theatre: Theatre, name: str, program: Callable[[], object], host: str, watch: Stopwatch, network: Network
    ) -> None:
        self._theatre = theatre
        self.name = name
        self.host = host
        self._program = program
        self._watch = watch
        self._wall = WallClock()
        self._network = theatre.networks[name] = network
        self._process: Process | None = None
        self._late = 0.0

    def __repr__(self) -> str:
        return f"<Actor {self.name} {self.state}>"

    # What can be seen ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """waiting (not started), running (without a member yet), frozen, closed (it has ended), dead (it was killed), or what
        its member says: joining, live, closing, closed, failed."""
        process = self._process
        if process is None:
            return "waiting"
        if not process.alive:
            return "dead" if process.killed else "closed"
        if process.frozen:
            return "frozen"
        members = self._members()
        return members[0].state if members else "running"

    @property
    def member(self) -> Member:
        """The first member that its program has made and not closed; for a `pares.aio.Member`, the one behind it. To look at;
        what waits is for `do`."""
        members = self._members()
        if not members:
            raise ConfigError(f"{self.name} has no member ({self.state}): let time pass until it has made one")
        return members[0]

    @property
    def id(self) -> str:
        """Its member's."""
        return self.member.id

    def holds(self, role: str) -> bool:
        """Whether a member of it believes that it leads `role`, by its own stopwatch: as `Member.holds`, were it asked now."""
        return any(held.seat[1] == role for held in self._theatre.beliefs(self.name))

    def token(self, role: str) -> int | None:
        """The token of its term, if it believes so."""
        return next((held.token for held in self._theatre.beliefs(self.name) if held.seat[1] == role), None)

    def seats(self) -> list[str]:
        """What it believes that it leads, as `role/index`."""
        return sorted(f"{held.seat[1]}/{held.seat[2]}" for held in self._theatre.beliefs(self.name))

    def _members(self) -> list[Member]:
        process = self._process
        members: list[Any] = [] if process is None or not process.alive else list(process.host.members.values())
        return [member for member in members if not member.group.endswith(SUFFIX)]

    # What befalls it -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Its program begins, in a new process."""
        if self._process is not None and self._process.alive:
            raise ConfigError(f"{self.name} runs already: kill() or close() it first, or restart() it")
        self._network.begin()
        self._process = self._theatre.start(
            self.name, self._main, machine=self.host, stopwatch=self._watch, wall=self._wall
        )
        self._starve()

    def _main(self, process: Process) -> None:
        try:
            self._program()
        finally:
            if not self._theatre.dead:
                virtual.join_all(process)

    def kill(self, *, at: int = 0) -> None:
        """The process is gone, as by SIGKILL: now, or (`at`) at the so-many-th call from now that its code makes to the world:
        a clock, a wait, a lock, a ledger. Members of processes of the same host learn of it in milliseconds."""
        process = self._running()
        if at:
            process.arm(Strike("kill", at))
        else:
            self._theatre.kill(process)

    def restart(self) -> None:
        """Killed, if it runs, and started again: a new incarnation of the same name."""
        if self._process is not None and self._process.alive:
            self.kill()
        self.start()

    def freeze(self, seconds: float | None = None, *, at: int = 0) -> None:
        """It stands still, as by SIGSTOP, for `seconds` or until `thaw`, and knows nothing of it. `at`: as of `kill`; where
        that call asks a clock, after it was read: so what was true a moment ago is acted upon much later."""
        process = self._running()
        if not at:
            self._theatre.freeze(process, None if seconds is None else int(seconds * SECOND))
        elif seconds is None:
            raise ConfigError(f"freeze(at={at}): say for how many seconds")
        else:
            process.arm(Strike("freeze", at, length=int(seconds * SECOND), late=True))

    def thaw(self) -> None:
        """It goes on."""
        self._theatre.thaw(self._running())

    def cut(
        self, *, reads: bool = True, writes: bool = True, acks: bool | None = None, group: bool | None = None
    ) -> None:
        """From now on, until `heal`, it reads nothing; what it writes does not arrive; it is not told that it did (`acks`); and
        the broker that shares out partitions does not hear it (`group`). None: if both `reads` and `writes` are cut. On a bus
        nothing passes."""
        both = reads and writes
        given = {"reads": reads, "writes": writes, "acks": both if acks is None else acks}
        what = [name for name, on in (given | {"group": both if group is None else group}).items() if on]
        self._network.cut(*what)
        self._tell(f"is cut off: {', '.join(what)}")

    def heal(self) -> None:
        """It reaches its ledgers again, and is slow no more."""
        self._network.cut()
        self._tell("is healed")
        self.slow()

    def slow(self, ledger: float = 0.0, *, threads: float = 0.0) -> None:
        """From now on everything takes its ledgers and buses so many seconds longer, there and back; and (`threads`) each of
        its threads that waits for something goes on up to so many seconds late. With neither it is slow no more."""
        self._network.slow(ledger)
        self._late = threads
        self._starve()
        if ledger or threads:
            self._tell(f"is slow: {ledger:g} s to its ledger, {threads:g} s for its threads")

    def skew(self, *, rate: float | None = None, wall: float | None = None) -> None:
        """From now on its stopwatch runs at this `rate` (1.05: 5% fast), which members bear within their `drift`; its wall
        clock is `wall` seconds off, which only NELI minds."""
        if rate is not None:
            self._watch.change(self._theatre.now, rate)
            self._tell(f"has a stopwatch that runs at {rate:g}")
        if wall is not None:
            self._wall.offset_us = int(wall * 1e6)
            self._tell(f"has a wall clock that is off by {wall:g} s")

    def close(self) -> None:
        """It begins to end in order, as by SIGTERM with `pares.leave_on_signals()`: its members leave, then it is gone."""
        process = self._running()
        process.spawn(lambda: self._theatre.leave(process), "close")

    def do(self, call: Callable[[Member], T], timeout: float = 30.0) -> T:
        """Calls `call` with its member on a thread of this process, and lets time pass until that returns: its result, or what
        it raised. `timeout`: seconds of the stage, after which `TimeoutError` is raised."""
        process, member = self._running(), self.member
        done: list[tuple[bool, Any]] = []

        def run() -> None:
            try:
                done.append((True, call(member)))
            except Exception as error:
                done.append((False, error))

        process.spawn(run, "do")
        self._theatre.play(timeout, lambda: done or not process.alive, every=0.001)
        if not done:
            raise TimeoutError(f"{self!r} has not done that within {timeout:g} s, or was killed")
        good, found = done[0]
        if not good:
            raise found
        return found

    def _running(self) -> Process:
        if self._process is None or not self._process.alive:
            raise ConfigError(f"{self.name} does not run ({self.state}): start() or restart() it")
        return self._process

    def _starve(self) -> None:
        if self._process is not None:
            self._process.starving, self._process.starving_by = float(self._late > 0), int(self._late * SECOND)

    def _tell(self, text: str) -> None:
        self._theatre.trace.add_line(self._theatre.now, self.name, text)
