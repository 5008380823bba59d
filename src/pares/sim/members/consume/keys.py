"""What is promised of slots of keys (C12): seats of one division of a partition are held at a time, a consumer is given records
of its slots only, no key is with two handlers at once unless a term ended unplanned, and a key is in order over all consumers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.core.consume.names import WHOLE, Partition, place_of
from pares.core.wire.changes import SeatChanged
from pares.core.wire.divided.ranges import may_rewind
from pares.core.wire.records import Release, Rewind, Transfer
from pares.runtime.consume.batch import Batch
from pares.runtime.consume.item import Item
from pares.sim.members.claims.judge import Landed
from pares.sim.members.consume.promises import UNPLANNED_ENDS, Delivered, Place, offsets_of, role_of
from pares.sim.members.consume.topic import SimTopic

if TYPE_CHECKING:
    from pares.sim.members.consume.ground import ConsumeGround
    from pares.sim.world.process import Process

KeyOf = tuple[int, bytes]
"""Partition, key."""
Term = tuple[str, int]
"""Role, token."""


def belonging(topic: SimTopic, partition: Partition, offsets: list[int]) -> list[int]:
    """Those that belong to a slot of keys."""
    return [at for at in offsets if place_of(topic.key_of(at), at) % partition.keys == partition.slot]


class Keyed(Delivered):
    name = "a key is one slot's, with one handler, and in order"

    def anew(self) -> None:
        self._planned: dict[Term, bool] = {}
        """How terms have ended."""

    def __init__(self, stage: ConsumeGround) -> None:
        self._out: dict[KeyOf, dict[tuple[Process, Term], int]] = {}
        """Records that are in the hands of handlers."""
        self._given: dict[KeyOf, set[int]] = {}
        self._settled: set[Place] = set()
        self._from: dict[int, int] = {}
        """By partition: records before it were passed over by a rewind."""
        super().__init__(stage)

    @property
    def _ordered(self) -> bool:
        """Whether all consumers keep keys in order: of a whole partition several batches may be out."""
        plan = self.consumption.plan
        return bool(plan.divided) and (plan.one_by_one or 0 not in plan.divided)

    # What the log says ---------------------------------------------------------------------------------------------------

    def landed(self, landed: Landed) -> None:
        if not landed.counted or not self.consumption.plan.divided:
            return
        record = landed.record
        for change in landed.changes:
            if type(change) is SeatChanged and change.before is not None:
                planned = isinstance(record, Release | Transfer) and record.why not in UNPLANNED_ENDS
                self._planned[change.seat[0], change.before_token] = planned
        if isinstance(record, Rewind):
            self._rewound(record)
        if landed.changes:
            self._check_divisions()

    def _check_divisions(self) -> None:
        held: dict[str, Partition] = {}
        for seat in self.folded.seats.values():
            partition = Partition.of(seat.role)
            if partition is None or seat.holder is None:
                continue
            other = held.setdefault(partition.whole.role, partition)
            if other.keys != partition.keys:
                raise self.broken(f"{other.role} and {partition.role} are held at once")

    def _rewound(self, record: Rewind) -> None:
        for role, index, mark in record.marks:
            seat, partition = self.folded.seats.get((role, index)), Partition.of(role)
            if seat is None or partition is None or not may_rewind(self.folded, seat):
                continue
            number = partition.number
            self._from[number] = mark
            self._settled = {place for place in self._settled if place[0] != number or place[1] < mark}
            for key in [key for key in self._given if key[0] == number]:
                self._given[key] = {at for at in self._given[key] if at < mark}

    # What handlers say -----------------------------------------------------------------------------------------------------

    def _keys(self, given: Batch | Item) -> dict[KeyOf, list[int]]:
        found: dict[KeyOf, list[int]] = {}
        for at in offsets_of(given):
            key = self.consumption.topic.key_of(at)
            if key is not None:
                found.setdefault((given.partition, key), []).append(at)
        return found

    def given(self, process: Process, given: Batch | Item) -> None:
        if not self.consumption.plan.divided:
            return
        self._check_slot(process, given)
        if not self._ordered:
            return
        term = (role_of(given), given.token)
        for key, offsets in self._keys(given).items():
            self._check_alone(process, given, key, term)
            self._out.setdefault(key, {})[process, term] = offsets[-1]
            known = self._given.setdefault(key, set())
            for at in offsets:
                if at not in known and at >= self._from.get(given.partition, 0):
                    self._check_turn(process, key, at, offsets)
                known.add(at)

    def _check_slot(self, process: Process, given: Batch | Item) -> None:
        partition, offsets = Partition.of(role_of(given)), offsets_of(given)
        if partition is None or partition.slot == WHOLE:
            return
        wrong = sorted(set(offsets) - set(belonging(self.consumption.topic, partition, offsets)))
        if wrong:
            self.fail(f"{process.name} is given {wrong[:5]} by {partition.role}, which belong to other slots")

    def _check_alone(self, process: Process, given: Batch | Item, key: KeyOf, term: Term) -> None:
        for (other, before), at in self._out.get(key, {}).items():
            if (other, before) == (process, term):
                self.fail(f"{process.name} is given {given!r} while {at} of the same key {key} is out")
            if not other.alive or other.killed:
                continue
            if before not in self._planned:
                self.fail(
                    f"{process.name} is given {given!r}, and {before} of {other.name} has not ended, which has {at}"
                )
            if self._planned[before]:
                self.fail(
                    f"{process.name} is given {given!r}, and {other.name} handed {before} over with {at} in flight"
                )

    def _check_turn(self, process: Process, key: KeyOf, at: int, together: list[int]) -> None:
        """It is given out for the first time."""
        topic, number = self.consumption.topic, key[0]
        if self.consumption.plan.delivery == "at-most-once":
            late = [other for other in self._given.get(key, ()) if other > at]
            if late:
                self.fail(f"{process.name} is given {at} of key {key} for the first time after {late[:5]}")
            return
        before = [
            other for other in topic.between(number, self._from.get(number, 0), at) if topic.key_of(other) == key[1]
        ]
        left = [other for other in before if other not in together and (number, other) not in self._settled]
        if left:
            self.fail(f"{process.name} is given {at} of key {key}, and {left[:5]} of it was not done before")

    def _is_over(self, process: Process, given: Batch | Item) -> None:
        for key in self._keys(given) if self._ordered else ():
            self._out.get(key, {}).pop((process, (role_of(given), given.token)), None)

    def done(self, process: Process, given: Batch | Item) -> None:
        self._settled.update((given.partition, at) for at in offsets_of(given))
        self._is_over(process, given)

    def rolled_back(self, process: Process, batch: Batch) -> None:
        self._is_over(process, batch)

    def again(self, process: Process, item: Item) -> None:
        self._is_over(process, item)

    def ends(self, process: Process, item: Item) -> None:
        self._is_over(process, item)

    def parked(self, partition: int, offset: int) -> None:
        self._settled.add((partition, offset))
