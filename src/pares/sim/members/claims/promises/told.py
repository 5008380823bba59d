"""The end of a term reaches its user: a lease that has run out is told, also where nobody asks the term (R4).

The member's loop needs its turn for that, so what holds it up is added: an append, or a read, that nobody answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.sim.engine import MS
from pares.sim.members.promises.base import Promise
from pares.sim.members.sight import Held
from pares.sim.world.scheduler import NEVER

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground
    from pares.sim.world.process import Process


class Told(Promise):
    name = "the end of a term is told"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.ground = stage
        plan = stage.plan
        self.late = 4 * max(weather.timeout for weather in plan.weathers) + 12 * stage.trip + 200 * MS
        self.hindered: dict[Process, int] = {}
        """When each was frozen, thawed or held up last."""
        self.world.on_hindered.append(self._is_hindered)
        stage.sight.closely.append(self._looked)

    def _is_hindered(self, process: Process) -> None:
        self.hindered[process] = self.world.now

    def _looked(self, process: Process) -> None:
        if process.raised or process.starving:
            return
        now = process.reading()
        for held in self.stage.sight.open[process].values():
            if 0 < held.until <= now:
                self._ran_out(process, held)

    def _ran_out(self, process: Process, held: Held) -> None:
        well = 0 if process.well_since == NEVER else process.well_since  # what cuts it off is no reason not to tell
        since = max(process.stopwatch.when(held.until), well, process.starved_at, self.hindered.get(process, 0))
        if held.member.group == self.stage.group and self.world.now > since + self.late and not process.frozen:
            raise self.broken(
                f"the lease of {held} ran out {(self.world.now - since) / 1e6:.0f} ms ago, and its user was not told"
            )
