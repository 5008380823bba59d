"""A member that is not ready leads nothing (R19): it leaves its group, when its barriers have returned; in NELE it goes on
until another leads, or T has passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.sim.engine import MS
from pares.sim.members.promises.readiness import Readiness
from pares.sim.members.sight import Held

if TYPE_CHECKING:
    from pares.sim.members.neli.ground import NeliGround

NOTICED: Final = 200 * MS
"""Until a member looks at what its user has said, and has left."""


class NeliReadiness(Readiness):
    stage: NeliGround

    def _look(self, held: Held) -> None:
        user = self.stage.user_of(held.process)
        if user is None or user.unready_since is None or held.member is not user.member:
            return
        since = self.world.now - max(user.unready_since, self._well(held.process))
        plan = self.stage.plan
        longest = 4 * self.stage.longest + plan.barrier_timeout_ns + NOTICED + 20 * self.stage.trip
        if since > longest:
            raise self.broken(f"{held} is believed on, though its member is not ready for {since / 1e6:.0f} ms")
