"""A member that is not ready leads nothing (R19): in a member that knows that it is not no belief begins, and none goes on for
long.

What counts is what its kernel has been told: when it was made, and since.
"""

from __future__ import annotations

from pares.core.events import Lead
from pares.sim.checker import Checker
from pares.sim.engine import MS
from pares.sim.process import Process
from pares.sim.trace import seat_name


class Readiness(Checker):
    promise = "who is not ready leads nothing"

    def led(self, process: Process, effect: Lead) -> None:
        if not process.told_ready:
            since = (self.scene.engine.now - process.told_at) / 1e6
            raise self.broken(
                f"{process.id} begins to lead {seat_name(effect.seat)}, and was not ready {since:.3f} ms ago"
            )

    def renewed(self, process: Process) -> None:
        since, config = self.scene.engine.now - process.told_at, process.config
        # Its own stopwatch may be slow, and a lease that was prolonged just before lasts for one more.
        longest = (2 * config.session_ms + config.overlap_ms) * MS / (1 - config.drift)
        if not process.told_ready and since > longest:
            for seat in process.beliefs:
                if process.believes(seat):
                    raise self.broken(
                        f"{process.id} leads {seat_name(seat)}, though not ready for {since / 1e6:.0f} ms"
                    )
