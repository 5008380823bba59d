"""Ranges of offsets (C11): which slot owns which, by the log's order alone; how many are claimed, and when."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from core_authors import Paper, Pen, began, world_of
from core_driver import Solo, once
from hypothesis import given
from hypothesis import strategies as st
from test_core_consuming import consumer, told

from pares.core import events as ev
from pares.core.consume.names import Partition, Terms, tag_of
from pares.core.consume.ranging import FIRST, LARGEST, Ranges, Sizes
from pares.core.consume.sharing import share
from pares.core.lease import MS
from pares.core.wire import records as R
from pares.core.wire.divided.ranges import MAX_OPEN, frontier, may_rewind, position, undone
from pares.core.wire.divided.siblings import part_of
from pares.core.wire.states import AheadState
from pares.core.wire.world import World

WHOLE = Partition("orders", tag_of("orders:1"), 0)
SLOTS = [slot.role for slot in WHOLE.slots(3)]
S0 = (SLOTS[0], 0)
LABELS = Terms(frozenset({"orders"}), ranges=True).labels()
TERMS = Terms(frozenset({"orders"}), ranges=True)


def shared(*, reads: int = 2) -> tuple[Paper, Pen, Pen, list[int]]:
    """A log with a partition of three slots, of which `b~1` holds the first two and `c~1` the last; and their tokens."""
    fields: dict[str, Any] = {"labels": LABELS, "eligible": None, "reads": reads}
    paper, [b, c] = began("b~1", "c~1", roles=(WHOLE.role, *SLOTS), **fields)
    tokens = [1000 + b.claim(SLOTS[0]), 1000 + b.claim(SLOTS[1]), 1000 + c.claim(SLOTS[2])]
    return paper, b, c, tokens


def ask(pen: Pen, slot: int, token: int, after: int, count: int, **more: Any) -> int:
    return pen.write(
        R.Range, **{"v": 2, "seat": (SLOTS[slot], 0), "token": token, "after": after, "count": count, **more}
    )


def of(world: World, slot: int) -> tuple[tuple[int, int], ...]:
    return world.ranges.get((SLOTS[slot], 0), ())


def whole(world: World) -> Any:
    return world.seats[WHOLE.role, 0]


# Which slot owns which -------------------------------------------------------------------------------------------------


def test_c11_the_log_s_order_says_which_offsets_whoever_asks_first() -> None:
    paper, b, c, tokens = shared()
    ask(b, 0, tokens[0], 0, 10)
    ask(c, 2, tokens[2], 0, 5)
    ask(b, 0, tokens[0], 10, 10)
    world = world_of(paper)
    assert (of(world, 0), of(world, 2)) == (((0, 10), (15, 25)), ((10, 15),))
    assert frontier(world, whole(world)) == whole(world).mark == 25


def test_c11_a_second_copy_of_a_range_does_nothing() -> None:
    paper, b, _, tokens = shared()
    ask(b, 0, tokens[0], 0, 10)
    ask(b, 0, tokens[0], 0, 10)
    world = world_of(paper)
    assert of(world, 0) == ((0, 10),)
    assert frontier(world, whole(world)) == 10


def test_c11_a_range_counts_under_the_token_of_its_slot_s_term_only() -> None:
    paper, b, c, tokens = shared()
    ask(b, 0, tokens[0] + 1, 0, 10)
    ask(c, 0, tokens[0], 0, 10)
    b.release(SLOTS[0], tokens[0])
    ask(b, 0, tokens[0], 0, 10)
    assert world_of(paper).ranges == {}


def test_c11_a_range_of_version_1_and_one_while_a_member_reads_less_does_nothing() -> None:
    paper, b, _, tokens = shared()
    ask(b, 0, tokens[0], 0, 10, v=1)
    assert world_of(paper).ranges == {}
    paper, b, _, tokens = shared(reads=1)
    last = b.n
    ask(b, 0, tokens[0], 0, 10)
    assert world_of(paper).ranges == {}
    assert world_of(paper).members["b~1"].n == last, "it does not count at all"


def test_c11_no_range_is_given_while_a_consumer_holds_the_partition_as_a_whole_and_it_begins_behind_all_of_them() -> (
    None
):
    paper, b, c, tokens = shared()
    ask(b, 0, tokens[0], 0, 10)
    held = 1000 + c.claim(WHOLE.role)
    ask(b, 0, tokens[0], 10, 10)
    c.release(WHOLE.role, held, mark=40)
    ask(b, 0, tokens[0], 10, 10)
    assert of(world_of(paper), 0) == ((0, 10), (40, 50))


def test_c11_a_slot_has_so_many_ranges_and_more_when_they_are_done() -> None:
    paper, b, _, tokens = shared()
    for number in range(MAX_OPEN + 2):
        ask(b, 0, tokens[0], number, 1)
    assert of(world_of(paper), 0) == tuple((n, n + 1) for n in range(MAX_OPEN))
    b.beat(marks=((*S0, tokens[0], 3),))
    ask(b, 0, tokens[0], MAX_OPEN, 1)
    assert of(world_of(paper), 0) == tuple((n, n + 1) for n in range(3, MAX_OPEN + 1))


def test_c11_a_jump_has_its_effect_only_over_the_end_that_it_names() -> None:
    paper, b, c, tokens = shared()
    ask(b, 0, tokens[0], 0, 10, over=0, to=100)
    ask(c, 2, tokens[2], 0, 10, over=0, to=500)
    assert (of(world_of(paper), 0), of(world_of(paper), 2)) == (((100, 110),), ((110, 120),))
    ask(b, 1, tokens[1], 0, 10, over=120, to=50)
    assert of(world_of(paper), 1) == ((120, 130),), "and never back"


def test_c11_a_role_that_was_removed_and_is_there_again_gives_nothing_twice() -> None:
    paper, b, c, tokens = shared()
    ask(b, 0, tokens[0], 0, 10)
    b.role(WHOLE.role, removed=True)
    b.role(WHOLE.role)
    ask(c, 2, tokens[2], 0, 10)
    assert of(world_of(paper), 2) == ((10, 20),)


def test_c11_the_next_holder_of_a_slot_has_its_ranges_and_the_last_one_marks_nothing() -> None:
    paper, b, c, tokens = shared()
    ask(b, 0, tokens[0], 0, 10)
    b.beat(marks=((*S0, tokens[0], 4),))
    seen = world_of(paper).members["b~1"].offset
    held = 1000 + c.claim(SLOTS[0], over=("b~1", seen))
    b.beat(marks=((*S0, tokens[0], 10),))
    world = world_of(paper)
    assert (world.seats[S0].holder, world.seats[S0].token, world.seats[S0].mark) == ("c~1", held, 4)
    assert undone(world, world.seats[S0]) == [(4, 10)]
    assert position(world, whole(world)) == 4


def test_c5_a_partition_is_rewound_when_no_slot_is_held_and_all_ranges_go_back() -> None:
    paper, b, c, tokens = shared()
    ask(b, 0, tokens[0], 0, 10)
    ask(c, 2, tokens[2], 0, 10)
    root = Pen(paper, "root~1", name="root", eligible=(), reads=2).join()
    root.pause()
    for slot in (0, 1):
        b.release(SLOTS[slot], tokens[slot], mark=10 if slot == 0 else None)
    root.rewind((WHOLE.role, 0, 3))
    assert frontier(world_of(paper), whole(world_of(paper))) == 20, "one slot is held"
    c.release(SLOTS[2], tokens[2])
    root.rewind((SLOTS[2], 0, 3))
    assert of(world_of(paper), 2) == ((10, 20),), "a slot is not rewound alone"
    root.rewind((WHOLE.role, 0, 3))
    world = world_of(paper)
    assert world.ranges == {}
    assert frontier(world, whole(world)) == position(world, whole(world)) == 3
    assert {seat.mark for seat in world.seats.values()} == {3}


def test_c11_what_is_done_above_a_slot_s_mark_is_not_waited_for() -> None:
    paper, b, _, tokens = shared()
    ask(b, 0, tokens[0], 0, 10)
    b.write(R.Ahead, v=2, seat=S0, token=tokens[0], mark=0, done=(0, 4, 2, 1))
    world = world_of(paper)
    assert undone(world, world.seats[S0]) == [(4, 10)]
    assert position(world, whole(world)) == 4


def test_r10_a_snapshot_carries_ranges_and_worlds_that_differ_in_them_differ() -> None:
    paper, b, _, tokens = shared()
    ask(b, 0, tokens[0], 0, 10)
    world = world_of(paper)
    again = World.load(world.dump())
    assert again.ranges == world.ranges != {}
    assert again.digest() == world.digest()
    again.own(S0, ((0, 11),))
    assert again.digest() != world.digest()
    text = world.dump()
    found = text.index('"ranges":')
    lost = text[:found] + text[found:].replace(SLOTS[0], "nothing", 1)
    with pytest.raises(ValueError, match="has ranges"):
        World.load(lost)


steps = st.lists(
    st.tuples(
        st.sampled_from(("ask", "ask", "ask", "ask", "mark", "take", "move", "zombie", "rewind")),
        st.integers(0, 2),
        st.integers(0, 40),
    ),
    max_size=60,
)


@given(steps)
def test_c11_whatever_is_written_no_offset_is_two_slots_and_none_is_left_out(
    script: list[tuple[str, int, int]],
) -> None:
    """Against a model that knows an owner for each offset."""
    paper, b, c, tokens = shared()
    pens = [b, c]
    holder = [b, b, c]
    before: list[tuple[Pen, int]] = []
    root = Pen(paper, "root~1", name="root", eligible=(), reads=2).join()
    owner: dict[int, int] = {}
    start = end = 0
    last, marks = [0, 0, 0], [0, 0, 0]
    for what, slot, number in script:
        seat, pen = (SLOTS[slot], 0), holder[slot]
        if what == "ask":
            after = last[slot] if number % 5 else number
            known = of(world_of(paper), slot)
            ask(pen, slot, tokens[slot], after, number + 1)
            if after == last[slot] and len(known) < MAX_OPEN:
                owner |= dict.fromkeys(range(end, end + number + 1), slot)
                end = last[slot] = end + number + 1
        elif what in ("mark", "take"):
            mine = [at for at in owner if owner[at] == slot and at >= marks[slot]]
            upto = mine[min(number, len(mine) - 1)] + 1 if mine else 0
            if upto and what == "mark":
                pen.beat(marks=((*seat, tokens[slot], upto),))
            elif upto:
                pen.write(R.Take, seat=seat, token=tokens[slot], first=marks[slot], last=upto - 1)
            marks[slot] = max(marks[slot], upto)
        elif what == "move":
            other = pens[1 - pens.index(pen)]
            before.append((pen, tokens[slot]))
            pen.release(SLOTS[slot], tokens[slot])
            holder[slot], tokens[slot] = other, 1000 + other.claim(SLOTS[slot])
        elif what == "zombie" and before:
            old, gone = before[number % len(before)]
            old.beat(marks=((*seat, gone, 10_000),))
            old.write(R.Take, seat=seat, token=gone, first=10_000, last=10_001)
            ask(old, slot, gone, last[slot], number + 1)
        elif what == "rewind":
            pause = root.pause()
            root.rewind((WHOLE.role, 0, number))  # slots are held: nothing follows
            if number % 2:
                for each in range(3):
                    holder[each].release(SLOTS[each], tokens[each])
                root.rewind((WHOLE.role, 0, number))
                owner, start, end, last, marks = {}, number, number, [0, 0, 0], [number] * 3
            root.resume(pause)
            if number % 2:
                tokens = [1000 + holder[each].claim(SLOTS[each]) for each in range(3)]
    world = world_of(paper)
    runs = sorted(run for slot in range(3) for run in of(world, slot))
    assert all(one[1] <= two[0] for one, two in pairwise(runs)), "no offset is two slots'"
    assert sorted(owner) == list(range(start, end)), "none is left out"
    assert frontier(world, whole(world)) == end
    for slot in range(3):
        left = {at for at in owner if owner[at] == slot and at >= marks[slot]}
        assert {at for first, upto in undone(world, world.seats[SLOTS[slot], 0]) for at in range(first, upto)} == left
    waiting = [at for at in owner if at >= marks[owner[at]]]
    assert position(world, whole(world)) == min(waiting, default=end)
    assert World.load(world.dump()).digest() == world.digest()


def test_r15_roles_that_are_no_slots_are_rewound_as_ever() -> None:
    paper, _ = began("b~1", roles=("feed", "feed+1"))
    root = Pen(paper, "root~1", name="root", eligible=(), reads=2).join()
    root.pause()
    root.rewind(("feed", 0, 7), ("feed+1", 0, 9))
    world = world_of(paper)
    assert [world.seats[role, 0].mark for role in ("feed", "feed+1")] == [7, 9]
    assert may_rewind(world, world.seats["feed+1", 0])


@pytest.mark.parametrize(
    "role", ["orders/0+1", "orders@0123abcd+1", "orders@0123abcd/0+01", "orders@0123abcd/0+100", "+1"]
)
def test_what_is_no_slot_is_taken_for_none(role: str) -> None:
    assert part_of(role) is None
    assert part_of(SLOTS[2]) == (WHOLE.role, 2, 0)
    assert Partition.of(SLOTS[2]) == WHOLE.slots(3)[2]
    assert WHOLE.slots(3)[2].whole == WHOLE


# A consumer's side ---------------------------------------------------------------------------------------------------


def slotted(*, paper: Paper | None = None, **config: Any) -> Solo:
    from pares.core.claims.protocol import RoleSpec

    roles = tuple(RoleSpec(role) for role in (WHOLE.role, *SLOTS))
    solo = consumer(paper=paper, terms=TERMS, **{"roles": roles, **config})
    solo.run(0.4)
    return solo


def test_c6_a_consumer_of_ranges_takes_slots_and_no_partition_and_one_of_partitions_no_slots() -> None:
    solo = slotted()
    assert {seat[0] for seat in solo.world.held[solo.me]} == set(SLOTS)
    solo.paper = Paper()
    paper, _ = began("b~1", roles=(WHOLE.role, *SLOTS), labels=Terms(frozenset({"orders"})).labels(), eligible=None)
    world = world_of(paper)
    assert share(world, {"b~1"}) == {(WHOLE.role, 0): "b~1"} | dict.fromkeys([(slot, 0) for slot in SLOTS])


def test_c11_a_range_is_told_when_it_was_read_back_and_not_before() -> None:
    solo = slotted()
    token = solo.world.seats[S0].token
    assert [effect.runs for effect in told(solo, ev.Owns)] == [(), (), ()], "with each lead"
    solo.fate = lambda records: "deaf"
    solo.step(ev.Wants(S0, token, 0, 16))
    solo.run(0.05)
    assert [(r.after, r.count) for r in solo.sent if isinstance(r, R.Range)] == [(0, 16)], "it stands in the log"
    assert len(told(solo, ev.Owns)) == 3
    solo.fate, solo.reading = lambda records: "lands", True
    solo.run(0.02)
    assert told(solo, ev.Owns)[3:] == [ev.Owns(S0, token, ((0, 16),))]


@pytest.mark.parametrize("fate", ["fails", "lost", "late"])
def test_c11_a_range_of_unknown_outcome_is_written_again_and_given_once(fate: str) -> None:
    solo = slotted()
    token = solo.world.seats[S0].token
    solo.fate = once("Range", fate)
    solo.step(ev.Wants(S0, token, 0, 16))
    solo.run(0.4)
    assert told(solo, ev.Owns)[3:] == [ev.Owns(S0, token, ((0, 16),))]
    assert solo.world.ranges == {S0: ((0, 16),)}


def test_c11_a_worker_that_uses_up_many_ranges_between_two_beats_says_how_far_it_is_and_gets_more() -> None:
    solo = slotted(session_ms=60_000)
    token = solo.world.seats[S0].token
    for number in range(3 * MAX_OPEN):
        solo.step(ev.Marked(S0, token, 16 * number))
        solo.step(ev.Wants(S0, token, 16 * number, 16))
        solo.run(0.02)
    assert solo.world.ranges[S0][-1] == (16 * (3 * MAX_OPEN - 1), 16 * 3 * MAX_OPEN)
    assert len(solo.world.ranges[S0]) <= MAX_OPEN


def test_c11_a_term_begins_with_the_ranges_of_the_one_before() -> None:
    paper, b, c, tokens = shared()
    ask(b, 0, tokens[0], 0, 10)
    ask(c, 2, tokens[2], 0, 10)
    b.write(R.Ahead, v=2, seat=S0, token=tokens[0], mark=2, done=(3, 1))
    b.leave()
    c.leave()
    solo = slotted(paper=paper)
    begins = {effect.seat: effect for effect in told(solo, ev.Begins)}
    assert (begins[S0].position, begins[S0].ahead) == (2, AheadState(((5, 6),)))
    assert {(effect.seat[0], effect.runs) for effect in told(solo, ev.Owns)} == {
        (SLOTS[0], ((0, 10),)),
        (SLOTS[1], ()),
        (SLOTS[2], ((10, 20),)),
    }


def test_r11_no_range_is_written_while_a_member_of_the_first_release_is_in_the_group() -> None:
    paper, _ = began("old~1", roles=("x",), session=60_000)
    solo = slotted(paper=paper)
    token = solo.world.seats[S0].token
    solo.step(ev.Wants(S0, token, 0, 16))
    solo.run(0.1)
    assert not [r for r in solo.sent if isinstance(r, R.Range)]
    assert any(report.kind == "old-format" for report in told(solo, ev.Report))


# How many, and when ----------------------------------------------------------------------------------------------------


def test_c11_sizes_follow_how_long_a_range_lasts() -> None:
    session = 1000 * MS
    sizes = Sizes(session)
    assert sizes.claims(0) == FIRST
    assert sizes.claims(100 * MS) == 2 * FIRST, "used up soon"
    assert sizes.claims(110 * MS) == 16 * FIRST, "used up at once"
    assert sizes.claims(610 * MS) == 16 * FIRST, "half a session is right"
    assert sizes.claims(2000 * MS) == 8 * FIRST, "more than a session is too much"
    sizes.idle()
    assert sizes.claims(9000 * MS) == 8 * FIRST, "it waited for records"
    for number in range(30):
        sizes.claims((9001 + number) * MS)
    assert sizes.size == LARGEST
    for number in range(30):
        sizes.claims((20_000 + 2000 * number) * MS)
    assert sizes.size == 1


@given(st.floats(1, 1_000_000), st.integers(100, 20_000))
def test_c11_at_any_rate_claims_are_few_beside_records_or_beside_beats(rate: float, session_ms: int) -> None:
    """A worker of a steady rate: once its ranges have grown, it claims either one in a thousand or less than it beats."""
    sizes = Sizes(session_ms * MS)
    now = records = 0
    for _ in range(40):
        now += int(records / rate * 1e9)
        records = sizes.claims(now)
    lasts = records / rate
    assert records == LARGEST or lasts >= session_ms / 1000 / 4 * 0.99
    assert records == 1 or lasts <= session_ms / 1000 * 2.01


@given(st.floats(1_000, 1_000_000), st.integers(0, 20))
def test_c11_a_worker_comes_to_its_size_after_a_few_claims(rate: float, trip_ms: int) -> None:
    """Also where a claim takes its time: what is read meanwhile is half of a range at most."""
    sizes = Sizes(1000 * MS)
    now = records = 0
    for _ in range(9):
        now += max(int(records / rate * 1e9), trip_ms * MS)
        records = sizes.claims(now)
    assert records == LARGEST or records / rate >= 0.25 * 0.99


def test_c11_work_goes_through_a_slot_s_ranges_and_another_is_due_when_half_of_one_is_left() -> None:
    ranges = Ranges(((0, 10), (30, 40)))
    assert ranges.end == 40
    assert [ranges.at(at) for at in (0, 9, 10, 39, 40)] == [(0, 10), (0, 10), (30, 40), (30, 40), None]
    assert (ranges.within(5, 40), ranges.within(5, 32), ranges.within(10, 30)) == (15, 7, 0)
    assert not ranges.few(10, 30, 16)
    assert not ranges.few(9, 40, 16), "all is fetched, and not half of it given out"
    assert ranges.few(8, 32, 16)
    ranges.owns(((0, 10), (30, 40), (50, 60)), 40)
    assert ranges.runs == [(50, 60)]
    ranges.owns(((50, 60),), 60)
    assert ranges.end == 60, "the last one is known, though it is done"
    assert ranges.few(0, 60, 1)
