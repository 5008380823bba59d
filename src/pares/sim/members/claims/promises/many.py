"""When many die in one instant the rest goes on as soon as after one death (R20): nobody waits for each of the dead in turn.

Measured when two or more processes end at once, a leader among them, and nothing else befalls the group before the time is up:
the session of the leader, by a stopwatch as slow as drift allows, and a few round trips for those in line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.sim.engine import MS
from pares.sim.members.promises.base import Promise
from pares.sim.members.sight import Held

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground
    from pares.sim.world.process import Process


class Many(Promise):
    name = "takeover after many deaths in time"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.ground = stage
        self.longest = max(stage.plan.sessions) * MS
        self.at = -1
        """When processes ended last; how many did at that time; and what they led."""
        self.ended = 0
        self.led: list[Held] = []
        self.calm = False
        self.world.on_end.append(self._end)

    def _end(self, process: Process) -> None:
        now = self.world.now
        if self.at != now:
            stage = self.stage
            before = stage.disturbed_before if stage.disturbed_at == now else stage.disturbed_at
            self.calm = self.ground.healthy() and now >= before + 2 * self.longest
            self.at, self.ended, self.led = now, 0, []
            self.world.after(1, self._ask, now)
        self.ended += 1
        self.led += [
            held for held in self.stage.sight.of_process(process) if held.believing() and self.stage.judged(held)
        ]

    def _ask(self, at: int) -> None:
        if not self.calm or self.ended < 2:
            return
        for held in self.led:
            able = self.stage.could_lead(held.seat[1], held.seat[2], 2 * self.longest)
            if able:
                user = self.stage.user_of(held.process)
                session = self.longest if user is None else user.session_ms * MS
                heirs = [user.process for user in self.stage.own if user.running and user.member.id in able]
                within = self.ground.out_waits(session, held.process, heirs) + self.ground.rounds(10 + 2 * self.ended)
                self.world.after(within, self._due, held, self.world.now, within)

    def _due(self, held: Held, since: int, within: int) -> None:
        if self.stage.disturbed_at > since or not self.ground.judge.judge.world.open(held.seat[1:]):
            return
        if not self.stage.sight.believers(held.seat) and held.seat[1:] in self.stage.seats():
            raise self.broken(
                f"{held} died with others, and {within / 1e6:.3f} ms later nobody leads in its place, though somebody could"
            )
