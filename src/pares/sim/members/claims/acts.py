"""What users and administrators do, at random times, until the storm is over."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from pares.core.errors import ParesError
from pares.runtime.admin import Admin
from pares.sim.engine import Stopwatch, WallClock
from pares.sim.members.chance import Chance
from pares.sim.members.users import User

if TYPE_CHECKING:
    from pares.runtime.member import Member
    from pares.sim.members.claims.ground import Ground
    from pares.sim.world.process import Process

ADDED: Final = 3
"""Roles that are added, at most."""
OF_ADMINISTRATORS: Final = (
    "add_role",
    "change_role",
    "remove_role",
    "rewind",
    "move",
    "drain_other",
    "pause",
    "resume",
)
Act = Callable[[Any], object]


class Administrator:
    """A process that steers the group from outside, as `Admin` does."""

    def __init__(self, stage: Ground) -> None:
        self._stage = stage
        self._admin: Admin | None = None
        rng = stage.world.random("administrator")
        wall = WallClock(int(rng.uniform(-1, 1) * stage.plan.wall_spread * 1e6))
        self._process = stage.world.start("admin", self._main, stopwatch=Stopwatch(rng.randint(0, 10**15)), wall=wall)

    def _main(self, process: Process) -> None:
        ledger = self._stage.world.ledger(process, self._stage.log, self._stage.plan.weathers[0])
        while self._admin is None:
            try:
                self._admin = Admin(ledger, group=self._stage.group)
            except ParesError as error:
                self._stage.world.told(process, f"no administrator yet: {error!r}")
                process.host.sleep(0.1)
        process.host.flag().wait()

    def ask(self, act: Act, what: str) -> bool:
        """Does it, on a task of its own; whether it could begin to."""
        admin, process, world = self._admin, self._process, self._stage.world
        if admin is None or not process.alive:
            return False

        def run() -> None:
            try:
                act(admin)
            except ParesError as error:
                world.told(process, f"{what}: {error!r}")

        world.told(process, what)
        process.spawn(run, what)
        return True


class Acts(Chance[User]):
    """Draws acts. An administrator does most of what it can do, if there is one."""

    def __init__(self, stage: Ground) -> None:
        self.stage = stage
        plan = stage.plan
        super().__init__(stage, "acts", plan.acts, pace=plan.act_pace)
        self._admin = Administrator(stage) if plan.admin else None
        self._added = 0
        self._marks: dict[str, int] = {}

    def own(self) -> list[User]:
        return self.stage.own

    def happen(self, kind: str) -> None:
        user = self.someone(holder=True if kind == "mark" else None)
        if user is None:
            return
        self.stage.disturbed()
        act = getattr(self, f"_{kind}")()
        if kind in OF_ADMINISTRATORS and self._admin is not None and self.rng.random() < 0.8:
            self._admin.ask(act, kind)
        elif kind in ("rewind", "move", "drain_other"):
            return  # members can't ask for these
        else:
            if kind == "drain":
                user.draining = True
            user.ask(act, kind)

    def _role(self) -> str:
        return self.rng.choice(sorted(self.stage.judge.judge.world.roles) or list(self.stage.roles))

    def _hand_over(self) -> Act:
        role, to = self._role(), self.rng.choice((None, *(user.member_name for user in self.own())))
        return lambda member: member.hand_over(role, to)

    def _step_down(self) -> Act:
        role = self.rng.choice((self._role(), None))
        return lambda member: member.step_down(role)

    def _pause(self) -> Act:
        role = self.rng.choice((self._role(), None))
        length = self.rng.uniform(0.3, 4) * self.stage.plan.session_ms / 1000
        return lambda member: member.pause(role, seconds=length)

    def _resume(self) -> Act:
        role = self.rng.choice((self._role(), None))
        return lambda member: member.resume(role)

    def _drain(self) -> Act:
        return lambda member: member.drain()

    def _mark(self) -> Act:
        """Of a term that it has: also a lower one than before, which moves nothing."""
        role, rng = self._role(), self.rng
        mark = self._marks[role] = max(0, self._marks.get(role, 0) + rng.randint(-2, 9))

        def act(member: Member) -> None:
            term = member.term(role)
            if term is not None:
                member.mark(term, mark)

        return act

    def _ask(self) -> Act:
        role = self._role()
        return lambda member: (member.members(), member.leaders(role), member.roles(), member.health())

    # What administrators can do ----------------------------------------------------------------------------------------

    def _add_role(self) -> Act:
        self._added = min(ADDED, self._added + 1)
        name, seats, spread = f"x{self._added}", self.rng.randint(1, 2), self.rng.choice(("host", "zone", "none"))
        return lambda admin: admin.add_role(name, seats, spread=spread)

    def _change_role(self) -> Act:
        role, seats, weight = self._role(), self.rng.randint(1, 3), self.rng.choice((1.0, 1.0, 2.0))
        return lambda admin: admin.add_role(role, seats, weight=weight)

    def _remove_role(self) -> Act:
        """Most of those that are removed come back, some at once."""
        role, seats = self._role(), self.rng.randint(1, 2)
        again = self.rng.random() < 0.7
        delay = self.rng.uniform(0.001, 3) * self.stage.plan.session_ms / 1000

        def act(admin: Any) -> None:
            admin.remove_role(role)
            if again:
                self.stage.world.task().process.host.sleep(delay)
                admin.add_role(role, seats)

        return act

    def _rewind(self) -> Act:
        """Under a pause, as it must be; and now and then without one, which is refused."""
        world, rng = self.stage.judge.judge.world, Random(self.rng.random())
        seats = sorted(world.seats)
        length = 3 * self.stage.plan.session_ms / 1000
        paused = rng.random() < 0.8

        def act(admin: Admin) -> None:
            chosen = rng.sample(seats, rng.randint(1, len(seats))) if seats else []
            for role in sorted({role for role, _ in chosen}) if paused else ():
                admin.pause(role, seconds=length)
            self.stage.world.task().process.host.sleep(length / 2)
            admin.rewind({seat: rng.randint(0, 50) for seat in chosen})

        return act

    def _move(self) -> Act:
        role, to = self._role(), self.rng.choice((None, *(user.member_name for user in self.own())))
        return lambda admin: admin.hand_over(role, to)

    def _drain_other(self) -> Act:
        user = self.rng.choice(self.own())
        user.draining = True
        return lambda admin: admin.drain(user.member_name)
