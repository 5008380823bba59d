"""Nobody is dispossessed whom nothing hinders: a claim is for the seats of the silent (R3).

A log that has lost its tail hinders all whose newest records were in it: they are as silent as what is left of them (A1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.core.wire.changes import SeatChanged
from pares.core.wire.records import Claim
from pares.sim.members.claims.judge import Landed
from pares.sim.members.promises.base import Promise

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground


class Taken(Promise):
    name = "roles are led"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.ground = stage
        if not stage.plan.burden_us:  # else a burst of records hinders all that share a machine
            stage.judge.landed.append(self._landed)

    def _landed(self, landed: Landed) -> None:
        if not isinstance(landed.record, Claim) or not self.ground.healthy() or self.ground.between_logs():
            return
        for change in landed.changes:
            if type(change) is not SeatChanged or change.before is None or change.holder is None:
                continue
            user = self.ground.by_id(change.before)
            if user is not None and self.stage.able(user, self.ground.settling) and self.ground.quick(user):
                raise self.broken(
                    f"{change.holder} takes {change.seat} by a claim from {change.before}, whom nothing has hindered"
                )
