"""Standbys' beats stay within the group's budget (R16): 200 a second, however many they are.

Counted in the log: beats of members that hold nothing, in a calm group, over a second (or as long as it was calm).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.core.wire.changes import MemberJoined, MemberLeft, SeatChanged
from pares.core.wire.records import Beat
from pares.sim.checker import Checker, Landed
from pares.sim.engine import SECOND
from pares.sim.process import Process

if TYPE_CHECKING:
    from pares.sim.play import Play

BUDGET: Final = 200
WINDOW: Final = SECOND // 2


class Rates(Checker):
    promise = "standbys keep to their budget"

    def __init__(self, play: Play) -> None:
        super().__init__(play.scene)
        self.play = play
        self.since = 0
        self.beats = 0

    def disturbed(self) -> None:
        self._anew()

    def frozen(self, process: Process, length: int | None) -> None:
        self._anew()

    def killed(self, process: Process) -> None:
        self._anew()

    def replaced(self) -> None:
        self._anew()

    def _anew(self) -> None:
        self.since, self.beats = self.scene.engine.now, 0

    def landed(self, landed: Landed) -> None:
        if any(type(change) in (SeatChanged, MemberJoined, MemberLeft) for change in landed.changes):
            self._anew()
        if not landed.counted or type(landed.record) is not Beat:
            return
        world = self.scene.judge.world
        if world.held.get(landed.record.m):
            return
        self.beats += 1
        passed = self.scene.engine.now - self.since
        if passed < WINDOW:
            return
        most = BUDGET * (1 + self.play.knobs.drift) * 1.1 * passed / SECOND + 2 * len(world.members)
        if self.beats > most:
            raise self.broken(
                f"standbys beat {self.beats} times in {passed / 1e9:.2f} s, {most:.0f} would be within budget"
            )
        self._anew()
