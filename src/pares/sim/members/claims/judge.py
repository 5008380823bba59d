"""Reads every record the moment it lands, as a reader that is never late: what each record did to the world of its group.

The judge is a reader like any other (the real one); so it is the one with which all others must agree (promise 5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from pares.core.wire.changes import Change
from pares.core.wire.reader import Reader
from pares.core.wire.records import AnyRecord, BadRecord, Unknown, decode
from pares.sim.log import EntryTuple
from pares.sim.members.claims.story import line
from pares.sim.world.logs.shared import SharedLog
from pares.sim.world.simulation import World


class Landed(Struct, frozen=True):
    """One record of the group at its place in the log, as the judge folded it."""

    at: int
    offset: int
    payload: bytes
    record: AnyRecord | Unknown | None
    """None: not a record at all."""
    counted: bool
    changes: list[Change]


class Folding(Protocol):
    """A promise that keeps something beside the fold."""

    def anew(self) -> None: ...
    def landed(self, landed: Landed) -> None: ...


class Judge:
    """Of one group on one partition of one log."""

    def __init__(self, world: World, log: SharedLog, group: str, partition: int = 0) -> None:
        self.world = world
        self.group = group
        self.log = log
        self.partition = partition
        self.judge = Reader(group)
        self.judge.attach(0, 0)  # it was there before anything was written, wherever the log begins
        self._heard: list[tuple[EntryTuple, int]] = []
        """All entries, and when each landed; also those that have been trimmed since."""
        self.renewed_at = -1
        """The true time at which another log came, or this one lost its tail."""
        self.folding: list[Folding] = []
        """Told of each record that lands; and of all that stand in the log once more, when that is another one."""
        self.landed: list[Callable[[Landed], object]] = []
        """Told of each record that lands, after them."""
        log.partitions[partition].listeners.insert(0, self._landed)
        log.renewed.append(self._renewed)

    @property
    def records(self) -> int:
        return self.judge.world.count

    def _landed(self, entries: list[EntryTuple]) -> None:
        for entry in entries:
            self._heard.append((entry, self.world.now))
            landed = self._fold(entry, self.world.now)
            if landed is None:
                continue
            if self.world.trace.told:
                self.world.trace.add(
                    landed.at, "log", line(landed.offset, landed.record, landed.counted, landed.changes)
                )
            for call in self.landed:
                call(landed)

    def _fold(self, entry: EntryTuple, at: int) -> Landed | None:
        """What stands there since `at`; None: of another group."""
        judge = self.judge
        changes = judge.feed([entry])
        counted = judge.world.last == entry[0]
        try:
            record = decode(entry[2])
        except BadRecord:
            record = None
        if record is not None and record.g != self.group:
            return None
        landed = Landed(at, entry[0], entry[2], record, counted, changes)
        for promise in self.folding:
            promise.landed(landed)
        return landed

    def _renewed(self) -> None:
        """What was folded is no longer what stands there: what is left of it is read anew.

        A log that loses its tail goes on in the world of all that stood there before the loss, also of what had been trimmed by
        then: so do members that had not read beyond, and those that begin with a snapshot. [a judge that reads only what still
        stands there lacks the genesis: to it nothing counts any more, and it keeps its promises by seeing nothing]
        """
        self.renewed_at = self.world.now
        end = self.log.partitions[self.partition].end  # of another log, nothing: it begins at 0
        heard = [(entry, at) for entry, at in self._heard if entry[0] < end]
        self.begin_anew()
        self._heard = heard
        for entry, at in heard:
            self._fold(entry, at)

    def begin_anew(self) -> None:
        """Nothing of what was folded is left anywhere."""
        self._heard = []
        self.judge = Reader(self.group)
        self.judge.attach(0, 0)
        for promise in self.folding:
            promise.anew()
