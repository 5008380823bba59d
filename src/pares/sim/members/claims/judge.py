"""Reads every record the moment it lands, as a reader that is never late: what each record did to the world of its group.

The checkers of records (`pares.sim.checkers`) are told by it. They ask for a scene, of which they need the time, the judge's
world, and chance; that is what it gives them.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from pares.core.wire.reader import Reader
from pares.core.wire.records import BadRecord, decode
from pares.sim.checker import Checker, Landed
from pares.sim.checkers.counting import Counting
from pares.sim.checkers.marks import Marks
from pares.sim.checkers.pauses import Pauses
from pares.sim.checkers.seats import Seats
from pares.sim.checkers.tokens import Tokens
from pares.sim.log import EntryTuple

if TYPE_CHECKING:
    from pares.sim.world.log import SharedLog
    from pares.sim.world.simulation import World

OF_RECORDS: Final = (Seats, Counting, Marks, Pauses, Tokens)


class Judge:
    """Of one group on one partition of one log."""

    def __init__(self, world: World, log: SharedLog, group: str, partition: int = 0) -> None:
        self.world = world
        self.group = group
        self.log = log
        self.partition = partition
        self.engine = world
        self.processes: dict[str, Any] = {}
        self.wall_slack = 10_000_000
        self.patience = 3_600_000_000_000
        self.judge = Reader(group)
        self.judge.attach(0, 0)
        self.renewed_at = -1
        """The true time at which another log came, or this one lost its tail."""
        self.landed: list[Callable[[Landed], object]] = []
        self.checkers: list[Checker] = [made(self) for made in OF_RECORDS]  # type: ignore[arg-type]
        log.partitions[partition].listeners.insert(0, self._landed)
        log.renewed.append(self._renewed)

    def random(self, what: str) -> Random:
        return self.world.random(what)

    @property
    def records(self) -> int:
        return self.judge.world.count

    def _landed(self, entries: list[EntryTuple]) -> None:
        judge = self.judge
        for entry in entries:
            changes = judge.feed([entry])
            counted = judge.world.last == entry[0]
            try:
                record = decode(entry[2])
            except BadRecord:
                record = None
            if record is not None and record.g != self.group:
                continue
            landed = Landed(self.world.now, entry[0], entry[2], record, counted, changes)
            if self.world.trace.told:
                self._tell(landed)
            for checker in self.checkers:
                checker.landed(landed)
            for call in self.landed:
                call(landed)

    def _tell(self, landed: Landed) -> None:
        record = landed.record
        what = "garbage" if record is None else f"{record.m} {type(record).__name__.lower()}"
        seat = getattr(record, "seat", None)
        place = "" if seat is None else f" {seat[0]}/{seat[1]}"
        effect = "" if landed.counted else " (does not count)"
        changes = "".join(f" -> {type(change).__name__}" for change in landed.changes)
        self.world.trace.add(landed.at, "log", f"#{landed.offset} {what}{place}{effect}{changes}")

    def _renewed(self) -> None:
        """What was folded is no longer what stands there: it is read anew."""
        self.renewed_at = self.world.now
        self.judge = Reader(self.group)
        self.judge.attach(0, 0)
        self.checkers = [made(self) for made in OF_RECORDS]  # type: ignore[arg-type]
        left, self.landed = self.landed, []
        self._landed(self.log.entries(self.partition))
        self.landed = left

    def end(self) -> None:
        for checker in self.checkers:
            checker.end()
