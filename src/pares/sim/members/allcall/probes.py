"""In the calm one thing is done at a time, and it is measured how long the group takes to come right."""

from __future__ import annotations

from typing import Any, Final

from pares.sim.checker import Broken
from pares.sim.members.allcall.ground import Ground
from pares.sim.members.allcall.promises.alike import OneGoesOn
from pares.sim.members.allcall.promises.endings import NoGap
from pares.sim.members.allcall.promises.settled import Settled
from pares.sim.members.allcall.storm import sides
from pares.sim.world.bus import Cut

FINE: Final = 40
"""How often a beat is looked while something is measured."""
IN_TIME: Final = "it comes right in time"


class Probes:
    """`measured`: by what was done, how long it took, in nanoseconds; `bound`: how long it may take."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.world = ground.world
        self.bounds = ground.bounds
        self.no_gap, self.alike = ground.promise(NoGap), ground.promise(OneGoesOn)
        self.settled = ground.promise(Settled)
        self.rng = ground.world.random("probes")
        self.measured: dict[str, list[tuple[int, int]]] = {}
        """By what was done: how long it took, and how long it may take."""

    def broken(self, what: str) -> Broken:
        return Broken(IN_TIME, self.world.now, what)

    def expect_dawn(self) -> None:
        """Of those that have begun somebody leads each role in time. A better ranked member that begins within a beat of
        another is waited for."""
        ground = self.ground
        if ground.plan.barrier_raises or any(ground.plan.starts):
            return  # a term may be over at once, or the best ranked one becomes ready at any time
        begun = sorted((user.process.well_since, user.place, user) for user in ground.own if user.process is not None)
        for role in ground.roles:
            able = [(user, at) for at, _, user in begun if role in user.roles and user.ready]
            if not able:
                continue
            first, at = able[0]
            near = self.bounds.beat + 2 * self.bounds.delay + int(2 * ground.plan.drift * self.bounds.cold)
            for user, began in able:
                if ground.rank(user) <= ground.rank(first) and began <= at + near:
                    first, at = user, began
            self._measure("cold", role, self.bounds.cold, at)

    def plan(self, first: int) -> None:
        """Puts all probes on their days."""
        self.world.at(first, self._calm)
        for number, kind in enumerate(self.ground.plan.probes):
            self.world.at(first + number * self.bounds.each, self._probe, kind)

    def _calm(self) -> None:
        self.no_gap.calm = True

    def _probe(self, kind: str) -> None:
        ground = self.ground
        self.settled.check()
        role = self.rng.choice(ground.roles)
        leaders = ground.sight.believers(ground.seat(role))
        if not leaders:
            return
        leader = ground.user(leaders[0].process)
        if not any(role in user.roles and ground.able(user) for user in ground.own if user is not leader):
            return
        self.world.told(None, f"probe: {kind} {role}")
        getattr(self, f"_{kind}")(role, leader)

    # What is done ----------------------------------------------------------------------------------------------------

    def _crash(self, role: str, leader: Any) -> None:
        self.world.kill(leader.process)
        self.world.after(self.bounds.quiet, leader.again)
        self._measure("crash", role, self.bounds.crash, self.world.now)

    def _restart(self, role: str, leader: Any) -> None:
        """It comes back within its own lease: as another incarnation, which was not there before."""
        self.world.kill(leader.process)
        self.world.after(self.ground.plan.unit // 4, leader.again)
        # The one that came back is the best one again, and waits for answers to its first call.
        self._measure("restart", role, self.bounds.crash + self.bounds.beat, self.world.now)

    def _close(self, role: str, leader: Any) -> None:
        leader.close()
        self.ground.disturbed()
        self.world.after(self.bounds.quiet, leader.again)
        self._measure("close", role, self.bounds.stop, self.world.now, but=leader)

    def _step_down(self, role: str, leader: Any) -> None:
        self.ground.disturbed()
        leader.ask(lambda member: member.step_down(role), "steps down")
        self._measure("step_down", role, self.bounds.stop, self.world.now, but=leader)

    def _join(self, role: str, leader: Any) -> None:
        """A better ranked one comes: it leads when the term in force ends, without a gap."""
        user = self.ground.add()
        user.start()
        # It hears a call within a beat; then the leader must have renewed just now.
        bounds = self.bounds
        bound = 2 * bounds.beat + bounds.lease + 3 * bounds.delay + bounds.step + bounds.clocks + bounds.barrier
        self._measure("join", role, bound, self.world.now, by=user)

    def _split(self, role: str, leader: Any) -> None:
        cut = sides(self.ground, self.rng)
        self.ground.disturbed()
        self.no_gap.calm = False
        self.ground.bus.cuts.append(cut)
        self.world.after(self.bounds.quiet, self._heal, role, cut)

    def _heal(self, role: str, cut: Cut) -> None:
        ground, now = self.ground, self.world.now
        best = ground.best(role)
        ground.disturbed()
        self.world.told(None, "heals")
        ground.bus.cuts.remove(cut)
        self.alike.watch(ground.seat(role), self.bounds.heal)
        self.world.after(self.bounds.heal, self._calm)
        self._measure("heal", role, self.bounds.heal, now)
        self._measure("best", role, self.bounds.best, now, by=best)

    # How long it takes -----------------------------------------------------------------------------------------------

    def _measure(self, what: str, role: str, bound: int, since: int, *, by: Any = None, but: Any = None) -> None:
        """Until one leads: `by`, if it must be that one; not `but`."""
        ground, now = self.ground, self.world.now
        leaders = [ground.user(held.process) for held in ground.sight.believers(ground.seat(role))]
        if len(leaders) == 1 and by in (None, leaders[0]) and leaders[0] is not but:
            self.measured.setdefault(what, []).append((now - since, bound))
        elif now > since + bound:
            names = [user.name for user in leaders]
            should = "" if by is None else f", and should be by {by.name}"
            raise self.broken(f"{bound / 1e6:.1f} ms after {what} {role} is led by {names}{should}")
        else:
            self.world.after(self.bounds.beat // FINE, lambda: self._measure(what, role, bound, since, by=by, but=but))
