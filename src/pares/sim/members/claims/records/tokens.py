"""Promise 4 in the log: tokens strictly grow per seat, also when the log was begun anew.

Between logs this is promised only if the wall clock of the member that begins the new one is not behind the old tokens, or if
it has led under them itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pares.core.wire.changes import Began, SeatChanged
from pares.core.wire.records import Seat
from pares.sim.members.claims.judge import Landed
from pares.sim.members.claims.records.base import OfRecords, name

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground
    from pares.sim.members.sight import Held
    from pares.sim.world.process import Process

SLACK_US: Final = 10_000_000
"""Microseconds between reading the wall clock and a base's landing."""


class TokensInLog(OfRecords):
    name = "tokens grow"

    def __init__(self, stage: Ground) -> None:
        self.last: dict[Seat, int] = {}
        self.highest = 0
        self.known: dict[Process, int] = {}
        """The highest token under which each process has led."""
        self.geneses: set[bytes] = set()
        """Those written for an earlier log: a late copy of one may begin a new log, with the base of old."""
        self.written: set[bytes] = set()
        super().__init__(stage)
        self.world.on_sent.append(self._sent)
        stage.sight.began.append(self._led)

    def anew(self) -> None:
        self.geneses |= self.written
        if any(partition.lost for partition in self.ground.log.partitions):
            self._measure_anew()  # what was given out in the tail that is lost may be given out again (A1)

    def _measure_anew(self) -> None:
        self.last, self.highest = {}, 0
        self.known.clear()

    def _sent(self, process: Process, ledger: object, partition: int, payloads: Sequence[bytes]) -> None:
        self.written.update(payload for payload in payloads if payload.startswith(b'{"k":"genesis"'))

    def _led(self, held: Held) -> None:
        if self.stage.judged(held):
            self.known[held.process] = max(self.known.get(held.process, 0), held.token)

    def landed(self, landed: Landed) -> None:
        for change in landed.changes:
            if type(change) is Began:
                self._begins(landed, change.base)
            elif type(change) is SeatChanged and change.holder is not None:
                before = self.last.get(change.seat, -1)
                if change.token <= before:
                    raise self.broken(
                        f"the token of {name(change.seat)} fell from {before} to {change.token} at {landed.offset}"
                    )
                self.last[change.seat] = change.token
                self.highest = max(self.highest, change.token)

    def _begins(self, landed: Landed, base: int) -> None:
        """A log begins. If its base is below what was given out before, was that allowed?"""
        if base > self.highest or landed.record is None:
            return
        writer = self.ground.by_id(landed.record.m)
        if landed.payload not in self.geneses and writer is not None and writer.process is not None:
            if writer.wall.read_us(self.world.now) - SLACK_US > self.highest:
                raise self.broken(
                    f"{landed.record.m} begins a log with base {base}, though its clock is beyond {self.highest}"
                )
            led = self.known.get(writer.process, 0)
            if led > base:
                raise self.broken(f"{landed.record.m} begins a log with base {base}, and has led under {led}")
        self._measure_anew()  # its clock is behind: nothing was promised
