"""Users of ALLCALL: the same programs as of other protocols, for the roles that each may lead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pares.runtime.events import Event, Revoked
from pares.runtime.member import Member
from pares.sim.members.users import User
from pares.sim.world.process import Process

if TYPE_CHECKING:
    from pares.sim.members.allcall.ground import Ground

HANGS: Final = 1.3
"""Of its timeout, for which a barrier that hangs does so."""


class AllCallUser(User):
    def __init__(self, stage: Ground, place: int) -> None:
        super().__init__(stage, place)
        self.ground = stage
        self.hangs = 0
        """How many of its barriers are to hang when a term has ended."""
        if stage.plan.picky and 0 < place < stage.plan.members:
            self.roles = tuple(role for role in stage.roles if self.rng.random() < 0.7) or stage.roles[:1]

    def step_length(self) -> float:
        """It has a longest length: what is promised of handovers is promised of work that ends."""
        return self.rng.uniform(0, self.stage.plan.step_ms / 1000)

    def start(self) -> None:
        """One that is not ready when it starts is so a while later; in the calm all are ready at once."""
        if self.running:
            return
        super().start()
        if self.process is not None:
            self.ground.wakes_late(self.process)
        if self.stage.calm:
            self.ready = True
        elif not self.ready:
            self.stage.world.after(int(self.rng.uniform(0.1, 3) * self.stage.plan.unit), self.become_ready)

    def become_ready(self) -> None:
        self.ready = True
        self.stage.disturbed()

    def again(self) -> None:
        """It is started; if it runs, but was asked to end, then without waiting for that."""
        process, closing = self.process, self.closing
        leaves = self.draining or (closing is not None and closing.is_set())
        if process is not None and process.alive and (leaves or process.raised):
            self.stage.world.kill(process)
        self.start()

    def close_within(self) -> float | None:
        return None if self.stage.calm else super().close_within()

    def ask(self, act: Callable[[Member], object], what: str) -> None:
        self._stirred()
        super().ask(act, what)

    def close(self) -> None:
        self._stirred()
        super().close()

    def _stirred(self) -> None:
        if self.process is not None:
            self.ground.stir(self.process)

    def _is_ready(self) -> bool:
        if self.process is not None:
            for tell in self.ground.questions:
                tell(self.process)
        if self.ready == (self.unready_since is not None):
            self._stirred()
        return super()._is_ready()

    def barrier(self, process: Process, event: Event) -> None:
        if self.hangs and isinstance(event, Revoked):
            self.hangs -= 1
            process.host.sleep(HANGS * self.stage.plan.barrier_timeout)
        super().barrier(process, event)
