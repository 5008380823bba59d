"""A scene for ALLCALL: a bus, processes, and whoever watches."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, Final

from pares.core.allcall.messages import TERM_ORIGIN_S
from pares.core.events import Follow, Lead, Report
from pares.core.wire.records import Seat
from pares.sim.allcall.knobs import Weather
from pares.sim.allcall.net import Message, Net
from pares.sim.allcall.process import AllCallProcess
from pares.sim.checker import Broken
from pares.sim.engine import Engine, Stopwatch, WallClock
from pares.sim.trace import Story

GROUP: Final = "stage"
TIE_BITS: Final = 22


class AllCallChecker:
    """Does nothing; a checker overrides what it needs to see. It sees what a person with perfect instruments would see: what
    was said, when it came, and what everybody believes. It does not look into the protocol."""

    promise = ""

    def __init__(self, scene: AllCallScene) -> None:
        self.scene = scene

    def broken(self, what: str) -> Broken:
        return Broken(self.promise, self.scene.engine.now, what)

    def began(self, process: AllCallProcess) -> None:
        """A new incarnation."""

    def killed(self, process: AllCallProcess) -> None:
        """It is about to be killed: its beliefs are still there to be seen."""

    def closed(self, process: AllCallProcess) -> None:
        """It has said goodbye."""

    def thawed(self, process: AllCallProcess) -> None:
        """It goes on after standing still, and has not done anything yet."""

    def published(self, process: AllCallProcess, message: Message) -> None:
        """It hands a message over for sending."""

    def arrived(self, process: AllCallProcess, message: Message) -> None:
        """A message came, and will be read, at once if the process does not stand still."""

    def heard(self, process: AllCallProcess, message: Message) -> None:
        """It reads a message now."""

    def led(self, process: AllCallProcess, effect: Lead) -> None:
        """A belief begins."""

    def renewed(self, process: AllCallProcess, effect: Lead) -> None:
        """A belief lasts longer than it did; the old one is still there to be seen."""

    def followed(self, process: AllCallProcess, effect: Follow) -> None:
        """A belief is over; it is still there to be seen."""

    def asked(self, process: AllCallProcess) -> None:
        """Its user asks something of it, or its connection is another one."""

    def joined(self, process: AllCallProcess, member: str) -> None:
        """It says that somebody is there."""

    def lost(self, process: AllCallProcess, member: str, why: str) -> None:
        """It says that somebody is not there any more."""

    def reported(self, process: AllCallProcess, effect: Report) -> None:
        """Something that a person should know."""

    def looked(self) -> None:
        """Again and again, several times a beat."""

    def end(self) -> None:
        """The simulation is over."""


class AllCallScene:
    """Everything in one simulation."""

    def __init__(self, seed: int | str = 0, *, weather: Weather | None = None, told: bool = False) -> None:
        self.seed = seed
        self.engine = Engine()
        self.story = Story(told=told)
        self.net = Net(self.engine, self.random("net"), weather or Weather())
        self.processes: dict[str, AllCallProcess] = {}
        self.checkers: list[AllCallChecker] = []
        self.disturbed_at = 0
        """When something was last done to the group."""
        self._hooks: dict[str, list[Any]] = {}

    def random(self, what: str) -> Random:
        """A stream of chance of its own for each purpose."""
        return Random(f"{self.seed}/{what}")

    def add(
        self, name: str, settings: dict[str, Any], *, stopwatch: Stopwatch | None = None, wall: WallClock | None = None
    ) -> AllCallProcess:
        settings = {"group": GROUP, "roles": ("x",), "barrier_ms": 0, **settings}
        watch, clock = stopwatch or Stopwatch(), wall or WallClock()
        process = AllCallProcess(self, name, settings, watch, clock, self.random(name))
        self.processes[name] = process
        self.net.add(process)
        return process

    def watch(self, checkers: Iterable[AllCallChecker]) -> None:
        for checker in checkers:
            self.checkers.append(checker)
            for name in vars(AllCallChecker):
                if getattr(type(checker), name) is not getattr(AllCallChecker, name) and not name.startswith("_"):
                    self._hooks.setdefault(name, []).append(getattr(checker, name))

    def look_every(self, pause: int) -> None:
        """Lets checkers look, again and again."""
        self.tell("looked")
        self.engine.after(pause, self.look_every, pause)

    def tell(self, hook: str, *args: Any) -> None:
        for call in self._hooks.get(hook, ()):
            call(*args)

    def disturbed(self) -> None:
        self.disturbed_at = self.engine.now

    def of_id(self, id: str) -> AllCallProcess | None:
        """The process of that name, if it runs as that incarnation."""
        process = self.processes.get(id.partition("~")[0])
        return process if process is not None and process.running and process.id == id else None

    def believers(self, seat: Seat) -> list[AllCallProcess]:
        return [process for process in self.processes.values() if process.believes(seat)]

    # The trace -----------------------------------------------------------------------------------------------------------

    def note(self, who: str, what: str, seat: Seat | None = None, token: int | None = None, why: str = "") -> None:
        if self.story.told:
            self.story.add(self.engine.now, who, what, seat, "" if token is None else term_name(token), why)


def term_name(token: int) -> str:
    """The term of a token, in seconds since the simulation's epoch: shorter to read."""
    return f"#{(token >> TIE_BITS) - (WallClock.EPOCH_US // 1_000_000 - TERM_ORIGIN_S)}"
