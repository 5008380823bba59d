"""One process on a stage, by name: what befalls it, and what can be seen of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from pares.core.errors import ConfigError
from pares.runtime.member import Member
from pares.runtime.neli.claims_group import SUFFIX
from pares.sim.engine import SECOND, Stopwatch, WallClock
from pares.sim.world.process import Process
from pares.testing import virtual
from pares.testing.theatre import Network, Theatre

T = TypeVar("T")
State = Literal["waiting", "running", "joining", "live", "frozen", "closing", "closed", "failed", "dead"]


class Actor:
    """A process: a name, a machine, clocks, a way to its ledgers; and a program, which may be started again. Made by
    `Stage.start` and `Stage.member`; what befalls it is the stage's to say."""

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

    def do(self, call: Callable[[Member], T], timeout: float = 30.0) -> T:
        """Calls `call` with its member on a thread of this process, and lets time pass until that returns: its result, or what
        it raised. `timeout`: seconds of the stage, after which `TimeoutError` is raised."""
        process, member, done = self._running(), self.member, list[T]()
        process.spawn(lambda: done.append(call(member)), "do")
        self._theatre.play(timeout, lambda: done or not process.alive, every=0.001)
        if not done:
            raise TimeoutError(f"{self!r} has not done that within {timeout:g} s, or was killed")
        return done[0]

    # For its stage ---------------------------------------------------------------------------------------------------

    def _start(self) -> None:
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

    def _running(self) -> Process:
        if self._process is None or not self._process.alive:
            raise ConfigError(f"{self.name} does not run ({self.state}): restart it")
        return self._process

    def _starve(self) -> None:
        if (process := self._process) is not None:
            process.starving, process.starving_by = float(self._late > 0), int(self._late * SECOND)
