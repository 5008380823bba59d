"""It goes on: no seat stays without a leader while somebody could lead it, and after the storm everything comes right.

While the storm lasts, time without a leader counts for as long as there is a member that could lead and that nothing hinders: a
deaf, mute or frozen one stops nobody else. It adds up over handovers, and time led pays it back slowly; what befalls the
holder itself begins a new account. A handover that a user has asked for is given the time that one takes in this weather: users
may ask for one after the other, and each of them is on their account. When the calm has lasted, every member is in the group,
every role exists, log and members agree, and the work is balanced within one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.core.reasons import ASKED, DRAINED, HANDED_OVER, STEPPED_DOWN
from pares.core.wire.changes import RoleChanged
from pares.core.wire.records import Seat
from pares.sim.engine import MS
from pares.sim.members.claims.judge import Landed
from pares.sim.members.promises.base import Promise

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground
    from pares.sim.members.sight import Held
    from pares.sim.world.process import Process

PAID_BACK: Final = 0.2
"""How much of a debt the same time with a leader pays back."""
BY_USERS: Final = frozenset({ASKED, DRAINED, HANDED_OVER, STEPPED_DOWN})
"""Ends of terms that users have asked for."""


class Liveness(Promise):
    name = "it goes on"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.ground = stage
        self.patience = stage.patience
        self.step = max(stage.plan.unit // 3, max(stage.plan.sessions) * MS // 8)
        self.debts: dict[Seat, int] = {}
        """For how long a seat has had nobody, though somebody could."""
        self.moved: dict[Seat, int] = {}
        """Until when a seat that a user has moved may be empty."""
        stage.judge.landed.append(self._landed)
        stage.renewed.append(self.debts.clear)
        stage.sight.began.append(self._began)
        stage.sight.ended.append(self._ended)
        self.world.on_hindered.append(self._hindered)
        self.world.on_end.append(self._hindered)
        self.world.after(self.step, self._look)

    def _landed(self, landed: Landed) -> None:
        if any(type(change) is RoleChanged for change in landed.changes):
            self.debts.clear()

    def _began(self, held: Held) -> None:
        if held.seat[0] == self.stage.group:
            self.moved.pop(held.seat[1:], None)

    def _ended(self, held: Held) -> None:
        # The reason as the term has it: a term that is asked finds out that it is over, and is watched for not doing so.
        if held.seat[0] == self.stage.group and held.term._why in BY_USERS:  # pyright: ignore[reportPrivateUsage]
            self.moved[held.seat[1:]] = self.world.now + self.ground.handed_over

    def _hindered(self, process: Process) -> None:
        mine = {member.id for member in self.stage.sight.members.get(process, ())}
        for seat, state in self.ground.judge.judge.world.seats.items():
            if state.holder in mine or state.holder is None:
                self.debts.pop(seat, None)

    def _look(self) -> None:
        self.world.after(self.step, self._look)
        world = self.ground.judge.judge.world
        open_seats = self.stage.seats()
        for seat in [seat for seat in self.debts if seat not in world.seats]:
            del self.debts[seat]
        for seat in open_seats:
            if self.stage.sight.believers((self.stage.group, *seat)):
                self.debts[seat] = max(0, self.debts.get(seat, 0) - int(PAID_BACK * self.step))
            elif self.world.now < self.moved.get(seat, 0):
                continue
            elif able := self.ground.may_lead(*seat, self.patience // 2):
                self.debts[seat] = debt = self.debts.get(seat, 0) + self.step
                if debt > self.patience:
                    raise self.broken(
                        f"{seat[0]}/{seat[1]} had no leader for {debt / 1e6:.0f} ms, though {', '.join(able)} could lead it"
                    )
            else:
                self.debts.pop(seat, None)

    # The end -----------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        world = self.ground.judge.judge.world
        there = [user for user in self.stage.own if self.stage.able(user, self.patience)]
        live = [user for user in there if user.member.state == "live" and user.member.id in world.members]
        for user in there:
            if user not in live and not self.ground.keeps_out():
                raise self.broken(f"{user.name} never came to be in the group, though nothing hindered it")
        # Roles are declared by members in the group: where all of them still wait to begin a log without its origin (R12),
        # nobody can have done it.
        if live and not self.ground.between_logs():
            for role in self.stage.roles:
                if role not in world.roles and not self.stage.plan.acts:
                    raise self.broken(f"the role {role} was never declared, though members that live were made with it")
        for seat, state in world.seats.items():
            for held in self.stage.sight.believers((self.stage.group, *seat)):
                if (
                    held.term.member != state.holder
                    and not self.stage.plan.overlap_ms
                    and not self.ground.between_logs()
                ):
                    raise self.broken(f"{held} believes in a seat that is {state.holder}'s")
        self._balanced()

    def _balanced(self) -> None:
        """Within one, where all are alike; where they are not, placement has its own tests."""
        stage, world = self.stage, self.ground.judge.judge.world
        if not self.ground.alike or self.world.now < stage.disturbed_at + self.patience or self.ground.between_logs():
            return
        if any(seat.pinned or seat.avoid for seat in world.seats.values()):
            return
        running = [user for user in stage.own if user.running]
        loads = {user.name: len(world.held.get(user.member.id, ())) for user in running if user.member is not None}
        if not all(stage.able(user, self.patience) and self.ground.quick(user) for user in running):
            return
        if loads and max(loads.values()) - min(loads.values()) > 1:
            raise self.broken(f"after the calm the work is not balanced: {loads}")
