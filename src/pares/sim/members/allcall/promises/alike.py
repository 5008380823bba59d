"""Of those who lead when a split heals one goes on: all order their claims alike."""

from __future__ import annotations

from pares.core.reasons import LEASE_RAN_OUT, OUTBID, SUPERSEDED
from pares.sim.members.allcall.ground import Ground, why
from pares.sim.members.allcall.promises.base import AllCallPromise
from pares.sim.members.sight import Held, Seat
from pares.sim.world.process import Process


class OneGoesOn(AllCallPromise):
    name = "claims are ordered alike"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.until: dict[Seat, int] = {}
        self.outbids: dict[Seat, tuple[Process, int]] = {}
        """By seat: the leader that has just left its term for a later one, and until when that may begin."""
        stage.sight.ended.append(self._ended)

    def watch(self, seat: Seat, length: int) -> None:
        """Nothing but a heal happens to the role for so long."""
        self.until[seat] = self.world.now + length

    def _ended(self, held: Held) -> None:
        reason = why(held)
        if reason == OUTBID:
            self.outbids[held.seat] = (held.process, self.world.now + self.bounds.late)
        if self.world.now >= self.until.get(held.seat, 0) or reason == OUTBID:
            return
        if reason != LEASE_RAN_OUT and not reason.startswith(SUPERSEDED):
            del self.until[held.seat]  # a term ends by plan, and for a moment there is none
        elif not self._goes_on(held) and not [o for o in self.ground.sight.believers(held.seat) if o is not held]:
            raise self.broken(f"{held} stopped to lead as the last one ({reason})")

    def _goes_on(self, held: Held) -> bool:
        """Whether another one is between two terms: it has said the claim of the second, and that is all that it waits for."""
        process, until = self.outbids.get(held.seat, (held.process, 0))
        return process is not held.process and process.alive and self.world.now < until
