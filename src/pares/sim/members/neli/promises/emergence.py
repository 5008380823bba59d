"""In the calm somebody leads every seat within a bound after the one thing that is done to the group, if anybody could."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.sim.engine import MS, SECOND
from pares.sim.members.promises.base import Promise

if TYPE_CHECKING:
    from pares.sim.members.neli.ground import NeliGround
    from pares.sim.world.process import Process


class Emergence(Promise):
    name = "a leader emerges"
    stage: NeliGround

    def __init__(self, stage: NeliGround) -> None:
        super().__init__(stage)
        self.bound = self._bound()
        self._due = 0
        self._waited: set[Process] = set()
        """Those whose barriers have had all the time that there is for one."""

    def _bound(self) -> int:
        """The group notices, and tells, and the announcement comes back; where T is above the session, or the group gave a
        partition away that was another's, the rest of that is waited for."""
        plan, stage = self.stage.plan, self.stage
        session, threshold = plan.session_ms * MS, (plan.threshold_ms + plan.error_ms) * MS
        reach = session * 21 // 20
        if (
            not plan.native
        ):  # a challenger waits by a stopwatch that may be fast, and the heir is told by one more record
            reach = int(session * (1 + plan.drift) / (1 - plan.drift) * 1.3) + int(plan.settle * session)
        if plan.law.by_own_beats or "lie" in plan.faults:
            silence = threshold if plan.law.exclusive else session
            reach = max(reach, int(silence * (1 + plan.drift) ** 2))
        words = 6 * plan.group_delay[1] + 12 * stage.trip + 3 * self.beat_ns + SECOND // 10
        return reach + words + plan.barrier_ns + (0 if plan.bells else SECOND // 10)

    @property
    def beat_ns(self) -> int:
        """The longest interval at which anybody beats, where the log is shared with others."""
        plan = self.stage.plan
        owners = (plan.members + plan.next_door) * max(plan.partitions, len(self.stage.log.partitions))
        return max(plan.interval_ms * MS * (1 + plan.next_door), owners * SECOND // 200)

    def probe(self) -> None:
        """Something was done to the group just now."""
        self._due = self.world.now + self.bound
        self.world.after(self.bound, self._look)

    def _look(self) -> None:
        if self.world.now < self._due:
            return  # something else was done to it meanwhile
        for role, index in self.stage.seats():
            if self.stage.sight.believers((self.stage.group, role, index)) or self._is_waited_for():
                continue
            able = self.stage.could_lead(role, index, self.bound)
            if able:
                raise self.broken(
                    f"nobody leads {role}/{index} {self.bound / 1e6:.0f} ms after the last disturbance, though "
                    f"{', '.join(able)} could"
                )

    def _is_waited_for(self) -> bool:
        """Whether a barrier of the storm has not returned yet, and a planned handover may be waiting for it (N5): looks again
        when it has had its time."""
        stuck = self.stage.hanging() - self._waited
        if stuck:
            self._waited |= stuck
            self._due = self.world.now + self.stage.plan.barrier_timeout_ns + self.bound
            self.world.after(self._due - self.world.now, self._look)
        return bool(stuck)
