"""Nothing ends a member (R11): see `members.promises.failures`. Nor does a member of these protocols end itself, but for a
number of partitions that has grown while it was about to join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.sim.members.promises.failures import Failures

if TYPE_CHECKING:
    from pares.sim.members.neli.ground import NeliGround
    from pares.sim.world.process import Process


class NeliFailures(Failures):
    stage: NeliGround

    def _looked(self, process: Process) -> None:
        super()._looked(process)
        if process.raised or "grow" in self.stage.plan.faults:
            return
        for member in self.stage.sight.members[process]:
            if member._life.state == "failed":  # pyright: ignore[reportPrivateUsage]
                raise self.broken(f"{member.id} has ended itself: {member._life.failure()}")  # pyright: ignore[reportPrivateUsage]
