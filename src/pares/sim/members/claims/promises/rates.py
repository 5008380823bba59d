"""Standbys' beats stay within the group's budget (R16): 200 a second, however many they are.

Counted in the log: beats of members that hold nothing, in a calm group, over half a second.

R21: an idle member wakes a bounded number of times a session, however many members there are.

Four times for its own beats, or for a look at the log; and for what it knows of others only when the time of one of them may be
over: of each that is within what its last record said, or within its lease after that, and what was read last is never older
than the distance from one look to the next. Counted are waits that ended by a bell or by a time, and not by a request. Whatever
is no beat may ring, also what members of later versions write, so each such record may wake everybody once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.core.wire.changes import MemberJoined, MemberLeft, SeatChanged
from pares.core.wire.records import Beat
from pares.sim.engine import MS, SECOND
from pares.sim.members.claims.judge import Landed
from pares.sim.members.promises.base import Promise

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground
    from pares.sim.world.process import Process

BUDGET: Final = 200
WINDOW: Final = SECOND // 2
SESSIONS: Final = 2
"""How long members are watched."""
MOST: Final = 12
"""Wake-ups in one session."""


class Rates(Promise):
    name = "standbys keep to their budget"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.judge = stage.judge
        self.since = 0
        self.beats = 0
        stage.judge.landed.append(self._landed)

    def _anew(self, at: int) -> None:
        self.since, self.beats = at, 0

    def _landed(self, landed: Landed) -> None:
        if any(type(change) in (SeatChanged, MemberJoined, MemberLeft) for change in landed.changes):
            self._anew(landed.at)
        if self.stage.disturbed_at > self.since:
            self._anew(self.stage.disturbed_at)
        world = self.judge.judge.world
        if not landed.counted or type(landed.record) is not Beat or world.held.get(landed.record.m):
            return
        self.beats += 1
        passed = landed.at - self.since
        if passed < WINDOW:
            return
        most = BUDGET * (1 + self.stage.plan.drift) * 1.1 * passed / SECOND + 2 * len(world.members)
        if self.beats > most:
            raise self.broken(
                f"standbys beat {self.beats} times in {passed / 1e9:.2f} s, {most:.0f} would be within budget"
            )
        self._anew(landed.at)


class Rounds(Promise):
    name = "an idle member wakes seldom"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.ground = stage
        plan = stage.plan
        self.longest = max(plan.sessions) * MS
        self.window = SESSIONS * min(plan.sessions) * MS
        self.before: dict[Process, int] = {}
        """How often each had waked by the last look, if nothing happens; empty: something has happened."""
        self.disturbed_at = 0
        self.urgent = 0
        """Records that are no beats, in the log since the last look."""
        self.counted: list[float] = []
        """What was measured: wake-ups in a session."""
        stage.judge.landed.append(self._landed)
        by_need = plan.stamps or (plan.arrivals and "eager" not in plan.scale)
        if by_need and plan.bells and not plan.neighbours:
            self.world.after(self.window, self._look)

    def _landed(self, landed: Landed) -> None:
        self.urgent += type(landed.record) is not Beat

    def _look(self) -> None:
        """Between two looks nothing has happened, and for a while before the first of them."""
        stage = self.stage
        self.world.after(self.window, self._look)
        users = [user for user in stage.own if user.running]
        if self.before and stage.disturbed_at == self.disturbed_at:
            for process, rounds in self.before.items():
                self._judge(process, process.rounds - rounds)
        self.before, self.disturbed_at, self.urgent = {}, stage.disturbed_at, 0
        calm = self.ground.healthy() and stage.disturbed_at < self.world.now - 2 * self.longest
        if calm and all(stage.able(user, 2 * self.longest) and self.ground.quick(user) for user in users):
            self.before = {user.process: user.process.rounds for user in users}

    def _judge(self, process: Process, rounds: int) -> None:
        self.counted.append(rounds / SESSIONS)
        if rounds > MOST * SESSIONS + self.urgent:
            raise self.broken(
                f"{process.name} has waked {rounds} times in {SESSIONS} sessions in which nothing happened"
            )
