"""Rules of consumption, broken on purpose."""

from __future__ import annotations

from typing import Any, Final

from pares.core import events as ev
from pares.core.claims.silence import Stopwatches
from pares.core.claims.tick import Living
from pares.core.consume import protocol as consuming
from pares.core.consume.lanes import Lanes
from pares.core.consume.progress import Progress, Span
from pares.core.wire import fold
from pares.core.wire.ahead import state_of
from pares.core.wire.divided import ranges
from pares.core.wire.records import Ahead, Range, Rewind
from pares.core.wire.world import World
from pares.runtime.consume.desk import Desk
from pares.runtime.consume.kit import Seated
from pares.sim.members.consume.biases import AT_LEAST, AT_MOST, FROZEN, ONE_BY_ONE, RANGES
from pares.sim.members.consume.mutants_keys import OF_KEYS
from pares.sim.members.consume.mutants_serving import OF_SERVING
from pares.sim.members.consume.transactions.mutants import OF_TRANSACTIONS
from pares.sim.mutant import Mutant, Patch


def _given_out_before_read_back() -> list[Patch]:
    whole = consuming.Consume.step

    def step(self: Any, event: Any, now: int) -> Any:
        told = [ev.Taken(event.seat, event.token, event.last + 1)] if isinstance(event, ev.Took) else []
        return whole(self, event, now) + told

    return [(consuming.Consume, "step", step)]


def _take_without_token() -> list[Patch]:
    def again(self: Any, changes: Any) -> Any:
        found: list[ev.Effect] = []
        for took in list(self.living.taking):
            state = self.reader.world.seats.get(took.seat)
            if state is not None and state.taken >= took.last + 1:
                del self.living.taking[took]
                found.append(ev.Taken(took.seat, took.token, took.last + 1))
        return found

    return [(consuming.Consume, "_taken", again)]


def _taken_with_the_first() -> list[Patch]:
    """Of several takes of one term that are under way, all count as soon as one does."""
    whole = consuming.Consume._taken  # pyright: ignore[reportPrivateUsage]

    def taken(self: Any, changes: Any) -> Any:
        found = whole(self, changes)
        terms = {(word.seat, word.token) for word in found if isinstance(word, ev.Taken)}
        for took in [took for took in self.living.taking if (took.seat, took.token) in terms]:
            del self.living.taking[took]
            found.append(ev.Taken(took.seat, took.token, took.last + 1))
        return found

    return [(consuming.Consume, "_taken", taken)]


def _begins_at_the_mark_alone() -> list[Patch]:
    def begins(self: Any, lead: ev.Lead) -> ev.Begins:
        return ev.Begins(lead.seat, lead.token, self.reader.world.seats[lead.seat].mark, False)

    return [(consuming.Consume, "_begins", begins)]


def _zombie_marks() -> list[Patch]:
    def marks(world: Any, told: Any) -> None:
        for role, index, _, mark in [mark for record in told for mark in record.marks or ()]:
            state = world.seats.get((role, index))
            if state is not None and mark > state.mark:
                state.mark = mark
                world.marked(state.seat)

    return [(World, "raise_marks", marks)]


def _living_name_resumed() -> list[Patch]:
    whole = Stopwatches.claimable_at

    def claimable_at(self: Any, seat: Any, holder: Any) -> int:
        return 0 if holder.name == self.me.rpartition("~")[0] else whole(self, seat, holder)

    silent = Stopwatches.silent_at

    def silent_at(self: Any, member: Any) -> int:
        return 0 if member.name == self.me.rpartition("~")[0] and member.id != self.me else silent(self, member)

    return [(Stopwatches, "claimable_at", claimable_at), (Stopwatches, "silent_at", silent_at)]


def _release_loses_position() -> list[Patch]:
    return [(Living, "_mark_of", lambda self, tenure: None)]


