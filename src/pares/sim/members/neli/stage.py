"""What a play of these protocols takes place on: see `members.stage`."""

from __future__ import annotations

from pares.sim.members.neli.ground import NeliGround
from pares.sim.members.neli.plan import NeliPlan
from pares.sim.members.neli.promises import OF_ALL, OF_NELE
from pares.sim.members.neli.promises.emergence import Emergence
from pares.sim.members.neli.promises.tokens import NeliTokens
from pares.sim.members.neli.promises.work import NeliWork
from pares.sim.members.neli.storm import ClockStorm, NeliActs, NeliStorm
from pares.sim.members.neli.users import NeliUser
from pares.sim.members.promises.terms import Terms


class NeliStage(NeliGround):
    promised = OF_ALL

    def __init__(self, plan: NeliPlan, *, told: bool = False) -> None:
        super().__init__(plan, told=told)
        self.terms = self.promise(Terms)
        self.tokens = self.promise(NeliTokens)
        self.work = self.promise(NeliWork)
        self.rng = self.world.random("probes")
        self.next_door += [NeliUser(self, number, f"next{number}", beside=True) for number in range(plan.next_door)]

    def add(self, name: str | None = None, *, like: NeliUser | None = None, member: str | None = None) -> NeliUser:
        assert like is None, "no user of NELI is made as another"
        assert member is None, "nor joins under the name of another"
        user = NeliUser(self, len(self.own), name)
        self.own.append(user)
        return user

    def storm(self) -> None:
        (ClockStorm if self.plan.at_clocks else NeliStorm)(self)
        NeliActs(self)
        for user in self.next_door:
            self.world.after(int(self.rng.uniform(0, 2) * self.plan.unit), user.start)

    def probed(self, kind: str) -> None:
        if kind == "hand over" and self.plan.native:
            self.coordinator.shuffle()  # which is what a broker's group has of that
        self.disturbed()
        self.promise(Emergence).probe()


class NeleStage(NeliStage):
    promised = (*OF_ALL, *OF_NELE)
