"""The world of a stage: its processes open any URL, and find a simulated log or bus there, to which nothing may pass, or all
of it late; what happens is told.

`Theatre` plays as long as it is not closed, however often its user lets time pass.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, Final

import msgspec

from pares.ledger import Ledger, parse
from pares.ledger.registry import ClosableBus, partition_of
from pares.runtime.neli.claims_group import SUFFIX
from pares.sim.engine import SECOND
from pares.sim.log import EntryTuple
from pares.sim.members.neli.broker import Broker, BrokerLedger
from pares.sim.members.sight import Held, Sight
from pares.sim.world.bus import SimBus
from pares.sim.world.host import SimHost
from pares.sim.world.logs.ledger import SimLedger
from pares.sim.world.logs.link import CALM, Weather
from pares.sim.world.logs.shared import SharedLog
from pares.sim.world.process import Process
from pares.sim.world.scheduler import no_collector, take
from pares.sim.world.simulation import World
from pares.sim.world.trace import captured
from pares.testing import event_loop, virtual
from pares.testing.blocked import Blocked, Watchdog

QUIET: Final = ("beat", "did", "pulse", "beacon")
"""Kinds of records that would fill the trace."""
BROKERS: Final = "kafka:"
"""How URLs begin of logs whose broker shares out partitions."""


class Network:
    """Of one process, also after it was started again. `latency`, `timeout`: seconds."""

    def __init__(self, latency: float, timeout: float) -> None:
        self._latency = int(latency * SECOND)
        self._timeout = int(timeout * SECOND)
        self._later = 0
        self._cut: tuple[str, ...] = ()
        self._ledgers: list[SimLedger] = []
        self._buses: list[SimBus] = []

    def begin(self) -> None:
        """A new process has opened nothing yet."""
        self._ledgers.clear()
        self._buses.clear()

    def adopt(self, handle: SimLedger | SimBus) -> None:
        """The process has opened this."""
        (self._ledgers if isinstance(handle, SimLedger) else self._buses).append(handle)  # type: ignore[arg-type]
        self._apply()

    def cut(self, *what: str) -> None:
        """From now on these don't pass: "reads", "writes", "acks", "group"."""
        self._cut = what
        self._apply()

    def slow(self, seconds: float) -> None:
        self._later = int(seconds * SECOND)
        self._apply()

    def _apply(self) -> None:
        each = self._latency + self._later // 2
        for ledger in self._ledgers:
            both = (2 * each, 2 * each)
            ledger.weather = Weather(send=(each, each), ack=(each, each), read=both, timeout=self._timeout)
            ledger.heal()
            ledger.cut(**{way: way in self._cut for way in ("reads", "writes", "acks")})
            if isinstance(ledger, BrokerLedger):
                ledger.group_cut = "group" in self._cut
        for bus in self._buses:
            bus.cut = "reads" in self._cut or "writes" in self._cut
            bus.air = msgspec.structs.replace(bus.air, delay=(each, each))


class StageHost(SimHost):
    """Of one process of a stage."""

    def __init__(self, process: Process, theatre: Theatre) -> None:
        super().__init__(process, theatre)
        self._theatre = theatre

    def open(self, url: str, **options: Any) -> Ledger:
        """The log of this name, whatever service the URL is of; `partitions` as there. One of Kafka has a broker too."""
        theatre = self._theatre
        wanted = options.get("partitions") or parse(url).query.get("partitions") or theatre.partitions
        log = theatre.log(url.partition("?")[0])
        if url.startswith(BROKERS):
            ledger: SimLedger = theatre.brokers.setdefault(log.name, Broker(theatre, log)).ledger(self.process, CALM)
        else:
            ledger = theatre.ledger(self.process, log)
        ledger.url = url
        theatre.networks[self.process.name].adopt(ledger)
        ledger.end(0)  # one that is out of reach can't be opened
        theatre.widen(log, max(int(wanted), partition_of(url) + 1))
        return ledger  # type: ignore[return-value]

    def open_bus(self, url: str, **options: Any) -> ClosableBus:
        theatre = self._theatre
        bus = theatre.on_bus(self.process, theatre.bus(url.partition("?")[0]))
        theatre.networks[self.process.name].adopt(bus)
        return bus


