"""What is promised of records that are given out one by one: order, and that deliveries are counted (C9, C10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.core.wire.records import Rewind, Seat
from pares.runtime.consume.batch import Batch
from pares.runtime.consume.item import Item
from pares.sim.members.claims.judge import Landed
from pares.sim.members.consume.promises import Delivered

if TYPE_CHECKING:
    from pares.sim.members.consume.ground import ConsumeGround
    from pares.sim.world.process import Process

Tenure = tuple["Process", str, int]
"""One term of one process."""


def term_of(process: Process, item: Item) -> Tenure:
    return (process, item.tenancy.role, item.token)


class InOrder(Delivered):
    """In one term, of what is in order one is out at a time, and none before one that comes before it is settled."""

    name = "one of a lane at a time, and in order"

    def anew(self) -> None:
        """It is about processes, and not about records."""

    def __init__(self, stage: ConsumeGround) -> None:
        self._out: dict[tuple[Tenure, object], int] = {}
        self._last: dict[tuple[Tenure, object], int] = {}
        self._again: dict[tuple[Tenure, object], int] = {}
        super().__init__(stage)

    def _lane(self, process: Process, item: Item) -> tuple[Tenure, object] | None:
        order = self.consumption.plan.order
        keyless = order == "key" and item.key is None
        return None if order == "none" or keyless else (term_of(process, item), item.key if order == "key" else None)

    def given(self, process: Process, given: Batch | Item) -> None:
        lane = self._lane(process, given) if isinstance(given, Item) else None
        if lane is None or not isinstance(given, Item):
            return
        if lane in self._out:
            self.fail(f"{process.name} is given {given!r} while {self._out[lane]} of the same lane is out")
        if given.offset <= self._last.get(lane, -1):
            self.fail(f"{process.name} is given {given!r} after {self._last[lane]} of the same lane")
        if self._again.pop(lane, given.offset) != given.offset:
            self.fail(f"{process.name} is given {given!r}, and what came before it waits for its retry")
        self._out[lane] = given.offset

    def again(self, process: Process, item: Item) -> None:
        lane = self._lane(process, item)
        if lane is not None:
            del self._out[lane]
            if item.deliveries <= self.consumption.plan.retries:
                self._again[lane] = item.offset
            else:
                self._last[lane] = item.offset

    def ends(self, process: Process, item: Item) -> None:
        lane = self._lane(process, item)
        if lane is not None:
            del self._out[lane]
            self._last[lane] = item.offset


class Counted(Delivered):
    """No delivery that the log knows of is forgotten, and none follows in a term after the last retry."""

    name = "deliveries are counted, and end"

    def anew(self) -> None:
        self._before: dict[tuple[Seat, int], dict[int, int]] = {}
        """By seat and token: what the log knew when the term began."""

    def __init__(self, stage: ConsumeGround) -> None:
        self._given: dict[tuple[Tenure, int], int] = {}
        super().__init__(stage)

    def landed(self, landed: Landed) -> None:
        if not landed.counted or isinstance(landed.record, Rewind):
            return
        for seat, state in self.folded.seats.items():
            if state.holder is not None and (seat, state.token) not in self._before:
                known = self.folded.ahead.get(seat)
                self._before[seat, state.token] = dict(known.tries) if known is not None else {}

    def given(self, process: Process, given: Batch | Item) -> None:
        if not isinstance(given, Item) or self.consumption.plan.delivery != "at-least-once":
            return
        term = term_of(process, given)
        known = self._before.get(((given.tenancy.role, 0), given.token), {}).get(given.offset, 0)
        times = self._given[term, given.offset] = self._given.get((term, given.offset), 0) + 1
        if given.deliveries != known + times:
            self.fail(
                f"{process.name} is told of {given!r}, and it was given out {known} times before the term, {times} in it"
            )
        if times > self.consumption.plan.retries + 1:
            self.fail(f"{process.name} is given {given!r}, the {times}th time in its term")
