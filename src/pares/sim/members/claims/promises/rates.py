"""Standbys' beats stay within the group's budget (R16): 200 a second, however many they are.

Counted in the log: beats of members that hold nothing, in a calm group, over half a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.core.wire.changes import MemberJoined, MemberLeft, SeatChanged
from pares.core.wire.records import Beat
from pares.sim.engine import SECOND
from pares.sim.members.claims.judge import Landed
from pares.sim.members.promises.base import Promise

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground

BUDGET: Final = 200
WINDOW: Final = SECOND // 2


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
