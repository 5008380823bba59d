"""What members stand on that share out the partitions of a log: those, and a broker's coordinator where there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pares.runtime.driver.logs import look_every
from pares.sim.engine import MS
from pares.sim.members.claims.ground import Ground
from pares.sim.members.neli.broker import Broker, Coordinator
from pares.sim.members.neli.judge import InductionJudge
from pares.sim.members.neli.plan import NeliPlan
from pares.sim.members.sight import Held
from pares.sim.world.logs.ledger import SimLedger

if TYPE_CHECKING:
    from pares.runtime.member import Member
    from pares.sim.members.stage import Someone
    from pares.sim.world.process import Process

KEPT: Final = 4.0
"""Seconds that a log keeps at least where it forgets: the leader writes the roles down again every second, at the most."""


class NeliGround(Ground):
    """`unwanted`: roles that somebody has removed, of which nobody asks who leads them."""

    plan: NeliPlan

    def _unknown(self) -> bool:
        """Its judge keeps what it has heard, and members read on from where they are."""
        return False

    def __init__(self, plan: NeliPlan, *, told: bool = False) -> None:
        self.unwanted: set[str] = set()
        self.next_door: list[Any] = []
        """Users in groups of their own on the same log, whom nothing befalls."""
        super().__init__(plan, told=told)
        if plan.numbers:
            self.roles = tuple(str(number) for number in range(plan.roles))

    def set_up(self) -> None:
        plan = self.plan
        kept = max(10 * plan.session_ms / 1000, KEPT) if "trim" in plan.faults else None
        chance, spread = self.world.random("stamps"), int(plan.wall_spread * 1000)
        wrong = None if plan.stamped else lambda: chance.randint(-spread, spread)
        self.log = self.world.log("log", partitions=plan.partitions, retention=kept, wrong_ms=wrong)
        self.judge: Any = InductionJudge(self.world, self.log)
        self.log.renewed.append(self._renewed)
        self.broker = Broker(self.world, self.log, session=plan.session_ms / 1000, delay=plan.group_delay)

    @property
    def coordinator(self) -> Coordinator:
        return self.broker.coordinator(self.group)

    def medium(self, process: Process, user: Someone) -> SimLedger:
        weather, plan = self.weather_of(user), self.plan
        if plan.native:
            return self.broker.ledger(process, weather, has_bell=plan.bells)
        process.host.provable = plan.proof
        return self.world.ledger(process, self.log, weather, has_bell=plan.bells, many_at_once=plan.many_at_once)

    def settings(self, user: Someone) -> dict[str, Any]:
        plan = self.plan
        found = {"seats": plan.seats, "session": user.session_ms / 1000, "drift": plan.drift, "protocol": plan.own}
        return found if plan.native else found | {"settle": plan.settle * plan.session_ms / 1000}

    # What promises ask -----------------------------------------------------------------------------------------------

    @property
    def longest(self) -> int:
        """Nanoseconds for which anybody may be waited for."""
        plan = self.plan
        return int(max(plan.session_ms, plan.threshold_ms + plan.error_ms) * MS / (1 - plan.drift))

    def overlap(self, member: Member) -> int:
        return 0 if self.plan.law.exclusive or member.group != self.group else self.plan.threshold

    def excused(self, one: Held, other: Held) -> bool:
        """Against A1: one of them went on reading, and did not know it, in another log than before; an announcement was lost;
        or the numbers of roles were, and are given anew, so that a role belongs to two partitions until all have read that. Of
        the group that claims make of the partitions: as ever, too."""
        if self.misled(one) or self.misled(other):
            return True
        if one.seat[0] != self.group:
            return super().excused(one, other)
        renumbered = not self.plan.numbers and self.log.partitions[0].forgot
        lost = (renumbered or any(partition.lost for partition in self.log.partitions)) and self.between_logs()
        return lost or not self.plan.law.exclusive

    def misled(self, held: Held) -> bool:
        user = self.user_of(held.process)
        ledger = None if user is None else user.ledger
        return ledger is not None and ledger.misled_at >= 0 and self.world.now <= ledger.misled_at + 2 * self.longest

    @property
    def looks(self) -> int:
        """How far apart members look whether the log is still the same one."""
        return look_every(self.plan.session_ms)

    def between_logs(self) -> bool:
        return self.judge.renewed_at >= 0 and self.world.now < self.judge.renewed_at + 3 * self.longest + self.looks

    def tokens_may_fall(self) -> bool:
        return True

    def seats(self) -> list[tuple[str, int]]:
        return [(role, seat) for role in self.roles if role not in self.unwanted for seat in range(self.plan.seats)]

    def could_lead(self, role: str, index: int, well_for: int) -> list[str]:
        """Of one role a member leads one seat. A slow member is given partitions as any other, and keeps them."""
        if not self.keeps_up():
            return []
        return [
            user.member.id
            for user in self.own
            if self.able(user, well_for)
            and not user.stopped
            and self.quick(user)
            and not any(held.seat[:2] == (self.group, role) for held in self.sight.of_process(user.process))
        ]

    def could_stay(self, role: str, index: int, well_for: int) -> bool:
        """A slow member keeps its partitions as any other does."""
        return True

    def keeps_up(self) -> bool:
        return all(self.near(user) for user in self.own if user.running)

    def near(self, user: Someone) -> bool:
        plan = self.plan
        shortest = min(plan.threshold_ms - plan.error_ms, plan.session_ms) * MS * (1 - plan.drift) / (1 + plan.drift)
        return self.weather_of(user).trip < shortest / 5 and super().near(user)
