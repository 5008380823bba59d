"""A scene for NELI: the logs of some partitions, a coordinator, processes, and whoever watches."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, Final

from kernel.trace import Story
from kernel.wire import CALM, Weather
from neli_coordinator import Coordinator
from neli_process import NeliProcess

from pares.core.events import Lead
from pares.core.wire.neli_records import (
    Announce,
    Beacon,
    Foreign,
    Number,
    PartitionCount,
    Place,
    Pulse,
    RolesChanged,
    Share,
    Yield,
    decode,
)
from pares.core.wire.records import BadRecord, Seat
from pares.sim.checker import Broken
from pares.sim.engine import MS, SECOND, Engine, Stopwatch, WallClock
from pares.sim.log import EntryTuple, SimLog

GROUP: Final = "stage"


class NeliChecker:
    """Does nothing; a checker overrides what it needs to see. It sees what a person with perfect instruments would see."""

    promise = ""

    def __init__(self, scene: NeliScene) -> None:
        self.scene = scene

    def broken(self, what: str) -> Broken:
        return Broken(self.promise, self.scene.engine.now, what)

    def led(self, process: NeliProcess, effect: Lead) -> None:
        """A belief begins."""

    def renewed(self, process: NeliProcess, effect: Any) -> None:
        """Its beliefs last longer."""

    def followed(self, process: NeliProcess, effect: Any) -> None:
        """A belief is over; it is still there to be seen."""

    def barrier(self, process: NeliProcess, effect: Any) -> None:
        """A barrier begins."""

    def barrier_over(self, process: NeliProcess, effect: Any) -> None:
        """A barrier returned."""

    def killed(self, process: NeliProcess) -> None:
        """It is about to be killed."""

    def put(self, process: NeliProcess, effect: Any) -> None:
        """A record is handed over for sending."""

    def reported(self, process: NeliProcess, effect: Any) -> None:
        """Something that a person should know."""

    def replaced(self, number: int) -> None:
        """Another log stands in the place of that partition's."""

    def disturbed(self) -> None:
        """What depends on calm begins anew."""

    def end(self) -> None:
        """The simulation is over."""


class NeliScene:
    """Everything in one simulation."""

    def __init__(
        self,
        seed: int | str = 0,
        *,
        protocol: str = "fast-neli",
        partitions: int = 1,
        session: int = SECOND,
        group_delay: tuple[int, int] = (MS, MS),
        weather: Weather = CALM,
        told: bool = False,
    ) -> None:
        self.seed = seed
        self.protocol = protocol
        self.partitions = partitions
        self.weather = weather
        self.engine = Engine()
        self.broker = WallClock()
        """The broker's clock, by which entries are stamped."""
        self.logs = [_Stamped(self.broker) for _ in range(partitions)]
        self.story = Story(told=told)
        self.processes: dict[str, NeliProcess] = {}
        self.checkers: list[NeliChecker] = []
        self._session, self._group_delay = session, group_delay
        self.coordinators: dict[str, Coordinator] = {}
        """By group: others may share the logs."""
        self.coordinator = self.coordinator_of(GROUP)
        for number, log in enumerate(self.logs):
            log.listeners.append(lambda entries, number=number: self._landed(number, entries))

    def random(self, what: str) -> Random:
        """A stream of chance of its own for each purpose."""
        return Random(f"{self.seed}/{what}")

    def coordinator_of(self, group: str) -> Coordinator:
        found = self.coordinators.get(group)
        if found is None:
            chance = self.random("group" if group == GROUP else f"group/{group}")
            found = Coordinator(self.engine, chance, self.partitions, self._session, self._group_delay)
            self.coordinators[group] = found
            self.engine.at(self.engine.now, found.look)
        return found

    def add(
        self, name: str, settings: dict[str, Any], *, stopwatch: Stopwatch | None = None, wall: WallClock | None = None
    ) -> NeliProcess:
        settings = {"group": GROUP, "partitions": self.partitions, **settings}
        watch, clock = stopwatch or Stopwatch(), wall or WallClock()
        process = NeliProcess(self, name, settings, watch, clock, self.random(name))
        self.processes[name] = process
        return process

    def replace_log(self, number: int, *, same: bool = False) -> None:
        """Another log in the place of that partition's. All connections to it break."""
        self.logs[number].replace(same=same)
        self.note(f"log {number}", "replaced")
        for process in self.processes.values():
            process.parts[number].wire.suspect = True
            if process.running:
                process.wake(self.engine.now + MS)
        self.tell("replaced", number)

    def watch(self, checkers: Iterable[NeliChecker]) -> None:
        self.checkers += checkers

    def tell(self, hook: str, *args: Any) -> None:
        for checker in self.checkers:
            getattr(checker, hook)(*args)

    def disturbed(self) -> None:
        self.tell("disturbed")

    # The trace -----------------------------------------------------------------------------------------------------------

    def note(self, who: str, what: str, seat: Seat | None = None, token: int | None = None, why: str = "") -> None:
        if self.story.told:
            self.story.add(self.engine.now, who, what, seat, "" if token is None else self.story.token(token), why)

    def _landed(self, number: int, entries: list[EntryTuple]) -> None:
        for process in self.processes.values():
            part = process.parts[number]
            if process.running and not part.wire.reads_cut:
                process.wake(self.engine.now + part.wire.lag)
        if not self.story.told:
            return
        for offset, _, payload in entries:
            try:
                record = decode(payload)
            except BadRecord:
                self.story.add(self.engine.now, f"log {number}", "bad record", None, f"#{offset}")
                continue
            if isinstance(record, Announce):
                self.story.base(record.b)
                self.story.add(self.engine.now, record.m, "announces", None, f"#{offset}", f"partition {number}")
            elif isinstance(record, Yield):
                term = self.story.token(record.term)
                why = f"partition {number}, tenure {term} ({record.why}){'' if record.led else ', never led'}"
                self.story.add(self.engine.now, record.m, "yields", None, f"#{offset}", why)
            elif isinstance(record, Number):
                self.story.add(self.engine.now, record.m, "names", None, f"#{offset}", ", ".join(record.names))
            elif isinstance(record, RolesChanged):
                words = [f"+{role}" for role in record.add] + [f"-{role}" for role in record.drop]
                why = f"partition {number}: {', '.join(words) or 'as before'}"
                self.story.add(self.engine.now, record.m, "names roles", None, f"#{offset}", why)
            elif not isinstance(record, Pulse | Beacon | Foreign | PartitionCount | Share | Place):
                raise AssertionError(record)


class _Stamped(SimLog):
    """Entries carry the broker's time, which is not true time."""

    def __init__(self, clock: WallClock) -> None:
        super().__init__()
        self._clock = clock

    def stamp_ms(self, now: int) -> int:
        return self._clock.read_us(now) // 1000
