"""A peer that is said to have come was just heard, and not by a late copy; one that is said to be lost was not, or has left."""

from __future__ import annotations

from collections import deque
from typing import Final

from pares.runtime.events import Event, Joined, Left
from pares.sim.engine import MS
from pares.sim.members.allcall.calls import Message
from pares.sim.members.allcall.ground import FRESH, Ground
from pares.sim.members.allcall.promises.base import AllCallPromise
from pares.sim.world.bus import LONG_AGO
from pares.sim.world.process import Process

LATELY: Final = 20
"""Messages of one sender to one hearer that are remembered."""


class Membership(AllCallPromise):
    name = "membership events are true"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        plan, bounds = stage.plan, self.bounds
        self.fresh = FRESH * plan.unit
        self.window = int(2.5 * plan.beat_ms * MS / (1 + plan.drift))
        self.beat = int(plan.beat_ms * MS / (1 + plan.drift))
        self.oldest = plan.unit + int(2e9 * plan.wall_spread) + bounds.delay + bounds.step
        self.left: set[str] = set()
        self.gone: dict[str, int] = {}
        self.ids: dict[Process, str] = {}
        self.there: dict[Process, set[str]] = {}
        """By process: the peers that it has said to be there."""
        self.arrivals: dict[tuple[Process, str], deque[tuple[int, int]]] = {}
        """By hearer and sender: what came in time of late, by when it came, and its number."""
        self.numbers: dict[tuple[Process, str], int] = {}
        self.news: dict[tuple[Process, str], int] = {}
        """By hearer and sender: when something new was heard."""
        self.lost: dict[tuple[Process, str], int] = {}
        """When a process said that a peer was gone."""
        self.frozen: dict[Process, int] = {}
        self.stood_still: dict[Process, int] = {}
        """When it went on after standing still for longer than two beats."""
        stage.calls.published.append(self._published)
        stage.calls.came.append(self._came)
        stage.calls.heard.append(self._heard)
        stage.events.append(self._told)
        self.world.on_end.append(self._ends)
        self.world.on_hindered.append(self._hindered)

    def _ends(self, process: Process) -> None:
        self.gone.setdefault(self.ids.get(process, ""), self.world.now)

    def _hindered(self, process: Process) -> None:
        if process.frozen:
            self.frozen.setdefault(process, self.world.now)
        elif self.world.now > self.frozen.pop(process, self.world.now) + 2 * self.bounds.beat:
            self.stood_still[process] = self.world.now

    def _published(self, message: Message) -> None:
        self.ids[message.process] = message.call.m
        if message.call.p == "gone":
            self.left.add(message.call.m)
            self.gone.setdefault(message.call.m, self.world.now)

    def _came(self, process: Process, message: Message) -> None:
        now = self.world.now
        if process.frozen or now > message.at + self.fresh:
            return
        lately = self.arrivals.setdefault((process, message.call.m), deque(maxlen=LATELY))
        if not lately or message.call.n > lately[-1][1]:
            lately.append((now, message.call.n))

    def _heard(self, process: Process, message: Message) -> None:
        key = (process, message.call.m)
        if message.call.n > self.numbers.get(key, 0):
            self.news[key] = self.world.now
            self.numbers[key] = message.call.n

    def _told(self, process: Process, event: Event) -> None:
        if process.raised:
            return  # whatever no longer runs in it
        if isinstance(event, Joined):
            self._joined(process, event.member)
        elif isinstance(event, Left):
            self._lost(process, event.member, event.why)

    def _joined(self, process: Process, member: str) -> None:
        there, me = self.there.setdefault(process, set()), self.ids.get(process, process.name)
        if member in there:
            raise self.broken(f"{me} says twice that {member} is there")
        there.add(member)
        if self.news.get((process, member), LONG_AGO) < self.lost.get((process, member), 0):
            raise self.broken(f"{me} says that {member} is there, by a copy of what it had heard before")
        gone = self.gone.get(member)
        if gone is not None and self.world.now > gone + self.oldest:
            raise self.broken(f"{me} says that {member} is there, which is gone for longer than calls count")

    def _lost(self, process: Process, member: str, why: str) -> None:
        """Of peers that were there before it was in its group, nobody was told."""
        me = self.ids.get(process, process.name)
        self.there.setdefault(process, set()).discard(member)
        self.lost[process, member] = self.world.now
        if why == "left":
            if member not in self.left:
                raise self.broken(f"{me} says that {member} has left, and it has not")
            return
        now, bounds = self.world.now, self.bounds
        if now < self.stood_still.get(process, LONG_AGO) + self.beat - bounds.step:
            raise self.broken(f"{me} says that {member} is lost, and stood still itself")
        if bounds.clocks or self.ground.held_up(process) or now < process.starved_at + bounds.window:
            return
        # What has just come may not be read yet.
        read = [at for at, _ in self.arrivals.get((process, member), ()) if at < now - 2 * bounds.late]
        at = max(read, default=LONG_AGO)
        if now < at + self.window - bounds.step:
            raise self.broken(f"{me} says that {member} is lost, whose call came {(now - at) / 1e6:.1f} ms ago")
