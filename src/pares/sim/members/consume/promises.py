"""What consumption promises, told by the log as it lands and by users' handlers in true time.

At least once: a mark passes what was done in the very term that marks it, and nothing else. At most once: no record is given
out twice, but for rewinds. A planned handover leaves nothing behind that was done. And in the end all is worked off, and
shared out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.core.consume.names import WHOLE, Partition
from pares.core.reasons import BARRIER_TIMED_OUT, UNPLANNED
from pares.core.wire.divided.keys import parts
from pares.core.wire.divided.ranges import may_rewind, position
from pares.core.wire.records import Ahead, AnyRecord, Range, Release, Rewind, Seat, Transfer, Unknown
from pares.core.wire.states import NOTHING_AHEAD, AheadState
from pares.runtime.consume.batch import Batch
from pares.runtime.consume.item import Item
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

    def given(self, process: Process, given: Batch | Item) -> None:
        """The batch, or the record, is in the hands of a handler. By a task."""

    def done(self, process: Process, given: Batch | Item) -> None:
        """The handler has done it, and is about to say so. By a task."""

    def rolled_back(self, process: Process, batch: Batch) -> None:
        """Its transaction has failed: until the next try no handover waits for the batch. By a task."""

    def again(self, process: Process, item: Item) -> None:
        """The handler is about to ask for it again. By a task."""

    def ends(self, process: Process, item: Item) -> None:
        """The handler is about to say that it is done, or given up. By a task."""

    def parked(self, partition: int, offset: int) -> None:
        """It stands in the dead-letter stream. By a task."""


def offsets_of(given: Batch | Item) -> list[int]:
    """Of the records in a handler's hands."""
    return [given.offset] if isinstance(given, Item) else [record.offset for record in given.records]


def role_of(given: Batch | Item) -> str:
    return given.tenancy.role if isinstance(given, Item) else given.term.role


