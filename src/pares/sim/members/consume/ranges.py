"""What is promised of ranges (C11): no offset is in those of two slots, none is left out between them, each is its slot's by a
record of its holder, only its slot's consumer is given what is in it, and no position of a partition passes what was not done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.core.consume.names import WHOLE, Partition
from pares.core.wire.divided import ranges
from pares.core.wire.records import Range, Rewind
from pares.core.wire.states import Run
from pares.runtime.consume.batch import Batch
from pares.runtime.consume.item import Item
from pares.sim.members.claims.judge import Landed
from pares.sim.members.consume.promises import Delivered, offsets_of, role_of

if TYPE_CHECKING:
    from pares.sim.members.consume.ground import ConsumeGround
    from pares.sim.world.process import Process


class Ranges(Delivered):
    name = "a range is one slot's, and none is left out"

    def anew(self) -> None:
        self._runs: dict[str, list[Run]] = {}
        """By the role of a slot: all that it was given, since the last rewind."""
        self._ends: dict[str, int] = {}
        """By the role of a partition: where its ranges end."""
        self._passed: dict[str, int] = {}
        """The position of a partition that was looked at last."""

    def __init__(self, stage: ConsumeGround) -> None:
        self._ever: dict[str, list[Run]] = {}
        self._settled: set[tuple[int, int]] = set()
        """(partition, offset): done, or parked, in whatever term."""
        super().__init__(stage)

    def owned(self, role: str, offsets: list[int]) -> list[int]:
        """Those of them that are in the slot's ranges."""
        runs = self._runs.get(role, [])
        return [at for at in offsets if any(first <= at < upto for first, upto in runs)]

    def landed(self, landed: Landed) -> None:
        if not landed.counted or not self.consumption.plan.ranges:
            return
        record = landed.record
        if isinstance(record, Rewind):
            for role, _, _ in record.marks:
                self._rewound(role)
        elif isinstance(record, Range):
            self._ranged(record)
        for seat, state in self.folded.seats.items():
            partition = Partition.of(seat[0])
            if partition is not None and partition.slot == WHOLE:
                self._check_position(seat[0], partition.number, ranges.position(self.folded, state))

    def _rewound(self, role: str) -> None:
        """Of a rewind that has had its effect."""
        world = self.folded
        slots = list(ranges.slots(world, role))
        if (role, 0) in world.seats and not any(slot.seat in world.ranges for slot in slots):
            for slot in slots:
                self._runs.pop(slot.role, None)
            self._ends[role] = self._passed[role] = world.seats[role, 0].mark

    def _ranged(self, record: Range) -> None:
        role, world = record.seat[0], self.folded
        runs, found = world.ranges.get(record.seat, ()), Partition.of(role)
        mine = self._runs.setdefault(role, [])
        if found is None or not runs or (mine and runs[-1] == mine[-1]):
            return
        first, upto = runs[-1]
        seat, end = world.seats[record.seat], self._ends.get(found.whole.role, 0)
        if (seat.holder, seat.token) != (record.m, record.token):
            raise self.broken(f"{record.m} is given {first}..{upto} for {role}, which it does not hold by that token")
        if first < end:
            raise self.broken(f"{role} is given {first}..{upto}, and ranges go up to {end} by now")
        if first > end and (record.over, record.to) != (end, first):
            raise self.broken(f"{role} is given {first}..{upto}, and {end}..{first} is left out")
        mine.append((first, upto))
        self._ever.setdefault(role, []).append((first, upto))
        self._ends[found.whole.role] = upto

    def _check_position(self, role: str, number: int, position: int) -> None:
        before = self._passed.get(role, 0)
        self._passed[role] = position
        if position <= before or self.consumption.plan.delivery != "at-least-once":
            return
        passed = self.consumption.topic.between(number, before, position)
        missed = [at for at in passed if (number, at) not in self._settled]
        if missed:
            raise self.broken(f"the position of {role} passes {missed[:5]}, which was never done")

    def done(self, process: Process, given: Batch | Item) -> None:
        self._settled.update((given.partition, at) for at in offsets_of(given))

    def parked(self, partition: int, offset: int) -> None:
        self._settled.add((partition, offset))

    def given(self, process: Process, given: Batch | Item) -> None:
        if not self.consumption.plan.ranges:
            return
        role = role_of(given)
        wrong = [at for at in offsets_of(given) if not any(a <= at < b for a, b in self._ever.get(role, ()))]
        if wrong:
            self.fail(f"{process.name} is given {wrong[:5]} by {role}, which was never given that range")
