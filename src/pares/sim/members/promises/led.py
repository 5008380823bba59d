"""Roles are led, and not just handed round (promises 2 and 3, in the long run).

Looked at while nothing has befallen the world for a while, and for a seat only while a member lives that could lead it all that
time. Then time without a leader is a debt, which time with one pays back slowly; and a seat changes hands seldom, if somebody
could lead it for long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.sim.engine import MS, SECOND
from pares.sim.members.promises.base import Promise
from pares.sim.members.sight import Held, Seat

if TYPE_CHECKING:
    from pares.sim.members.stage import Stage

PAID_BACK: Final = 0.1
"""How much of a debt the same time with a leader pays back."""
MOVES: Final = 5
"""How often a seat may change hands in a row; once more for every `SELDOM` sessions."""
SELDOM: Final = 10


class Led(Promise):
    name = "roles are led"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        plan = stage.plan
        self.longest = int(max(plan.sessions) * MS / (1 - plan.drift))
        self.settling = 4 * self.longest + plan.barrier_timeout_ns + 20 * stage.trip
        """For how long nothing must have happened."""
        self.most = 3 * self.longest + 20 * stage.trip + 2 * plan.barrier_ns + SECOND // 5
        """The debt that a seat may have: a takeover, and one more; bells that are slow to be looked for."""
        self.step = max(MS, self.longest // 10)
        self.debts: dict[Seat, float] = {}
        self.moves: dict[Seat, tuple[float, int]] = {}
        self.led = 0
        """Nanoseconds of true time for which seats were led, of those that were looked at; and in all."""
        self.looked = 0
        stage.sight.began.append(self._began)
        self.world.after(self.step, self._look)

    def _quiet(self) -> bool:
        return self.world.now >= self.stage.disturbed_at + self.settling

    def _look(self) -> None:
        self.world.after(self.step, self._look)
        if not self._quiet():
            self.debts.clear()
            self.moves.clear()
            return
        for role, index in self.stage.seats():
            seat = (self.stage.group, role, index)
            debt = self.debts.get(seat, 0.0)
            if self.stage.sight.believers(seat):
                self.led += self.step
                self.looked += self.step
                self.debts[seat] = max(0.0, debt - PAID_BACK * self.step)
            elif able := self.stage.could_lead(role, index, self.settling):
                self.looked += self.step
                self.debts[seat] = debt = debt + self.step
                if debt > self.most + self._hanging():
                    raise self.broken(
                        f"{role}/{index} was led too seldom: {debt / 1e6:.0f} ms without a leader are left when a tenth of the "
                        f"time with one is taken off, though {', '.join(able)} could lead it all the time"
                    )

    def _hanging(self) -> int:
        """Calls about one seat come one at a time (R5). So where one of the storm has not returned yet, the next planned end
        waits for it, up to the barrier's timeout, and nobody leads meanwhile."""
        return self.stage.plan.barrier_timeout_ns if self.stage.hanging() else 0

    def _began(self, held: Held) -> None:
        if not self._quiet() or not self.stage.keeps_up():
            return
        if self.stage.judged(held) and not self.stage.could_stay(*held.seat[1:], self.settling):
            return
        now = self.world.now
        left, as_of = self.moves.get(held.seat, (float(MOVES), now))
        left = min(float(MOVES), left + (now - as_of) / (SELDOM * self.longest)) - 1
        if left < 0:
            raise self.broken(
                f"{held} begins: {MOVES} changes of hands in a row, and one in {SELDOM} sessions, are enough"
            )
        self.moves[held.seat] = left, now
