"""One seed, played: members drawn from the plan, a storm of faults, a calm in which everything must come right, a verdict."""

from __future__ import annotations

import traceback
from typing import Any, Final

from pares.sim.checker import Broken
from pares.sim.engine import SECOND
from pares.sim.members.plan import Plan
from pares.sim.members.protocols import PROTOCOLS
from pares.sim.members.scale import shrunk
from pares.sim.members.stage import Stage
from pares.sim.outcome import Outcome

UNSTOPPABLE: Final = "the simulation goes on"


class Play:
    """`stage` is there before anything happens, for scenarios that do something of their own."""

    def __init__(self, plan: Plan, *, told: bool = False) -> None:
        self.plan = plan
        self.stage: Stage = PROTOCOLS[plan.protocol].stage(plan, told=told)
        self.rng = self.stage.world.random("play")

    def run(self) -> None:
        stage, plan = self.stage, self.plan
        world = stage.world
        if world.trace.told:
            world.trace.add(0, "--", str(plan))
        for place in range(plan.members):
            user = stage.add()
            if place < 2 or self.rng.random() < 0.7:
                world.after(int(self.rng.uniform(0, 0.5) * plan.unit), user.start)
            else:
                world.after(int(self.rng.uniform(1, plan.storm) * plan.unit), user.start)
        stage.storm()
        world.run(int(plan.storm * plan.unit))
        self._calm()
        length = int(plan.calm * plan.unit) + 2 * plan.barrier_timeout_ns
        for part in stage.moments:
            world.after(int(part * length), self._probe)
        world.run(world.now + length)
        for promise in stage.promises:
            promise.end()
        stage.end()

    def _calm(self) -> None:
        """All faults end, and most of what is down is started again."""
        stage, world = self.stage, self.stage.world
        stage.calm, stage.calm_at = True, world.now
        world.told(None, "the calm begins")
        for user in stage.own:
            process = user.process
            user.turns_ready()
            user.usual_barrier()
            if process is None or not process.alive:
                if self.rng.random() < 0.6:
                    user.start()
                continue
            world.thaw(process)
            process.starving = 0.0
            process.disarm()
            stage.calm_down(user)
            if process.raised or user.draining or user.stopped:
                world.kill(process)
                user.start()
            process.well_since = world.now
        if not any(user.running for user in stage.own):
            stage.own[0].start()
        stage.disturbed()

    def _probe(self) -> None:
        """In the calm one thing happens, and nothing else: so that it can be seen how long it takes, and what it moves."""
        stage, rng = self.stage, self.rng
        holders = [user for user in stage.own if user.running and not user.over and user.beliefs]
        if not holders:
            return
        holder = rng.choice(holders)
        kind = rng.choice(("crash", "crash", "close", "hand over", "join"))
        stage.world.told(None, f"measured: {kind} {holder.name}")
        if kind == "crash":
            stage.world.kill(holder.process)
        elif kind == "close":
            holder.close()
        elif kind == "hand over":
            roles = [held.seat[1] for held in stage.sight.of_process(holder.process) if stage.judged(held)]
            role = rng.choice(roles or stage.roles)
            holder.ask(lambda member: member.hand_over(role), kind)
        else:
            stage.add().start()
        stage.probed(kind)

    def play(self) -> Outcome:
        stage = self.stage
        broken = what = ""
        with shrunk(self.plan.scale), stage.playing(), stage.world.playing() as world:
            try:
                self.run()
            except Broken as error:
                broken, what = error.promise, str(error)
                world.told(None, f"BROKEN: {what}")
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                broken = UNSTOPPABLE
                what = f"{type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})"
                world.told(None, traceback.format_exc())
            at = world.now / SECOND
            records = stage.records
            lines = list(world.trace.lines)
        return Outcome(self.plan.seed, broken, what, at, records, self.plan, lines)


def play(plan: Plan, *, told: bool = False) -> Outcome:
    return Play(plan, told=told).play()


def perform(seed: int, bias: dict[str, Any] | None = None, *, protocol: str = "claims", told: bool = False) -> Outcome:
    """One seed."""
    return play(PROTOCOLS[protocol].draw(seed, bias), told=told)
