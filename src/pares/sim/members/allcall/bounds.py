"""What ALLCALL promises by when: nanoseconds of true time.

With B the heartbeat, L the lease, S the skew, W = 2.5 B the window in which a member that was heard is taken to be there, d the
way of a message to the driver that reads it, each stretched by the slowest stopwatch:

cold     L + S + B + d        silence ends; the first calls are answered for a beat (counted from the start of the best ranked
                              one, if that begins within the beat in which another waits for answers)
crash    L + S + B + 2d       the newest claim was on its way (d), lasts L and S on the receiver's stopwatch; the claimer may
                              have heard of it through another (d), and may wake late (B)
stop     B + 2d + barrier     the barrier returns; a release is heard (d) and answered by a claim at once; a member that can't
                              claim at once, because it has just begun or stood still, listens for a beat
heal     B + d                each of two leaders calls within a beat, and its call takes d: the worse one stops when it hears
best     L + B + d + barrier  the leader has just renewed when the best one is heard; at its last beat it yields. By rank: B + d
quiet    L + S + W + 2B + 3d  whatever went before: claims of the dead are over, the dead are no longer taken to be there,
         + barrier + answer   silences are over, readiness was asked for, and each that may claim has called and claimed

A task that comes back late calls as much later, and notices as much later that something is over: B has that more, d has it
twice (the bus' task, and the driver's), `cold`, `crash` and `quiet` once again. Where wall clocks are more than a lease apart,
all have W + 2B more: so long it takes until a newcomer's calls are known for new by their pace.
"""

from __future__ import annotations

from typing import Final

from pares.core.allcall.peers import WINDOW
from pares.sim.engine import MS, US
from pares.sim.members.allcall.plan import AllCallPlan

ROUND: Final = 700 * US
"""By what a driver that nothing rings wakes later than it should, at most, and what its calls of the host take."""


class Bounds:
    def __init__(self, plan: AllCallPlan) -> None:
        slow = 1 / (1 - plan.drift)
        beat, lease, skew = (int(ms * MS * slow) for ms in (plan.beat_ms, plan.session_ms, plan.skew_ms))
        self.late = late = ROUND + (int(plan.starving_by * plan.unit) if plan.starving else 0)
        self.delay = plan.air.delay[1] + 2 * late
        self.window = int(WINDOW * beat)
        beat += late
        self.beat, self.lease, self.skew = beat, lease, skew
        self.step = MS
        """What whole milliseconds on the wire may add."""
        # A member whose wall clock is wrong by more than a lease is believed after a window of calls at one pace.
        self.clocks = self.window + 2 * beat if 2000 * plan.wall_spread > plan.session_ms else 0
        self.cold = lease + skew + beat + late + self.delay + self.step + self.clocks
        self.crash = lease + skew + beat + late + 2 * self.delay + self.step + self.clocks
        # The barrier's end of a term waits for that of its beginning, and for the step that its work is at.
        self.barrier = int(2 * plan.barrier_ns + plan.step_ms * MS * slow) + 6 * late
        self.answer = lease // 2 + 4 * late if "ready" in plan.faults or any(plan.starts) else 0
        self.stop = beat + 2 * self.delay + self.step + self.barrier + self.clocks
        self.heal = beat + self.delay + self.step + self.clocks
        self.best = beat + self.delay + self.step + self.clocks
        if plan.order == "lease":
            self.best += lease + self.barrier
        self.quiet = lease + skew + self.window + 2 * beat + late + 3 * self.delay + self.step
        self.quiet += self.clocks + self.barrier + self.answer
        # Of the calm: from when on all is settled, whatever is late or repeated though it is old; and what each probe takes.
        air = plan.air
        late = air.late_by[1] if air.late or air.doubled else 0
        self.rest = self.quiet + lease + 2 * self.best + beat + int(plan.barrier_timeout_ns * slow)
        self.first = late + self.rest
        self.each = self.rest + self.quiet + (self.quiet if "split" in plan.probes else 0)
