"""A member that is not ready leads nothing (R19): no belief begins in it, and none goes on for long.

What counts is what its user's check has answered. The answer needs its way to the loop; a lease that was prolonged just before
lasts for one more. A process that stands still, or is held up, can't tell; so it is not judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.sim.engine import MS
from pares.sim.members.promises.base import Promise
from pares.sim.members.sight import Held

if TYPE_CHECKING:
    from pares.sim.members.stage import Stage
    from pares.sim.world.process import Process


class Readiness(Promise):
    name = "an unready member leads nothing"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        stage.sight.began.append(self._look)
        stage.sight.prolonged.append(self._look)

    def _look(self, held: Held) -> None:
        user = self.stage.user_of(held.process)
        if user is None or user.unready_since is None or held.member is not user.member:
            return
        since = self.world.now - max(user.unready_since, self._well(held.process))
        longest = (2 * user.session_ms + self.stage.plan.overlap_ms) * MS / (
            1 - self.stage.plan.drift
        ) + self.stage.trip
        if since > longest:
            raise self.broken(f"{held} is believed on, though its member is not ready for {since / 1e6:.0f} ms")

    def _well(self, process: Process) -> int:
        return max(process.well_since, process.starved_at)
