"""Only the surplus moves (R13), and nothing moves without a reason.

A reason is that somebody came or went, or that a role or a request changed what should be. For one reason a seat changes hands
once at most: whatever moves on at once was moved, or claimed, to the wrong place. And no more seats move for balance than it
takes: each member's surplus over what it may keep when loads are within one. That is counted where all members and all
seats are alike; ranks, hosts, weights and roles with several seats have tests of their own (tests/core).

Looked at while nothing else befalls the group and the ledger is well: who can't see who is alive can't know where work belongs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.core.wire.changes import Began, MemberJoined, MemberLeft, RoleChanged, SeatChanged
from pares.core.wire.records import Claim, Seat, Transfer
from pares.sim.checker import Checker, Landed
from pares.sim.engine import MS
from pares.sim.process import Process
from pares.sim.trace import seat_name

if TYPE_CHECKING:
    from pares.sim.play import Play


class Movement(Checker):
    promise = "only the surplus moves"

    def __init__(self, play: Play) -> None:
        super().__init__(play.scene)
        self.play = play
        self.quiet_since = 0
        self.came_to: dict[Seat, str] = {}
        """The members that got a seat for the present reason."""
        self.moved = 0
        self.allowed: int | None = None
        """How many moves the present situation asks for; None: not known yet."""
        self.longest = max(play.knobs.sessions) * MS

    def disturbed(self) -> None:
        self.quiet_since = self.scene.engine.now
        self._forget()

    def frozen(self, process: Process, length: int | None) -> None:
        self.disturbed()

    def killed(self, process: Process) -> None:
        self._forget()

    def replaced(self) -> None:
        self.disturbed()

    def _forget(self) -> None:
        self.moved, self.allowed = 0, None
        self.came_to.clear()

    def landed(self, landed: Landed) -> None:
        if not landed.changes:
            return
        record = landed.record
        for change in landed.changes:
            if type(change) in (MemberJoined, MemberLeft, RoleChanged, Began):
                self._forget()
        for change in landed.changes:
            if type(change) is not SeatChanged:
                continue
            balance = isinstance(record, Transfer) and record.why == "balance"
            if not balance and not isinstance(record, Claim):
                self._forget()  # somebody gave it up
            if change.holder is None:
                continue
            if balance and self._calm():
                self._twice(change)
                self._count(change)
            elif not balance:
                self.moved, self.allowed = 0, None
            if (balance or isinstance(record, Claim)) and self._calm():
                self.came_to[change.seat] = change.holder

    def _calm(self) -> bool:
        """Nothing but what is looked at has happened for a while, and everybody who runs is there."""
        if not self.play.knobs.alike or not self.play.healthy():
            return False
        if self.scene.engine.now < self.quiet_since + 3 * self.longest:
            return False
        return all(p.well() for p in self.play.own if p.running and p.over is None)

    def _twice(self, change: SeatChanged) -> None:
        known = all(p.well(3 * self.longest) for p in self.play.own if p.running and p.over is None)
        if known and change.seat in self.came_to:
            raise self.broken(
                f"{seat_name(change.seat)} had just come to {self.came_to[change.seat]} and moves on to {change.holder} "
                "for balance, though nothing else has happened since"
            )

    def _count(self, change: SeatChanged) -> None:
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
