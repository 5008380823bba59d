"""Pauses (R14): nobody acquires under one; it ends by its own resume, not before its length unless somebody asks."""

from __future__ import annotations

from msgspec import Struct

from pares.core.events import ResumeNow
from pares.core.wire.changes import Began, PauseChanged, SeatChanged
from pares.core.wire.records import Pause, Resume
from pares.sim.checker import Checker, Landed
from pares.sim.scene import Scene
from pares.sim.trace import seat_name


class _Paused(Struct):
    scope: str | None
    ms: int
    at: int


class Pauses(Checker):
    promise = "pauses hold"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.pauses: dict[int, _Paused] = {}

    def replaced(self) -> None:
        self.pauses = {}

    def landed(self, landed: Landed) -> None:
        record = landed.record
        if not landed.counted:
            return
        for change in landed.changes:
            if type(change) is Began:
                self.pauses = {}
            elif type(change) is SeatChanged and change.holder is not None:
                for offset, pause in self.pauses.items():
                    if pause.scope in (None, change.seat[0]):
                        raise self.broken(
                            f"{change.holder} acquires {seat_name(change.seat)} under the pause at {offset}"
                        )
            elif type(change) is PauseChanged and not change.on and not isinstance(record, Resume):
                raise self.broken(f"a pause ends at {landed.offset} without a resume")
        if isinstance(record, Pause):
            self.pauses[landed.offset] = _Paused(record.scope, record.ms, landed.at)
        elif isinstance(record, Resume):
            pause = self.pauses.pop(record.pause, None)
            if pause is not None:
                self._check_length(record, pause)
        if isinstance(record, Pause | Resume) and set(self.pauses) != set(self.scene.judge.world.pauses):
            raise self.broken(
                f"in force are the pauses at {sorted(self.pauses)}, but the world has {sorted(self.scene.judge.world.pauses)}"
            )

    def _check_length(self, record: Resume, pause: _Paused) -> None:
        """A member that ends it unasked must have measured its whole length since reading it, at best on a fast clock."""
        process = next((p for p in self.scene.processes.values() if p.id == record.m), None)
        if process is None or process.asked_at(ResumeNow) >= 0:
            return
        measured = (self.scene.engine.now - pause.at) * process.stopwatch.rate
        if measured < pause.ms * 1e6 - 1e6:
            raise self.broken(
                f"{record.m} ends the pause at {record.pause} after {measured / 1e6:.1f} ms, {pause.ms} ms were asked for"
            )

    def end(self) -> None:
        for offset, pause in self.pauses.items():
            over = pause.at + int(pause.ms * 1e6 * 1.3) + self.scene.patience
            if self.scene.engine.now > over:
                raise self.broken(f"the pause at {offset} never ends")
