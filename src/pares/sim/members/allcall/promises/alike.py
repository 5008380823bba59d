"""Of those who lead when a split heals one goes on: all order their claims alike."""

from __future__ import annotations

from pares.core.reasons import LEASE_RAN_OUT, OUTBID, SUPERSEDED
from pares.sim.members.allcall.ground import Ground, why
from pares.sim.members.allcall.promises.base import AllCallPromise
from pares.sim.members.sight import Held, Seat


class OneGoesOn(AllCallPromise):
    name = "claims are ordered alike"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.until: dict[Seat, int] = {}
        stage.sight.ended.append(self._ended)

    def watch(self, seat: Seat, length: int) -> None:
        """Nothing but a heal happens to the role for so long."""
        self.until[seat] = self.world.now + length

    def _ended(self, held: Held) -> None:
        reason = why(held)
        if self.world.now >= self.until.get(held.seat, 0) or reason == OUTBID:
            return
        if reason != LEASE_RAN_OUT and not reason.startswith(SUPERSEDED):
            del self.until[held.seat]  # a term ends by plan, and for a moment there is none
        elif not [other for other in self.ground.sight.believers(held.seat) if other is not held]:
            raise self.broken(f"{held} stopped to lead as the last one ({reason})")
