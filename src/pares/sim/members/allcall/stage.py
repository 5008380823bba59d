"""The stage of ALLCALL, with all that is promised there, all that may befall it, and what is measured when that is over."""

from __future__ import annotations

from pares.sim.members.allcall.ground import Ground
from pares.sim.members.allcall.plan import DAWN, AllCallPlan, fair
from pares.sim.members.allcall.probes import Probes
from pares.sim.members.allcall.promises import PROMISED
from pares.sim.members.allcall.promises.tokens import Tokens
from pares.sim.members.allcall.storm import AllCallActs, AllCallStorm, healed, replay
from pares.sim.members.allcall.users import AllCallUser
from pares.sim.members.promises.terms import Terms
from pares.sim.members.promises.work import Work
from pares.sim.members.stage import Someone


class AllCallStage(Ground):
    promised = PROMISED
    moments = ()
    """It has probes of its own."""

    def __init__(self, plan: AllCallPlan, *, told: bool = False) -> None:
        super().__init__(plan, told=told)
        self.terms = self.promise(Terms)
        self.tokens = self.promise(Tokens)
        self.work = self.promise(Work)
        self.probes = Probes(self)

    def add(self, name: str | None = None) -> AllCallUser:
        user = AllCallUser(self, len(self.own))
        self.own.append(user)
        return user

    # What befalls it -------------------------------------------------------------------------------------------------

    def storm(self) -> None:
        """A dawn, in which all begin, is over first."""
        plan, world = self.plan, self.world
        calm = int(plan.storm * plan.unit)
        world.at(int(DAWN * plan.unit), self.probes.expect_dawn)
        world.at(int(plan.dawn * plan.unit), self._begins)
        world.at(calm + 1, self._all_again)
        self.probes.plan(calm + self.bounds.first)

    def _begins(self) -> None:
        self.air, self.kept = self.plan.air, self.plan.kept
        for handle in self.bus.handles:
            handle.air, handle.keeps = self.air, self.kept
        AllCallStorm(self)
        AllCallActs(self)
        if "replay" in self.plan.faults:
            self._replay_on()

    def _replay_on(self) -> None:
        """In the calm too."""
        replay(self, self.world.random(f"replay {self.world.now}"), 1)
        self.world.after(self.plan.unit // 2, self._replay_on)

    def calm_down(self, user: Someone) -> None:
        process, handle = user.process, user.ledger
        assert process is not None
        self.wakes_late(process)
        if handle is not None and not handle.well:
            handle.cut = handle.deaf = handle.mute = False
            healed(self, handle)

    def _all_again(self) -> None:
        """The storm is over for all."""
        self.air, self.kept = fair(self.plan.air), False
        self.bus.cuts.clear()
        for handle in self.bus.handles:
            handle.air, handle.keeps = self.air, False
        for user in self.own:
            user.hangs = 0
            user.again()
        self.disturbed()