class Theatre(World):
    """`partitions`: of logs of which nobody says how many. `patience`: as of `Watchdog`."""

    def __init__(self, seed: int | str, partitions: int, patience: float) -> None:
        super().__init__(seed, told=True)
        self.partitions = partitions
        self.brokers: dict[str, Broker] = {}
        """By the names of their logs."""
        self.networks: dict[str, Network] = {}
        """By the names of processes."""
        self.sight = Sight(self)
        self.sight.began.append(self._meet)
        self.sight.prolonged.append(self._meet)
        self.most: dict[tuple[str, str], int] = {}
        """By group and role: how many have believed in one of its seats at once."""
        self.watchers.append(self._failures)
        self._raised: list[BaseException] = []
        self._watchdog = Watchdog(self, patience)
        self._playing = ExitStack()
        self._chance = random.Random(f"{seed}/random").getstate()
        self._open = False
        self.closed = False

    def host(self, process: Process) -> SimHost:
        return StageHost(process, self)

    # Time ------------------------------------------------------------------------------------------------------------

    def play(self, seconds: float, until: Callable[[], object] | None = None, every: float = 0.01) -> bool:
        """Lets so much time pass, or less, if a look every so often finds `until` true; whether it was."""
        if self.current is not None:
            raise RuntimeError(
                "time passes by what the test asks for, and a process of the stage has asked for it: let it sleep"
            )
        self._begin()
        end, step = self.now + int(seconds * SECOND), int(every * SECOND)
        before, state = take(), random.getstate()
        random.setstate(self._chance)
        try:
            with captured(self), self._watchdog.watching():
                while until is not None and not until():
                    if self.now >= end:
                        return False
                    self.run(min(self.now + step, end))
                if until is None:
                    self.run(end)
        finally:
            self._chance = random.getstate()
            random.setstate(state)
            if before is not None:
                before.give()
        return True

    def _begin(self) -> None:
        if self.closed:
            raise RuntimeError("this stage is closed: make a new one")
        if not self._open:
            self._open = True
            virtual.begin()
            self._playing.callback(virtual.end)
            self._playing.callback(event_loop.unwind, self)
            self._playing.enter_context(no_collector())
            self._playing.callback(self.end)

    def close(self) -> None:
        """Nothing of it is left. What code makes of being ended in the middle is nobody's matter."""
        self.closed = True
        self._watchdog.close()
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        try:
            with captured(self), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._playing.close()
        finally:
            sys.unraisablehook = hook

    # What happens ----------------------------------------------------------------------------------------------------

    def widen(self, log: SharedLog, partitions: int) -> None:
        """It has so many at least, and what lands there is told."""
        log.grow(partitions)
        for partition in log.partitions:
            if self._landed not in partition.listeners:
                partition.listeners.append(self._landed)

    def _landed(self, entries: list[EntryTuple]) -> None:
        for offset, _, payload in entries:
            with suppress(msgspec.DecodeError, KeyError, TypeError):  # not everything in a log is a record
                said = msgspec.json.decode(payload)
                place = " {}/{}".format(*said["seat"]) if said.get("seat") else ""
                if said["k"] not in QUIET:
                    self.trace.add_line(self.now, "log", f"#{offset} {said['m']} {said['k']}{place}")

    def beliefs(self, name: str) -> list[Held]:
        """What members of this process believe at this moment, but for those that share out partitions for others."""
        process = self.processes.get(name)
        found = [] if process is None else self.sight.of_process(process)
        return [held for held in found if not held.seat[0].endswith(SUFFIX) and held.believing()]

    def _meet(self, held: Held) -> None:
        group, role, _ = held.seat
        if not group.endswith(SUFFIX):
            self.most[group, role] = max(self.most.get((group, role), 0), len(self.sight.believers(held.seat)))

    def _failures(self, process: Process) -> None:
        """What ends a thread of a process ends the run, unless it is how programs end."""
        for name, error in process.failures:
            if not isinstance(error, SystemExit | Blocked) and not any(error is one for one in self._raised):
                self._raised.append(error)
                error.add_note(
                    f"in thread {name!r} of process {process.name!r}, {self.now / SECOND:.6f} s into the stage"
                )
                raise error
