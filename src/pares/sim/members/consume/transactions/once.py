"""What transactions of batches promise: each record's writes are committed once, and once more after each rewind that the
database has heard of."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pares.core.consume.names import WHOLE, Partition
from pares.core.errors import Stale
from pares.core.wire.divided.ranges import position
from pares.core.wire.records import Rewind
from pares.sim.members.claims.judge import Landed
from pares.sim.members.consume.promises import Delivered, Place

if TYPE_CHECKING:
    from pares.runtime.admin import Rewound
    from pares.sim.members.consume.ground import ConsumeGround
    from pares.sim.world.process import Process


class Once(Delivered):
    name = "what a batch writes is committed once"

    def anew(self) -> None:
        """It is about the database, which knows nothing of logs."""

    def __init__(self, stage: ConsumeGround) -> None:
        self.rewinds: list[Place] = []
        """Partition and mark of each rewind in the log."""
        self.left_out: dict[int, int] = {}
        """Below which offset of a partition records may have been passed by a rewind, and not by their batches."""
        self.untold: Counter[int] = Counter()
        """Of each partition, the rewinds in the log that the database was not told of: they failed, as others came between."""
        self.least: dict[Place, int] = {}
        """How often a record is to be there, as it was to be written once more."""
        super().__init__(stage)

    def forgets(self, process: Process, moved: Sequence[Rewound]) -> None:
        """The administrator has the database forget what was done, under the same pause. By a task."""
        database = self.consumption.database
        try:
            with database.session(process) as session:
                session.execute("BEGIN IMMEDIATE")
                for one in moved:
                    database.positions.forget(session, one)
                written = database.written()
                session.commit()
        except (Stale, sqlite3.Error) as error:
            self.world.told(process, f"the database forgets nothing: {error}")
            return
        for one in moved:
            partition, mark = Partition.of(one.role), self._mark(one)
            if partition is not None and partition.slot == WHOLE:
                self.untold[partition.number] -= 1
            if partition is not None and mark is not None:
                places = ((partition.number, at) for at in self.consumption.mine(one.role, mark, 1 << 62))
                self.least |= {place: written.get(place, 0) + 1 for place in places}

    def _mark(self, moved: Rewound) -> int | None:
        state = self.folded.seats.get((moved.role, moved.seat))
        return None if state is None else state.mark

    def landed(self, landed: Landed) -> None:
        if landed.counted and isinstance(landed.record, Rewind):
            for role, _, mark in landed.record.marks:
                partition = Partition.of(role)
                if partition is not None:
                    self.rewinds.append((partition.number, mark))
                    self.untold[partition.number] += 1
                    self.left_out[partition.number] = max(mark, self.left_out.get(partition.number, 0))

    def end(self) -> None:
        if not self.consumption.plan.transactions or self.ground.between_logs():
            return
        database = self.consumption.database
        database.end()
        written = database.written()
        for (number, offset), many in written.items():
            most = 1 + sum(partition == number and mark <= offset for partition, mark in self.rewinds)
            if many > most:
                raise self.broken(
                    f"record {offset} of partition {number} is written {many} times, and {most} at most are due"
                )
        plan = self.consumption.plan
        for seat, state in self.folded.seats.items():
            partition = Partition.of(seat[0])
            if partition is None or partition.slot != WHOLE:
                continue
            if plan.ranges and self.untold[partition.number]:
                continue  # ranges are dealt anew, and what the row of a slot passes may be another's
            at = position(self.folded, state) if plan.ranges or plan.divided else state.mark
            for offset in self.consumption.mine(seat[0], self.left_out.get(partition.number, 0), at):
                many, least = written.get((partition.number, offset), 0), self.least.get((partition.number, offset), 1)
                if many < least:
                    raise self.broken(
                        f"{seat[0]} is at {at}, and record {offset} is written {many} times, where {least} are due"
                    )
