"""Pauses (R14): nobody acquires under one; it ends by its own resume, not before its length unless somebody asks."""

from __future__ import annotations

from msgspec import Struct

from pares.core.wire.changes import Began, PauseChanged, SeatChanged
from pares.core.wire.records import Pause, Resume
from pares.sim.engine import MS
from pares.sim.members.claims.judge import Landed
from pares.sim.members.claims.records.base import OfRecords, name


class _Paused(Struct):
    scope: str | None
    ms: int
    at: int


class Pauses(OfRecords):
    name = "pauses hold"

    def anew(self) -> None:
        self.pauses: dict[int, _Paused] = {}

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
                        raise self.broken(f"{change.holder} acquires {name(change.seat)} under the pause at {offset}")
            elif type(change) is PauseChanged and not change.on and not isinstance(record, Resume):
                raise self.broken(f"a pause ends at {landed.offset} without a resume")
        if isinstance(record, Pause):
            self.pauses[landed.offset] = _Paused(record.scope, record.ms, landed.at)
        elif isinstance(record, Resume):
            pause = self.pauses.pop(record.pause, None)
            if pause is not None:
                self._check_length(record, pause, landed.at)
        there = set(self.folded.pauses)
        if isinstance(record, Pause | Resume) and set(self.pauses) != there:
            raise self.broken(f"in force are the pauses at {sorted(self.pauses)}, but the world has {sorted(there)}")

    def _check_length(self, record: Resume, pause: _Paused, at: int) -> None:
        """A member that ends it unasked must have measured its whole length since reading it, at best on a fast clock."""
        if self.stage.asked(record.m, "resume") or self.ground.by_id(record.m) is None:
            return  # its user asked for it, or it is an administrator
        measured = (at - pause.at) * (1 + self.stage.plan.drift)
        if measured < (pause.ms - 1) * MS:
            raise self.broken(
                f"{record.m} ends the pause at {record.pause} after {measured / 1e6:.1f} ms, {pause.ms} ms were asked for"
            )

    def end(self) -> None:
        patience = self.ground.patience
        for offset, pause in self.pauses.items():
            over = pause.at + int(pause.ms * MS / (1 - self.stage.plan.drift)) + patience
            if self.world.now > over and any(self.stage.able(user, patience) for user in self.stage.own):
                raise self.broken(f"the pause at {offset} never ends")