class AtLeastOnce(Delivered):
    """What is done above a position counts as the position does: it was done in the term that says so, or said before."""

    name = "no position passes what was not done"

    def anew(self) -> None:
        self.kept: dict[Seat, set[int]] = {}
        """What the log says of records above positions, and is true."""
        self.said: dict[Seat, AheadState] = {}
        self.marks: dict[Seat, int] = {}
        self.tokens: dict[Seat, int] = {}
        self.known: dict[Place, int] = {}
        """Which record of the log first said of a record of the topic that it is done, of whatever seat, and was right."""

    def __init__(self, stage: ConsumeGround) -> None:
        self._done: dict[tuple[str, int], set[int]] = {}
        """By role and token: the offsets that were done in that term."""
        self._parked: set[Place] = set()
        super().__init__(stage)

    def done(self, process: Process, given: Batch | Item) -> None:
        self._done.setdefault((role_of(given), given.token), set()).update(offsets_of(given))

    def parked(self, partition: int, offset: int) -> None:
        self._parked.add((partition, offset))

    def _settled(self, seat: Seat, token: int, offset: int) -> bool:
        """Whether it was done in that term, or was known to be done when that began; or was parked."""
        partition = Partition.of(seat[0])
        return (
            offset in self._done.get((seat[0], token), ())
            or offset in self.kept.get(seat, ())
            or (partition is not None and self._known_elsewhere((partition.number, offset)))
        )

    def _known_elsewhere(self, place: Place) -> bool:
        """Parked; or known by another seat, where divisions by keys follow one another (C12)."""
        return place in self._parked or (bool(self.consumption.plan.divided) and place in self.known)

    def _rewound(self, record: Rewind) -> None:
        for role, index, mark in record.marks:
            seat, partition = self.folded.seats.get((role, index)), Partition.of(role)
            if seat is None or partition is None or not may_rewind(self.folded, seat):
                continue
            for each in (seat, *parts(self.folded, role)):
                self.kept.pop(each.seat, None)
                self.said.pop(each.seat, None)
            gone = [place for place in self.known if place[0] == partition.number and place[1] >= mark]
            for place in gone:
                del self.known[place]
            self._knows(role, self.consumption.mine(role, 0, mark))

    def _knows(self, role: str, offsets: list[int]) -> None:
        partition = Partition.of(role)
        if partition is not None:
            for offset in offsets:
                self.known.setdefault((partition.number, offset), self.folded.last)

    def given(self, process: Process, given: Batch | Item) -> None:
        """What the log knew to be done when a term began is not given out in it."""
        begun = given.token - self.folded.base
        again = [at for at in offsets_of(given) if self.known.get((given.partition, at), begun) < begun]
        if again and self.consumption.plan.delivery == "at-least-once":
            self.fail(f"{process.name} is given {again[:5]} by {role_of(given)}, done by the log when its term began")

    def _check_ahead(self, record: AnyRecord | Unknown | None) -> None:
        if isinstance(record, Rewind):
            self._rewound(record)
        if not isinstance(record, Ahead) or self.folded.ahead.get(record.seat, NOTHING_AHEAD) == self.said.get(
            record.seat
        ):
            return
        known, partition = self.folded.ahead.get(record.seat, NOTHING_AHEAD), Partition.of(record.seat[0])
        self.said[record.seat] = known
        if partition is None:
            return
        runs = [self.consumption.mine(record.seat[0], first, upto) for first, upto in known.done]
        wrong = [
            at for run in runs for at in run if not self._settled(record.seat, self.folded.seats[record.seat].token, at)
        ]
        if wrong:
            raise self.broken(
                f"{record.m} says of {record.seat[0]} that {wrong[:5]} is done, which was not in its term"
            )
        self.kept.setdefault(record.seat, set()).update(at for run in runs for at in run)
        self._knows(record.seat[0], [at for run in runs for at in run])

    def landed(self, landed: Landed) -> None:
        if not landed.counted or self.consumption.plan.delivery != "at-least-once":
            return  # what is taken and was not done is passed by the next term, as it must be
        self._check_ahead(landed.record)
        for seat, state in self.folded.seats.items():
            before, token = self.marks.get(seat, 0), self.tokens.get(seat, state.token)
            self.marks[seat], self.tokens[seat] = state.mark, state.token
            partition = Partition.of(seat[0])
            if state.mark <= before or partition is None or isinstance(landed.record, Rewind | Range):
                continue
            passed = self.consumption.mine(seat[0], before, state.mark)
            missed = [at for at in passed if not self._settled(seat, token, at)]  # the term before: a transfer ends it
            if missed:
                raise self.broken(f"the mark of {seat[0]} passes {missed[:5]}, which was not done in its term")
            self._knows(seat[0], passed)
        self._handed_over(landed)

    def _handed_over(self, landed: Landed) -> None:
        """By plan: what was done is behind the position."""
        record = landed.record
        if not isinstance(record, Release | Transfer) or record.why in UNPLANNED_ENDS:
            return
        state, done = self.folded.seats.get(record.seat), self._done.get((record.seat[0], record.token), set[int]())
        mine = any(getattr(change, "before_token", 0) == record.token for change in landed.changes)
        if state is None or not mine:
            return
        known = self.folded.ahead.get(record.seat, NOTHING_AHEAD).done
        left = [at for at in done if at >= state.mark and not any(first <= at < upto for first, upto in known)]
        if left:
            raise self.broken(
                f"{record.seat[0]} is handed over at {state.mark} without {sorted(left)[:5]}, done by then"
            )


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

    def given(self, process: Process, given: Batch | Item) -> None:
        if self.consumption.plan.delivery != "at-most-once":
            return
        for offset in offsets_of(given):
            place = (given.partition, offset)
            self._given[place] = times = self._given.get(place, 0) + 1
            again = sum(number == given.partition and mark <= offset for number, mark in self.rewinds)
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

    def given(self, process: Process, given: Batch | Item) -> None:
        plan, topic = self.consumption.plan, self.consumption.topic
        if plan.one_by_one and plan.fails:
            return  # what waits for its retry keeps back what comes after it in its order
        hands = max(plan.workers * plan.out, plan.concurrency if plan.one_by_one else 1)
        for held in self.stage.sight.of_process(process):
            partition = Partition.of(held.seat[1])
            if partition is None:
                continue
            key = (process, held.seat[1], held.token)
            state = self.folded.seats.get((held.seat[1], 0))
            waits = state is not None and self.consumption.mine(
                held.seat[1], max(state.mark, state.taken), topic.ends[partition.number]
            )
            self._others[key] = 0 if given.partition == partition.number or not waits else self._others.get(key, 0) + 1
            if self._others[key] > 10 * plan.partitions * hands + 50 and not plan.unreadable:
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
        turns = 3 * plan.partitions * max(1, *plan.divided, 1)
        if plan.most or plan.batch * plan.session_ms / each < turns * plan.records:
            return  # one consumer alone may not get through with it
        for seat, state in world.seats.items():
            partition = Partition.of(seat[0])
            if partition is None or partition.slot != WHOLE or world.paused(seat[0]):
                continue
            at = max(state.mark, state.taken) if stage.plan.delivery == "at-most-once" else state.mark
            at = position(world, state) if stage.plan.ranges or stage.plan.divided else at
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
            or plan.mixed
            or plan.weights
            or any(s.pinned or s.avoid for s in world.seats.values())
        )
        settled = self.world.now >= stage.disturbed_at + stage.patience
        if not odd and settled and max(loads.values()) - min(loads.values()) > 1:
            raise self.broken(f"partitions are not shared out within one: {loads}")
