"""A planned release waits for the work of its term, and for its barrier, up to `barrier_timeout`; and no belief outlives the
driver that prolongs it.
"""

from __future__ import annotations

from typing import Any, Final

from pares.core.allcall.messages import token
from pares.core.reasons import BARRIER_TIMED_OUT, ISOLATED, LEASE_RAN_OUT, OUTBID, SUPERSEDED
from pares.runtime.events import Event, Fenced
from pares.sim.engine import MS
from pares.sim.members.allcall.calls import Message
from pares.sim.members.allcall.ground import Ground, why
from pares.sim.members.promises.base import Promise
from pares.sim.members.promises.work import Work
from pares.sim.members.sight import Held
from pares.sim.world.process import Process

FENCED: Final = (SUPERSEDED, OUTBID, ISOLATED, LEASE_RAN_OUT, BARRIER_TIMED_OUT)
"""Ends of terms for which nothing waits."""


class Releases(Work):
    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        stage.calls.published.append(self._published)
        stage.events.append(self._told)

    def _ended(self, held: Held) -> None:
        if not why(held).startswith(FENCED):
            super()._ended(held)

    def _told(self, process: Process, event: Event) -> None:
        """A fence ends the waiting, too."""
        if isinstance(event, Fenced):
            self.ending.pop((process, (event.role, event.seat, event.token)), None)

    def _published(self, message: Message) -> None:
        """By a task."""
        process = message.process
        running = [one for one in self.running if one.process is process]
        for claim in message.call.c if running else ():
            if claim.holder != message.call.m or claim.ttl:
                continue
            key = (claim.role, 0, token(claim.term, claim.holder))
            since, lease = self.ending.get((process, key), (None, 0))
            if since is None or process.reading() >= lease:
                continue  # by no plan, or its lease would have run out meanwhile: anybody could claim, whatever still runs
            waited = process.reading() - since
            if waited >= self.stage.plan.barrier_timeout_ns - MS:
                continue
            for one in running:
                if one.key == key:
                    self.fail(
                        f"{claim.holder} gives {key} up while {one.what} runs, {waited / 1e6:.3f} ms after its end"
                    )


class Loops(Promise):
    name = "beliefs end with their driver"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        stage.sight.looked.append(self._looked)

    def _looked(self, process: Process) -> None:
        for held in self.stage.sight.open[process].values():
            thread: Any = held.member._loop.thread  # pyright: ignore[reportPrivateUsage]
            if not thread.is_alive() and held.believing():
                raise self.broken(f"{held} believes for {held.left():.3f} ms more, and its driver has ended")