def _rewind_without_a_pause() -> list[Patch]:
    def rewind(world: Any, offset: int, member: Any, record: Rewind, changes: Any) -> None:
        for role, index, mark in record.marks:
            seat = world.seats.get((role, index))
            if seat is not None:
                seat.mark = seat.taken = mark
                world.marked(seat.seat)

    return [(fold.EFFECTS, Rewind, rewind)]  # type: ignore[list-item]


def _done_out_of_turn() -> list[Patch]:
    def done(self: Progress, span: Span) -> bool:
        before, self.position = self.position, max(self.position, span.next)
        return self.position > before

    return [(Progress, "done", done)]


def _marks_what_is_given_out() -> list[Patch]:
    note = Seated.note

    def ahead(self: Any, event: ev.Marked) -> None:
        note(self, ev.Marked(event.seat, event.token, event.mark + 1))

    return [(Seated, "note", ahead)]


def _handed_over_at_once() -> list[Patch]:
    """No handover waits for batches that are out."""
    from pares.runtime.work.barriers import Barriers

    return [(Barriers, "begin", lambda self, key, thread=None: None), (Barriers, "finish", lambda self, body: None)]


def _ahead_of_any_term() -> list[Patch]:
    whole = fold.EFFECTS[Ahead]

    def ahead(world: Any, offset: int, member: Any, record: Ahead, changes: Any) -> None:
        seat = world.seats.get(record.seat)
        if seat is not None and (seat.holder, seat.token) != (member.id, record.token):
            world.keep(record.seat, state_of(record))
        whole(world, offset, member, record, changes)

    return [(fold.EFFECTS, Ahead, ahead)]  # type: ignore[list-item]


def _ahead_survives_a_rewind() -> list[Patch]:
    def rewound(self: World, seat: Any, position: int) -> None:
        seat.mark = seat.taken = position
        self.marked(seat.seat)

    return [(World, "rewound", rewound)]


def _released_without_what_is_ahead() -> list[Patch]:
    return [(consuming.Consuming, "_give_up", Living._give_up)]  # pyright: ignore[reportPrivateUsage]


def _given_out_is_done() -> list[Patch]:
    def ahead(self: Progress) -> tuple[tuple[int, int], ...]:
        return ((self.position + 1, self.next),) if self.next > self.position + 1 else ()

    return [(Progress, "ahead", ahead)]


def _no_lanes() -> list[Patch]:
    return [(Lanes, "lane_of", lambda self, offset, key: offset)]


def _deliveries_forgotten() -> list[Patch]:
    whole = Lanes.add

    def add(self: Any, offset: int, key: Any, value: Any, tries: int = 0) -> None:
        whole(self, offset, key, value)

    return [(Lanes, "add", add)]


def _retried_for_ever() -> list[Patch]:
    def retry(self: Any, item: Any, after: float | None, why: str) -> bool:
        return self._settle(item, lambda item: self._again(item, self._pause(item)))

    return [(Desk, "retry", retry)]


def _done_before_it_is_parked() -> list[Patch]:
    def reject(self: Any, item: Any, why: str) -> bool:
        counts = self._settle(item, self._is_done)
        self.member.perform(ev.Flush())
        self._letters.write(item.tenancy.term, item.entry.value[0], self.member.group, why, item.deliveries)
        return counts

    return [(Desk, "reject", reject)]


def _ranges_overlap() -> list[Patch]:
    return [(ranges, "frontier", lambda world, whole: whole.taken)]


def _position_past_a_hole() -> list[Patch]:
    return [(ranges, "position", ranges.frontier)]


def _taken_over_without_its_ranges() -> list[Patch]:
    def owns(self: Any, seat: Any, token: int) -> ev.Owns:
        return ev.Owns(seat, token, self.reader.world.ranges.get(seat, ())[-1:])

    return [(consuming.Consume, "_owns", owns)]


