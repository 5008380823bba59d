"""Groups that share a topic stay within its budget of beats in the calm; where their beliefs need more, they beat as seldom as
those bear. And nobody loses anything by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.core.lease import lease_ns
from pares.core.neli.budget import BUDGET
from pares.core.neli.classic import SHARED
from pares.core.neli.fast import BEATS
from pares.core.wire.neli_records import Beacon, Pulse
from pares.sim.engine import MS, SECOND
from pares.sim.members.neli.judge import Landed
from pares.sim.members.promises.base import Promise
from pares.sim.members.sight import Held
from pares.sim.members.stage import GROUP

if TYPE_CHECKING:
    from pares.sim.members.neli.ground import NeliGround

BESIDE: Final = f"{GROUP}-"
"""What the names of their groups begin with."""
SETTLED: Final = 4
"""Sessions of calm, after which everybody has heard everybody."""


class Budget(Promise):
    name = "the budget is shared"
    stage: NeliGround

    def __init__(self, stage: NeliGround) -> None:
        super().__init__(stage)
        plan = stage.plan
        self.since = int(plan.storm * plan.unit) + SETTLED * max(stage.longest, SECOND // 2)
        self.beats = 0
        stage.judge.landed.append(self._landed)
        stage.sight.ended.append(self._ended)

    def _landed(self, landed: Landed) -> None:
        if self.world.now >= self.since:
            self.beats += isinstance(landed.record, Pulse | Beacon)

    def _ended(self, held: Held) -> None:
        user = self.stage.user_of(held.process)
        calm = self.world.now >= self.since and not self.stage.between_logs()
        if calm and user in self.stage.next_door and held.seat[0].startswith(BESIDE) and held.process.alive:
            why = held.term._why  # pyright: ignore[reportPrivateUsage]
            raise self.broken(f"{held} was lost ({why}), and nothing was done to it")

    @property
    def slowest(self) -> int:
        """The longest interval that exclusive beliefs bear."""
        plan = self.stage.plan
        if plan.law.by_own_beats:
            return lease_ns(plan.threshold_ms, plan.drift) // BEATS
        return (plan.threshold_ms - plan.error_ms) * MS // SHARED

    def end(self) -> None:
        plan, seconds = self.stage.plan, (self.world.now - self.since) / SECOND
        if seconds < 1:
            return
        partitions = len(self.stage.log.partitions)
        everybody = plan.next_door + (1 if plan.law.by_own_beats else plan.members)
        needed = 0.0
        if plan.law.exclusive:
            needed = everybody * partitions * SECOND / max(self.slowest, plan.interval_ms * MS)
        # A clock may be fast. A member that begins to lead says so at once; one that crashed or came is counted late.
        writers = len(self.world.processes) * partitions
        most = max(BUDGET, needed) * seconds * (1 + plan.drift) * 1.1 + 8 * writers
        if plan.next_door and self.beats > most:
            raise self.broken(
                f"{self.beats} beats in {seconds:.3f} s of calm, where {most:.0f} are allowed: the budget is {BUDGET} a second"
            )
