"""What consumption promises, told by the log as it lands and by users' handlers in true time.

At least once: a mark passes what was done in the very term that marks it, and nothing else. At most once: no record is given
out twice, but for rewinds. A planned handover leaves nothing behind that was done. And in the end all is worked off, and
shared out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.core.consume.names import Partition
from pares.core.reasons import BARRIER_TIMED_OUT, UNPLANNED
from pares.core.wire.records import Release, Rewind, Seat, Transfer
from pares.runtime.consume.batch import Batch
from pares.sim.engine import MS
from pares.sim.members.claims.judge import Landed
from pares.sim.members.claims.records.base import OfRecords

if TYPE_CHECKING:
    from pares.sim.members.consume.ground import ConsumeGround
    from pares.sim.world.process import Process

Place = tuple[int, int]
"""Partition, offset."""
UNPLANNED_ENDS: Final = UNPLANNED | {BARRIER_TIMED_OUT}


class Delivered(OfRecords):
    """A promise that users' handlers tell what they are given, and what they are done with."""

    def __init__(self, stage: ConsumeGround) -> None:
        super().__init__(stage)
        self.consumption = stage

    def given(self, process: Process, batch: Batch) -> None:
        """The batch is in the hands of a handler. By a task."""

    def done(self, process: Process, batch: Batch) -> None:
        """The handler has done it, and is about to say so. By a task."""


class AtLeastOnce(Delivered):
    name = "no position passes what was not done"

    def anew(self) -> None:
        self.marks: dict[Seat, int] = {}
        self.tokens: dict[Seat, int] = {}

    def __init__(self, stage: ConsumeGround) -> None:
        self._done: dict[tuple[str, int], set[int]] = {}
        """By role and token: the offsets that were done in that term."""
        super().__init__(stage)

    def done(self, process: Process, batch: Batch) -> None:
        done = self._done.setdefault((batch.term.role, batch.token), set())
        done.update(record.offset for record in batch.records)

    def landed(self, landed: Landed) -> None:
        if not landed.counted or self.consumption.plan.delivery != "at-least-once":
            return  # what is taken and was not done is passed by the next term, as it must be
        for seat, state in self.folded.seats.items():
            before, token = self.marks.get(seat, 0), self.tokens.get(seat, state.token)
            self.marks[seat], self.tokens[seat] = state.mark, state.token
            partition = Partition.of(seat[0])
            if state.mark <= before or partition is None or isinstance(landed.record, Rewind):
                continue
            done = self._done.get((seat[0], token), set[int]())  # of the term before: a transfer ends it
            missed = [
                at for at in self.consumption.topic.between(partition.number, before, state.mark) if at not in done
            ]
            if missed:
                raise self.broken(f"the mark of {seat[0]} passes {missed[:5]}, which was not done in its term")
        self._handed_over(landed)

    def _handed_over(self, landed: Landed) -> None:
        """By plan: what was done is behind the position."""
        record = landed.record
        if not isinstance(record, Release | Transfer) or record.why in UNPLANNED_ENDS:
            return
        state, done = self.folded.seats.get(record.seat), self._done.get((record.seat[0], record.token), set[int]())
        mine = any(getattr(change, "before_token", 0) == record.token for change in landed.changes)
        if state is not None and mine and state.mark in done:
            raise self.broken(f"{record.seat[0]} is handed over at {state.mark}, which was done by then")


class AtMostOnce(Delivered):
    name = "no record is given out twice"

    def anew(self) -> None:
        self.rewinds: list[Place] = []

    def __init__(self, stage: ConsumeGround) -> None:
        self._given: dict[Place, int] = {}
        super().__init__(stage)

    def landed(self, landed: Landed) -> None:
        if not landed.counted or not isinstance(landed.record, Rewind):
            return
        for role, _, mark in landed.record.marks:
            partition = Partition.of(role)
            if partition is not None:
                self.rewinds.append((partition.number, mark))

    def given(self, process: Process, batch: Batch) -> None:
        if self.consumption.plan.delivery != "at-most-once":
            return
        for record in batch.records:
            place = (batch.partition, record.offset)
            self._given[place] = times = self._given.get(place, 0) + 1
            again = sum(number == batch.partition and mark <= record.offset for number, mark in self.rewinds)
            if times > 1 + again:
                self.fail(f"{process.name} is given {place}, which has been given out {times - 1} times before")


class Fair(Delivered):
    name = "no partition waits for others"

    def anew(self) -> None:
        """It is about processes, and not about records."""

    def __init__(self, stage: ConsumeGround) -> None:
        self._others: dict[tuple[Process, str, int], int] = {}
        """By process and term: batches of other partitions that were given out since there was work waiting in it."""
        super().__init__(stage)

    def given(self, process: Process, batch: Batch) -> None:
        plan, topic = self.consumption.plan, self.consumption.topic
        for held in self.stage.sight.of_process(process):
            partition = Partition.of(held.seat[1])
            if partition is None:
                continue
            key = (process, held.seat[1], held.token)
            state = self.folded.seats.get((held.seat[1], 0))
            waits = state is not None and topic.between(
                partition.number, max(state.mark, state.taken), topic.ends[partition.number]
            )
            self._others[key] = 0 if batch.partition == partition.number or not waits else self._others.get(key, 0) + 1
            if self._others[key] > 10 * plan.partitions * plan.workers * plan.out + 50 and not plan.unreadable:
                self.fail(f"{process.name} is given other batches again and again, and none of {held.seat[1]}")


class WorkedOff(Delivered):
    """When the calm has lasted: every record was done, or taken, and partitions are shared out as consumers asked for it."""

    name = "all is worked off, and shared out"

    def end(self) -> None:
        stage, world = self.consumption, self.folded
        if self.ground.between_logs():
            return
        able = [user for user in stage.own if stage.able(user, stage.patience)]
        if not able or any(user.running and user not in able for user in stage.own):
            return
        if not all(self.ground.quick(user) for user in able):
            return
        self._shared([user.member.id for user in able])
        plan = stage.plan
        each = plan.step_ms + 6 * stage.trip / MS + 10
        if plan.most or plan.batch * plan.session_ms / each < 3 * plan.partitions * plan.records:
            return  # one consumer alone may not get through with it
        for seat, state in world.seats.items():
            partition = Partition.of(seat[0])
            if partition is None or world.paused(seat[0]):
                continue
            at = max(state.mark, state.taken) if stage.plan.delivery == "at-most-once" else state.mark
            left = stage.topic.between(partition.number, at, stage.topic.ends[partition.number])
            if left:
                raise self.broken(
                    f"{len(left)} records of {seat[0]} are left from {at} on, and nothing hindered anybody"
                )

    def _shared(self, members: list[str]) -> None:
        stage, world = self.consumption, self.folded
        plan = stage.plan
        if world.pauses:
            return
        loads = {id: len(world.held.get(id, ())) for id in members}
        most = {
            user.member.id: plan.most[user.place % plan.members] if plan.most else 0
            for user in stage.own
            if user.member
        }
        for id, load in loads.items():
            if most[id] and load > (most[id] if not plan.whole else plan.partitions):
                raise self.broken(f"{id} holds {load} partitions and takes {most[id]} at most")
        odd = (
            plan.most
            or plan.greedy
            or plan.whole
            or plan.weights
            or any(s.pinned or s.avoid for s in world.seats.values())
        )
        settled = self.world.now >= stage.disturbed_at + stage.patience
        if not odd and settled and max(loads.values()) - min(loads.values()) > 1:
            raise self.broken(f"partitions are not shared out within one: {loads}")
