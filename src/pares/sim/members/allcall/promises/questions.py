"""A member asks its user's check twice a lease, however short that is: each no is known in time."""

from __future__ import annotations

from pares.sim.members.allcall.ground import Ground
from pares.sim.members.allcall.promises.base import AllCallPromise
from pares.sim.world.process import Process


class Questions(AllCallPromise):
    name = "the check is asked in time"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        bounds = self.bounds
        self.longest = bounds.lease // 2 + bounds.beat + 4 * bounds.late
        self.last: dict[Process, int] = {}
        stage.questions.append(self._asked)

    def _asked(self, process: Process) -> None:
        """By a task of its process."""
        now, user = self.world.now, self.ground.user(process)
        last = self.last.get(process, now)
        self.last[process] = now
        if now > max(last, self.ground.steady(user)) + self.longest:
            self.fail(
                f"{process.name} is asked whether it is ready {(now - last) / 1e6:.1f} ms after it was asked before"
            )
