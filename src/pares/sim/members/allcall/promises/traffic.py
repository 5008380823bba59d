"""Calls don't multiply: a member says a few things a beat, however many others there are, and one more for each thing that
happens to itself: a term that begins or ends, a wish of its user's, another connection, the end of a standstill.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from pares.runtime.events import Event
from pares.sim.engine import MS
from pares.sim.members.allcall.calls import Message
from pares.sim.members.allcall.ground import Ground
from pares.sim.members.allcall.promises.base import AllCallPromise
from pares.sim.members.sight import Held
from pares.sim.world.process import Process

USUAL: Final = 4
"""A call, two answers, and one more at the window's edge."""


class Traffic(AllCallPromise):
    name = "a few messages a beat"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.beat = int(stage.plan.beat_ms * MS / (1 + stage.plan.drift)) - stage.bounds.late
        self.said: dict[Process, deque[int]] = {}
        self.happened: dict[Process, deque[int]] = {}
        self.frozen: dict[Process, int] = {}
        """Since when."""
        stage.calls.published.append(self._published)
        stage.events.append(self._told)
        stage.stirred.append(self._stirred)
        stage.sight.began.append(self._turns)
        stage.sight.ended.append(self._turns)
        self.world.on_hindered.append(self._hindered)

    def _happens(self, process: Process) -> None:
        """A member whose driver is held up just now answers when that is over."""
        self.happened.setdefault(process, deque()).append(max(self.world.now, process.starved_at))

    def _hindered(self, process: Process) -> None:
        """A member that was frozen answers what happened meanwhile when it goes on."""
        if process.frozen:
            self.frozen.setdefault(process, self.world.now)
        elif (since := self.frozen.pop(process, None)) is not None:
            happened = self.happened.setdefault(process, deque())
            self.happened[process] = deque(at if at < since else max(at, self.world.now) for at in happened)

    def _stirred(self, process: Process) -> None:
        """What is asked may concern each role."""
        for _ in range(1 + len(self.ground.roles)):
            self._happens(process)

    def _turns(self, held: Held) -> None:
        self._happens(held.process)

    def _told(self, process: Process, event: Event) -> None:
        self._happens(process)

    def _published(self, message: Message) -> None:
        """By a task. What was claimed is said before the term begins, and a release when the barrier has returned."""
        process = message.process
        if process.raised:
            return
        said = self.said.setdefault(process, deque())
        said.append(self.world.now)
        self._forget(said, self.beat)
        if len(said) <= USUAL:
            return
        happened = self.happened.setdefault(process, deque())
        self._forget(happened, self.beat + self.bounds.barrier)
        most = USUAL + len(happened) + len(self.ground.user(process).roles)
        if len(said) > most:
            self.fail(f"{message.call.m} has said {len(said)} things within a beat, and {len(happened)} happened to it")

    def _forget(self, events: deque[int], older: int) -> None:
        while events and events[0] <= self.world.now - older:
            events.popleft()