def _range_of_any_term() -> list[Patch]:
    whole = fold.EFFECTS[Range]

    def given(world: Any, offset: int, member: Any, record: Range, changes: Any) -> None:
        seat = world.seats.get(record.seat)
        if seat is not None and (seat.holder, seat.token) != (member.id, record.token):
            ranges.allot(world, seat, record)
        whole(world, offset, member, record, changes)

    return [(fold.EFFECTS, Range, given)]  # type: ignore[list-item]


def _rewound_beside_a_holder() -> list[Patch]:
    return [(fold, "may_rewind", lambda world, seat: world.paused(seat.role))]


CONSUME: Final = (
    Mutant(
        "taken-not-read-back",
        "C4",
        "a batch is given out when its take is asked for, and not when that was read back",
        _given_out_before_read_back,
        {**AT_MOST, "faults": {**FROZEN, "mute": 2.0, "cut": 2.0}},
    ),
    Mutant(
        "taken-by-anybody",
        "C4",
        "a take counts as one's own when that far is taken, by whichever term",
        _take_without_token,
        {**AT_MOST, "faults": {"freeze": 2.0, "freeze_at": 3.0, "mute": 3.0, "one_way": 3.0, "cut": 3.0}},
    ),
    Mutant(
        "taken-with-the-first",
        "C4",
        "takes that are written ahead count when the first of them was read back",
        _taken_with_the_first,
        {
            **AT_MOST,
            "ahead": 4,
            "batch": 1,
            "faults": {"freeze": 2.0, "crash": 2.0, "mute": 2.0},
            "weather": {"torn": 0.2, "split": 0.2},
        },
    ),
    Mutant(
        "term-begins-at-the-mark",
        "C2",
        "what is taken and not marked is given out again",
        _begins_at_the_mark_alone,
        {**AT_MOST, "faults": {"crash": 3.0, "freeze": 2.0}, "records": 5.0, "batch": 10, "step_ms": 1.0},
    ),
    Mutant(
        "zombie-marks",
        "R15",
        "marks of an earlier term move the position of its successor",
        _zombie_marks,
        {**AT_LEAST, "faults": {"mute": 3.0, "cut": 3.0, "freeze": 1.0}, "weather": {"unknown": 0.2, "slow": 0.2}},
    ),
    Mutant(
        "living-name-resumed",
        "R8",
        "a consumer takes up what its name holds, though that one lives",
        _living_name_resumed,
        {**AT_LEAST, "faults": {"twin": 4.0}},
    ),
    Mutant(
        "release-loses-the-position",
        "R5",
        "a term is given up without its last mark",
        _release_loses_position,
        {**AT_LEAST, "faults": {"close": 1.0}, "acts": {"step_down": 2.0, "hand_over": 2.0}},
    ),
    Mutant(
        "rewind-without-a-pause",
        "C5",
        "positions move under a holder",
        _rewind_without_a_pause,
        {**AT_LEAST, "faults": {"rate": 1.0}, "acts": {"rewind": 3.0}, "act_pace": 1.0},
    ),
    Mutant(
        "done-out-of-turn",
        "C3",
        "the position goes to the end of whatever batch is done",
        _done_out_of_turn,
        {**AT_LEAST, "faults": {"rate": 1.0}, "out": 3, "batch": 1},
    ),
    Mutant(
        "marks-ahead",
        "C3",
        "the mark is one record ahead of what is done",
        _marks_what_is_given_out,
        {**AT_LEAST, "faults": {"rate": 1.0}, "records": 20.0, "batch": 1},
    ),
    Mutant(
        "no-handover-waits-for-batches",
        "R5",
        "a partition is handed over while its batches are out",
        _handed_over_at_once,
        {**AT_LEAST, "faults": {"close": 1.0}, "acts": {"step_down": 3.0, "hand_over": 3.0}, "act_pace": 1.0},
    ),
    Mutant(
        "ahead-of-any-term",
        "C9",
        "what a term that is over says is done above a position changes what its successor has said",
        _ahead_of_any_term,
        {**ONE_BY_ONE, "faults": {"mute": 3.0, "cut": 3.0, "freeze": 2.0}, "weather": {"unknown": 0.2, "slow": 0.2}},
    ),
    Mutant(
        "ahead-survives-a-rewind",
        "C5",
        "what was done above a position is not done again after a rewind",
        _ahead_survives_a_rewind,
        {**ONE_BY_ONE, "faults": {"rate": 1.0}, "acts": {"rewind": 3.0}, "act_pace": 1.0},
    ),
    Mutant(
        "released-without-what-is-ahead",
        "C9",
        "a term is given up without what is done above its position",
        _released_without_what_is_ahead,
        {**ONE_BY_ONE, "faults": {"close": 1.0}, "acts": {"step_down": 2.0, "hand_over": 2.0}},
    ),
    Mutant(
        "given-out-is-done",
        "C9",
        "what is given out above the position is written down as done",
        _given_out_is_done,
        {**ONE_BY_ONE, "faults": {"rate": 1.0}},
    ),
    Mutant(
        "no-lanes",
        "C9",
        "records of a key are given out beside one another",
        _no_lanes,
        {**ONE_BY_ONE, "faults": {"rate": 1.0}, "order": "key"},
    ),
    Mutant(
        "deliveries-forgotten",
        "C10",
        "a term counts deliveries from 0, whatever the log says",
        _deliveries_forgotten,
        {**ONE_BY_ONE, "faults": {"close": 1.0}, "acts": {"step_down": 2.0}},
    ),
    Mutant(
        "retried-for-ever",
        "C10",
        "a record that is never done is given out again and again",
        _retried_for_ever,
        {**ONE_BY_ONE, "faults": {"rate": 1.0}, "fails": 0.5, "retries": 0},
    ),
    Mutant(
        "done-before-it-is-parked",
        "C10",
        "a record that is given up is done before it stands in the dead-letter stream",
        _done_before_it_is_parked,
        {**ONE_BY_ONE, "faults": {"crash": 2.0}, "rejects": 0.3},
    ),
    Mutant(
        "ranges-overlap",
        "C11",
        "a range begins where another slot's lies",
        _ranges_overlap,
        {**RANGES, "faults": {"rate": 1.0}},
    ),
    Mutant(
        "zombie-marks-ranges",
        "C11",
        "a slot's last holder marks what its successor works on",
        _zombie_marks,
        {**RANGES, "faults": {"mute": 3.0, "cut": 3.0, "freeze": 1.0}, "weather": {"unknown": 0.2, "slow": 0.2}},
    ),
    Mutant(
        "position-past-a-hole",
        "C11",
        "a partition's position is where its ranges end",
        _position_past_a_hole,
        {**RANGES, "faults": {"rate": 1.0}},
    ),
    Mutant(
        "taken-over-without-its-ranges",
        "C11",
        "the next holder of a slot is told of the last of its ranges alone",
        _taken_over_without_its_ranges,
        {**RANGES, "faults": {"crash": 3.0, "freeze": 1.0}, "step_ms": 5.0},
    ),
    Mutant(
        "range-of-any-term",
        "C11",
        "a slot is given a range by a member that does not hold it any more",
        _range_of_any_term,
        {**RANGES, "faults": {"mute": 3.0, "cut": 3.0, "freeze": 2.0}, "weather": {"unknown": 0.2, "slow": 0.2}},
    ),
    Mutant(
        "rewound-beside-a-holder",
        "C11",
        "a partition begins anew while a slot of it is held",
        _rewound_beside_a_holder,
        {**RANGES, "faults": {"freeze": 3.0, "cut": 2.0}, "acts": {"rewind": 3.0}, "act_pace": 1.0},
    ),
)
MUTANTS: Final = {mutant.name: mutant for mutant in (*CONSUME, *OF_SERVING, *OF_KEYS, *OF_TRANSACTIONS)}
