"""Only the surplus moves (R13), and nothing moves without a reason.

While nothing happens to the group, seats move for balance alone, and no more of them than it takes: each member's surplus over
what it may keep when the loads are within one. Counted where all members and all seats are alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.core.changes import Began, MemberJoined, MemberLeft, RoleChanged, SeatChanged
from pares.core.records import Transfer
from pares.sim.checker import Checker, Landed
from pares.sim.engine import MS
from pares.sim.process import Process

if TYPE_CHECKING:
    from pares.sim.play import Play


class Movement(Checker):
    promise = "only the surplus moves"

    def __init__(self, play: Play) -> None:
        super().__init__(play.scene)
        self.play = play
        knobs = play.knobs
        alike = not (knobs.ranks or knobs.weights or knobs.picky or knobs.hosts or knobs.acts)
        self.judges = alike and all(seats == 1 for seats in knobs.seats)
        self.quiet_since = 0
        self.moved = 0
        self.allowed: int | None = None
        """How many moves the present situation asks for; None: not known yet."""
        self.longest = max(knobs.sessions) * MS

    def disturbed(self) -> None:
        self.quiet_since = self.scene.engine.now
        self._forget()

    def frozen(self, process: Process, length: int | None) -> None:
        self.disturbed()

    def killed(self, process: Process) -> None:
        self.disturbed()

    def replaced(self) -> None:
        self.disturbed()

    def _forget(self) -> None:
        self.moved, self.allowed = 0, None

    def landed(self, landed: Landed) -> None:
        if not self.judges or not landed.changes:
            return
        for change in landed.changes:
            if type(change) is SeatChanged:
                if isinstance(landed.record, Transfer) and change.holder is not None and landed.record.why == "balance":
                    self._move(change)
                else:
                    self._forget()
            elif type(change) in (MemberJoined, MemberLeft, RoleChanged, Began):
                self._forget()

    def _move(self, change: SeatChanged) -> None:
        if not self.play.healthy() or self.scene.engine.now < self.quiet_since + 3 * self.longest:
            return
        if not all(p.well() for p in self.play.own if p.running and p.over is None):
            return
        if self.allowed is None:
            self.moved, self.allowed = 0, self._surplus(change)
        self.moved += 1
        if self.moved > self.allowed:
            raise self.broken(
                f"{self.moved} seats moved for balance, {self.allowed} would do; the last one from {change.before} to "
                f"{change.holder}"
            )

    def _surplus(self, change: SeatChanged) -> int:
        """The moves that make the loads differ by one at most, from before this change."""
        world = self.scene.judge.world
        here = [m for m in world.members.values() if not m.administrator and not m.draining]
        loads = {m.id: len(world.held[m.id]) for m in here}
        for member, undo in ((change.holder, -1), (change.before, 1)):
            if member in loads:
                loads[member] += undo
        order = sorted(loads.values(), reverse=True)
        least, more = divmod(sum(order), max(1, len(order)))
        return sum(max(0, load - least - (1 if place < more else 0)) for place, load in enumerate(order))
