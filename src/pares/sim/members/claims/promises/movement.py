"""Only the surplus moves (R13), and nothing moves without a reason.

A reason is that somebody came or went, or that a role or a request changed what should be. For one reason a seat changes hands
once at most: whatever moves on at once was moved, or claimed, to the wrong place. And no more seats move for balance than it
takes: each member's surplus over what it may keep when loads are within one. Counted where all members and all seats are alike;
ranks, hosts, weights and roles with several seats have tests of their own (tests/core).

Looked at while nothing else befalls the group and the ledger is well: a member that can't see who is alive can't know where
work belongs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.core.wire.changes import Began, MemberJoined, MemberLeft, RoleChanged, SeatChanged
from pares.core.wire.records import Claim, Seat, Transfer
from pares.sim.engine import MS
from pares.sim.members.claims.judge import Landed
from pares.sim.members.promises.base import Promise

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground


class Movement(Promise):
    name = "only the surplus moves"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.ground = stage
        self.came_to: dict[Seat, str] = {}
        """The members that got a seat for the present reason."""
        self.moved = 0
        self.allowed: int | None = None
        """How many moves the present situation asks for; None: not known yet."""
        self.as_of = 0
        self.quiet = 3 * max(stage.plan.sessions) * MS
        stage.judge.landed.append(self._landed)

    def _forget(self) -> None:
        self.moved, self.allowed, self.as_of = 0, None, self.world.now
        self.came_to.clear()

    def _landed(self, landed: Landed) -> None:
        if not landed.changes or not self.ground.alike:
            return
        if self.stage.disturbed_at > self.as_of:
            self._forget()
        if any(type(change) in (MemberJoined, MemberLeft, RoleChanged, Began) for change in landed.changes):
            self._forget()
        record = landed.record
        balance = isinstance(record, Transfer) and record.why == "balance"
        for change in landed.changes:
            if type(change) is not SeatChanged:
                continue
            if not balance and not isinstance(record, Claim):
                self._forget()  # somebody gave it up
            if change.holder is None:
                continue
            calm = self._calm()
            if balance and calm:
                self._twice(change)
                self._count(change)
            elif not balance:
                self.moved, self.allowed = 0, None
            if calm and (balance or isinstance(record, Claim)):
                self.came_to[change.seat] = change.holder

    def _calm(self) -> bool:
        """Nothing but what is looked at has happened for a while, and everybody who runs is there."""
        if not self.ground.healthy() or self.world.now < self.stage.disturbed_at + self.quiet:
            return False
        return all(
            self.stage.able(user, self.quiet) and self.ground.quick(user) for user in self.stage.own if user.running
        )

    def _twice(self, change: SeatChanged) -> None:
        if change.seat in self.came_to:
            raise self.broken(
                f"{change.seat} had just come to {self.came_to[change.seat]} and moves on to {change.holder} for balance, "
                "though nothing else has happened since"
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
        world = self.ground.judge.judge.world
        here = [m for m in world.members.values() if not m.administrator and not m.draining]
        loads = {m.id: len(world.held[m.id]) for m in here}
        for member, undo in ((change.holder, -1), (change.before, 1)):
            if member in loads:
                loads[member] += undo
        order = sorted(loads.values(), reverse=True)
        least, more = divmod(sum(order), max(1, len(order)))
        return sum(max(0, load - least - (1 if place < more else 0)) for place, load in enumerate(order))
