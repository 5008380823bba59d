"""What a play of these protocols takes place on: see `members.stage`. In the calm two things are done to the group, and a bound
says by when somebody leads again.
"""

from __future__ import annotations

from typing import Final

from pares.sim.members.neli.ground import NeliGround
from pares.sim.members.neli.plan import NeliPlan
from pares.sim.members.neli.promises import OF_ALL, OF_NELE
from pares.sim.members.neli.promises.emergence import Emergence
from pares.sim.members.neli.promises.tokens import NeliTokens
from pares.sim.members.neli.promises.work import NeliWork
from pares.sim.members.neli.storm import NeliActs, NeliStorm
from pares.sim.members.neli.users import NeliUser
from pares.sim.members.promises.terms import Terms
from pares.sim.members.stage import Someone

PROBES: Final = (0.5, 0.75)
"""When something is done in the calm, as parts of it."""


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
        NeliStorm(self)
        NeliActs(self)
        unit, plan = self.plan.unit, self.plan
        for user in self.next_door:
            self.world.after(int(self.rng.uniform(0, 2) * unit), user.start)
        for part in PROBES:
            self.world.after(int((plan.storm + part * plan.calm) * unit), self._probe)

    def calm_down(self, user: Someone) -> None:
        super().calm_down(user)
        user.held_up = 0.0  # type: ignore[attr-defined]

    def _probe(self) -> None:
        """One thing happens to the group."""
        there = [user for user in self.own if self.well(user, 0) and not user.over]
        leaders = [user for user in there if user.beliefs]
        if len(there) < 2 or not leaders:
            return
        chosen, kind = self.rng.choice(leaders), self.rng.choice(("crash", "crash", "close", "shuffle"))
        self.disturbed()
        if kind == "crash":
            self.world.kill(chosen.process)
        elif kind == "shuffle" and self.plan.native:
            self.coordinator.shuffle()
        else:
            chosen.close()
        self.promise(Emergence).probe()


class NeleStage(NeliStage):
    promised = (*OF_ALL, *OF_NELE)
