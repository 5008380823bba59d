"""What ALLCALL promises about who is there, about what is said, and about the end of all trouble."""

from __future__ import annotations

from collections import deque

from pares.core.events import Follow, Lead
from pares.core.wire.records import Seat
from pares.sim.allcall.checkers import FRESH
from pares.sim.allcall.knobs import AllCallKnobs, Bounds
from pares.sim.allcall.net import LONG_AGO, Message
from pares.sim.allcall.process import AllCallProcess
from pares.sim.allcall.scene import AllCallChecker, AllCallScene
from pares.sim.engine import MS


class Members(AllCallChecker):
    """A peer that is said to have come was just heard, and not by a late copy; one that is said to be lost was not, or has
    left."""

    promise = "membership events are true"

    def __init__(self, scene: AllCallScene, bounds: Bounds, knobs: AllCallKnobs) -> None:
        super().__init__(scene)
        self.bounds = bounds
        lease = knobs.lease_ms * MS
        self.fresh = FRESH * lease
        self.window = int(2.5 * knobs.beat_ms * MS / (1 + knobs.drift))
        self.oldest = lease + int(2e9 * knobs.wall_s) + bounds.delay + bounds.step
        self.left: set[str] = set()
        self.gone: dict[str, int] = {}
        self.arrivals: dict[tuple[str, str], tuple[int, int]] = {}
        """By hearer and sender: the highest number that came in time, and when."""
        self.numbers: dict[tuple[str, str], int] = {}
        self.news = True
        self.beat = int(knobs.beat_ms * MS / (1 + knobs.drift))
        self.stood_still: dict[str, int] = {}
        """When it went on after standing still for longer than a beat and a half."""

    def thawed(self, process: AllCallProcess) -> None:
        now = self.scene.engine.now
        if now > process.frozen_since + 2 * self.bounds.beat:
            self.stood_still[process.id] = now

    def closed(self, process: AllCallProcess) -> None:
        self.left.add(process.id)
        self.gone[process.id] = self.scene.engine.now

    def killed(self, process: AllCallProcess) -> None:
        self.gone[process.id] = self.scene.engine.now

    def arrived(self, process: AllCallProcess, message: Message) -> None:
        if not process.frozen:
            self._came(process, message)

    def _came(self, process: AllCallProcess, message: Message) -> None:
        key, now = (process.id, message.call.m), self.scene.engine.now
        if now <= message.at + self.fresh and message.call.n > self.arrivals.get(key, (0, 0))[0]:
            self.arrivals[key] = (message.call.n, now)

    def heard(self, process: AllCallProcess, message: Message) -> None:
        key = (process.id, message.call.m)
        self.news = message.call.n > self.numbers.get(key, 0)
        self.numbers[key] = max(message.call.n, self.numbers.get(key, 0))
        self._came(process, message)

    def joined(self, process: AllCallProcess, member: str) -> None:
        if member in process.peers:
            raise self.broken(f"{process.id} says twice that {member} is there")
        if not self.news:
            raise self.broken(f"{process.id} says that {member} is there, by a copy of what it had heard before")
        gone = self.gone.get(member)
        if gone is not None and self.scene.engine.now > gone + self.oldest:
            raise self.broken(f"{process.id} says that {member} is there, which is gone for longer than calls count")

    def lost(self, process: AllCallProcess, member: str, why: str) -> None:
        if member not in process.peers:
            raise self.broken(f"{process.id} says that {member} is lost, and has not said that it was there")
        if why == "left":
            if member not in self.left:
                raise self.broken(f"{process.id} says that {member} has left, and it has not")
            return
        if self.scene.engine.now < self.stood_still.get(process.id, LONG_AGO) + self.beat - self.bounds.step:
            raise self.broken(f"{process.id} says that {member} is lost, and stood still itself")
        _, at = self.arrivals.get((process.id, member), (0, LONG_AGO))
        if not self.bounds.clocks and self.scene.engine.now < at + self.window - self.bounds.step:
            ago = (self.scene.engine.now - at) / 1e6
            raise self.broken(f"{process.id} says that {member} is lost, whose call came {ago:.1f} ms ago")


class Traffic(AllCallChecker):
    """Calls don't multiply: a member says a few things a beat, however many others there are, and one for each thing that
    happens to itself: a term that begins or ends, a wish of its user's, another connection, the end of a standstill."""

    promise = "a few messages a beat"
    USUAL = 4
    """A call, two answers, and one more at the window's edge."""

    def __init__(self, scene: AllCallScene, knobs: AllCallKnobs) -> None:
        super().__init__(scene)
        self.beat = int(knobs.beat_ms * MS / (1 + knobs.drift))
        self.said: dict[str, deque[int]] = {}
        self.happened: dict[str, deque[int]] = {}

    def published(self, process: AllCallProcess, message: Message) -> None:
        said = self._lately(self.said, process)
        happened = len(self._lately(self.happened, process)) - 1
        self.happened[process.id].pop()
        # What was claimed is said before the term begins.
        if len(said) > self.USUAL + happened + len(process.roles):
            raise self.broken(f"{process.id} has said {len(said)} things within a beat, and {happened} happened to it")

    def led(self, process: AllCallProcess, effect: Lead) -> None:
        self._lately(self.happened, process)

    def followed(self, process: AllCallProcess, effect: Follow) -> None:
        self._lately(self.happened, process)

    def asked(self, process: AllCallProcess) -> None:
        self._lately(self.happened, process)

    def thawed(self, process: AllCallProcess) -> None:
        self._lately(self.happened, process)

    def _lately(self, events: dict[str, deque[int]], process: AllCallProcess) -> deque[int]:
        """What was within a beat, with what is now."""
        now = self.scene.engine.now
        found = events.setdefault(process.id, deque())
        found.append(now)
        while found[0] <= now - self.beat:
            found.popleft()
        return found


class Settled(AllCallChecker):
    """In the end, and whenever nothing has happened for long: the best ranked one leads each role, all know it, and all know
    who is there."""

    promise = "all agree in the end"

    def __init__(self, scene: AllCallScene, seats: list[Seat]) -> None:
        super().__init__(scene)
        self.seats = seats

    def best(self, seat: Seat) -> AllCallProcess | None:
        able = [
            p for p in self.scene.processes.values() if p.acts and p.ready and p.station.well and seat[0] in p.roles
        ]
        return min(able, key=AllCallProcess.key, default=None)

    def check(self) -> None:
        there = [p for p in self.scene.processes.values() if p.acts]
        for seat in self.seats:
            best, leaders = self.best(seat), self.scene.believers(seat)
            if best is not None and leaders != [best]:
                raise self.broken(f"{seat[0]} is led by {[p.id for p in leaders]}, and should be by {best.id}")
            for process in there:
                if best is not None and seat[0] in process.roles and process.views.get(seat[0]) != best.id:
                    raise self.broken(f"{process.id} takes {process.views.get(seat[0])} for the leader of {seat[0]}")
        for process in there:
            others = {p.id for p in there if p is not process}
            if process.peers != others:
                raise self.broken(f"{process.id} knows of {sorted(process.peers)}, and {sorted(others)} are there")

    def end(self) -> None:
        self.check()
