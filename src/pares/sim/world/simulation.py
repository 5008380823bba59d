"""A world: processes, logs and buses, machines with their locks, one seed, and the true time of it all.

    with World(seed).playing() as world:
        log = world.log("orders")
        world.start("a", main)            # main(process) runs as the process' main thread
        world.run(5 * SECOND)

`main` is given its `Process`, on which `host` has everything that `pares.runtime` asks for; `here()` gives that host to any
code that runs inside. When `main` returns the process ends as a normal exit does: members leave, then every other task is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from pares.sim.engine import SECOND, Stopwatch, WallClock
from pares.sim.world.bells import Descriptors
from pares.sim.world.bus import Air, SharedBus, SimBus
from pares.sim.world.death import Locks
from pares.sim.world.host import SimHost
from pares.sim.world.logs.ledger import SimLedger
from pares.sim.world.logs.link import CALM, Weather
from pares.sim.world.logs.many import ManySimLedger
from pares.sim.world.logs.shared import SharedLog
from pares.sim.world.process import Process
from pares.sim.world.scheduler import NEVER, Scheduler, no_collector
from pares.sim.world.trace import Trace, captured

Main = Callable[[Process], object]


class World(Scheduler):
    """`told`: it keeps a trace."""

    def __init__(self, seed: int | str = 0, *, told: bool = False) -> None:
        super().__init__()
        self.seed = seed
        self.trace = Trace(told=told)
        self.processes: dict[str, Process] = {}
        """By name, the newest of each; those that have ended included."""
        self.logs: dict[str, SharedLog] = {}
        self.buses: dict[str, SharedBus] = {}
        self.handles: list[SimLedger] = []
        """Of all processes that are alive."""
        self.descriptors = Descriptors()
        self.locks = Locks(self)
        self.on_start: list[Callable[[Process], object]] = []
        self.on_end: list[Callable[[Process], object]] = []
        """Told of a process that is about to be killed, or to end: what it believes can still be seen."""
        self.on_gone: list[Callable[[Process], object]] = []
        """Told of it after them, when it is about to be gone."""
        self.on_hindered: list[Callable[[Process], object]] = []
        """Told of a process that a fault has struck, or will hinder for a while."""
        self.on_sent: list[Callable[[Process, SimLedger, int, Sequence[bytes]], object]] = []
        """Told of what a process hands over for appending."""
        self.on_member: list[Callable[[Process, Any], object]] = []
        """Told of a member that begins."""
        self.burden = 0
        """Nanoseconds for which a machine works for each entry that a process on it reads; it does one thing at a time."""
        self.busy_until: dict[str, int] = {}
        """The true time at which each machine has done all that it was given, where there is a burden."""
        self._pids = 0

    # Playing ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def playing(self) -> Generator[World, None, None]:
        """While this lasts the world can run; afterwards nothing of it is left."""
        with no_collector(), captured(self):
            try:
                yield self
            finally:
                self.end()

    def end(self) -> None:
        """Nothing of it is left."""
        for process in self.processes.values():
            process.halt()
        self.unwind([task for process in self.processes.values() for task in process.tasks])

    def run_for(self, seconds: float) -> None:
        self.run(self.now + int(seconds * SECOND))

    def random(self, what: str) -> Random:
        """A stream of chance of its own for each purpose, so that one draw more in one place changes nothing elsewhere."""
        return Random(f"{self.seed}/{what}")

    def told(self, process: Process | None, text: str) -> None:
        self.trace.add_line(self.now, "--" if process is None else process.name, text)

    @contextmanager
    def looking(self) -> Generator[None, None, None]:
        """Code of processes may be called to look at what they are: it costs no time, counts as no call and stops nowhere."""
        if self.quiet:
            yield
            return
        process = None if self.current is None else self.current.process
        calls, now = 0 if process is None else process.calls, self.now
        self.quiet = True
        try:
            yield
        finally:
            self.quiet, self.now = False, now
            if process is not None:
                process.calls = calls

    # Logs and buses --------------------------------------------------------------------------------------------------

    def log(self, name: str = "log", partitions: int = 1, **more: Any) -> SharedLog:
        """The log of that name, made if it is not there."""
        if name not in self.logs:
            self.logs[name] = SharedLog(name, partitions, **more)
        return self.logs[name]

    def bus(self, name: str = "bus") -> SharedBus:
        if name not in self.buses:
            self.buses[name] = SharedBus(self, name)
        return self.buses[name]

    def ledger(
        self,
        process: Process,
        log: SharedLog,
        weather: Weather = CALM,
        *,
        has_bell: bool = True,
        many_at_once: bool = False,
    ) -> SimLedger:
        """A handle of this process. `many_at_once`: with `pares.ledger.ManyAtOnce`."""
        return (ManySimLedger if many_at_once else SimLedger)(process, log, weather, has_bell=has_bell)

    def on_bus(self, process: Process, bus: SharedBus, air: Air = Air()) -> SimBus:
        return SimBus(process, bus, air)

    def sent(self, process: Process, ledger: SimLedger, partition: int, payloads: Sequence[bytes]) -> None:
        for tell in self.on_sent:
            tell(process, ledger, partition, payloads)

    # Processes -------------------------------------------------------------------------------------------------------

    def host(self, process: Process) -> SimHost:
        """What a new process has for a host."""
        return SimHost(process, self)

    def start(
        self,
        name: str,
        main: Main,
        *,
        machine: str = "machine",
        stopwatch: Stopwatch | None = None,
        wall: WallClock | None = None,
        env: dict[str, str] | None = None,
    ) -> Process:
        """A process of that name begins; one that ran under it before must have ended."""
        before = self.processes.get(name)
        if before is not None and before.alive:
            raise ValueError(f"process {name!r} runs already")
        self._pids += 1
        process = Process(
            self,
            name,
            machine=machine,
            pid=self._pids,
            stopwatch=stopwatch or Stopwatch(),
            wall=wall or WallClock(),
            rng=self.random(f"{name}/{self._pids}"),
        )
        process.env.update(env or {})
        process.well_since = self.now
        process.host = self.host(process)
        process.context = process.host.context()
        self.processes[name] = process
        self.told(process, "starts")
        for tell in self.on_start:
            tell(process)
        process.spawn(lambda: self._main(process, main), "main")
        return process

    def _main(self, process: Process, main: Main) -> None:
        try:
            main(process)
        finally:
            if process.alive and not self.dead:
                self.leave(process)

    def leave(self, process: Process) -> None:
        """It exits in order, on the task that calls: members leave, then everything else is gone."""
        process.host.exit()
        self.at(self.now, self._exits, process)

    def _exits(self, process: Process) -> None:
        if process.alive:
            self.told(process, "exits")
            self._end(process)

    def kill(self, process: Process) -> None:
        """SIGKILL: no task of it goes on, and nothing is cleaned up but what the operating system cleans up."""
        if process.alive:
            self.told(process, "killed")
            process.killed = True
            self._end(process)

    def _end(self, process: Process) -> None:
        for tell in (*self.on_end, *self.on_gone):
            tell(process)
        process.end()

    def freeze(self, process: Process, length: int | None = None) -> None:
        """SIGSTOP: its tasks stand still, for `length` nanoseconds or until it is thawed; its clocks and the world go on."""
        if not process.alive or process.frozen:
            return
        self.told(process, "frozen" if length is None else f"frozen for {length / SECOND:.6f} s")
        process.freeze()
        process.well_since = NEVER
        self.hindered(process)
        if length is not None:
            self.after(length, self.thaw, process)

    def thaw(self, process: Process) -> None:
        if process.alive and process.frozen:
            self.told(process, "thawed")
            process.thaw()
            process.well_since = self.now
            self.hindered(process)

    def hindered(self, process: Process) -> None:
        for tell in self.on_hindered:
            tell(process)
