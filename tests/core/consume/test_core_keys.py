"""Slots of keys (C12): to which slot a record belongs, which seats may be held beside one another, and where a term begins
after the partition was divided in another way."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from core_authors import Paper, Pen, began, world_of
from core_driver import Solo
from hypothesis import given
from hypothesis import strategies as st
from test_core_consuming import consumer, told

from pares.core import events as ev
from pares.core.claims.protocol import RoleSpec
from pares.core.consume.names import Partition, Terms, place_of, tag_of
from pares.core.consume.sharing import share
from pares.core.wire import records as R
from pares.core.wire.divided.divisions import bar, barred
from pares.core.wire.divided.keys import Elsewhere, begins, settled, uneven
from pares.core.wire.divided.ranges import may_rewind, position
from pares.core.wire.divided.siblings import MAX_SLOTS, part_of
from pares.core.wire.states import AheadState
from pares.core.wire.world import World

WHOLE = Partition("orders", tag_of("orders:1"), 0)
TWO = [slot.role for slot in WHOLE.slots_of_keys(2)]
THREE = [slot.role for slot in WHOLE.slots_of_keys(3)]
RANGES = [slot.role for slot in WHOLE.slots(2)]
ALL = (WHOLE.role, *TWO, *THREE, *RANGES)


def topic_of(*members: str, force: bool = True, **join: Any) -> tuple[Paper, list[Pen]]:
    """A log with the roles of a partition that is divided in every way, and version 2 in force."""
    paper, pens = began(*members, roles=ALL, **{"eligible": None, "reads": 2, **join})
    if force:
        pens[0].write(R.Ready, v=2, ready=True)
    return paper, pens


def holders(world: World) -> dict[str, str]:
    return {seat.role: seat.holder for seat in world.seats.values() if seat.holder is not None}


def whole(world: World) -> Any:
    return world.seats[WHOLE.role, 0]


# To which slot a record belongs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "place"),
    [(b"", 16476032584258269876), (b"user-1", 11145382709976293768), (b"\xff\x00", 10081741235792650475)],
)
def test_c12_where_a_key_belongs_is_part_of_the_format(key: bytes, place: int) -> None:
    assert place_of(key, 5) == place_of(key, 6) == place


def test_c12_keys_share_out_evenly_and_records_without_a_key_by_their_offsets() -> None:
    slots = Counter(place_of(b"user-%d" % number, 0) % 16 for number in range(16_000))
    assert set(slots) == set(range(16))
    assert min(slots.values()) > 800
    assert [place_of(None, offset) % 4 for offset in range(6)] == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize(
    "slot", [WHOLE.slots_of_keys(1)[0], WHOLE.slots_of_keys(MAX_SLOTS)[99], *WHOLE.slots_of_keys(3)]
)
def test_c12_a_slot_s_role_names_its_partition_its_number_and_how_many_there_are(slot: Partition) -> None:
    assert Partition.of(slot.role) == slot
    assert slot.whole == WHOLE
    assert part_of(slot.role) == (WHOLE.role, slot.slot, slot.keys)


@pytest.mark.parametrize("end", ["#3of3", "#0of0", "#0of101", "#00of2", "#of2", "#1", "#-1of2", "#1of02", "+1#0of2"])
def test_c12_what_is_no_slot_of_keys_is_taken_for_none(end: str) -> None:
    assert part_of(WHOLE.role + end) is None
    assert Partition.of(WHOLE.role + end) is None


def test_c6_a_consumer_of_keys_says_so_and_takes_slots_of_its_own_division_only() -> None:
    terms = Terms(frozenset({"orders"}), keys=3)
    assert Terms.of(terms.labels()) == terms
    taken = {role for role in ALL if (partition := Partition.of(role)) is not None and terms.takes(partition)}
    assert taken == set(THREE)
    assert not Terms(frozenset({"orders"}), ranges=True).takes(WHOLE.slots_of_keys(3)[0])
    assert not Terms(frozenset({"orders"})).takes(WHOLE.slots_of_keys(3)[0])


# Which seats are held beside one another ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (WHOLE.role, TWO[0]),
        (TWO[0], WHOLE.role),
        (TWO[1], THREE[0]),
        (THREE[0], TWO[0]),
        (RANGES[0], TWO[0]),
        (TWO[0], RANGES[1]),
    ],
)
def test_c12_a_claim_of_another_division_than_is_held_does_not_stand(first: str, second: str) -> None:
    paper, [b, c] = topic_of("b~1", "c~1")
    held = 1000 + b.claim(first)
    c.claim(second)
    world = world_of(paper)
    assert holders(world) == {first: "b~1"}
    assert barred(world, second)
    assert "b~1 holds" in bar(world, second)
    b.release(first, held)
    c.claim(second)
    assert holders(world_of(paper)) == {second: "c~1"}


def test_c12_slots_of_one_division_are_held_beside_one_another_and_change_hands() -> None:
    paper, [b, c] = topic_of("b~1", "c~1")
    held = 1000 + b.claim(THREE[0])
    c.claim(THREE[1])
    c.claim(THREE[2])
    assert holders(world_of(paper)) == {THREE[0]: "b~1", THREE[1]: "c~1", THREE[2]: "c~1"}
    b.transfer(THREE[0], held, "c~1")
    seen = world_of(paper).members["c~1"].offset
    b.claim(THREE[1], over=("c~1", seen))
    assert holders(world_of(paper)) == {THREE[0]: "c~1", THREE[1]: "b~1", THREE[2]: "c~1"}


def test_r11_before_version_2_claims_stand_as_release_0_1_has_them() -> None:
    paper, [b, c] = topic_of("b~1", "c~1", force=False)
    b.claim(WHOLE.role)
    c.claim(TWO[0])
    assert holders(world_of(paper)) == {WHOLE.role: "b~1", TWO[0]: "c~1"}
    assert not barred(world_of(paper), TWO[1])


def test_c12_a_slot_of_keys_waits_until_ranges_are_done_or_taken_back() -> None:
    paper, [b, c] = topic_of("b~1", "c~1")
    held = 1000 + b.claim(RANGES[0])
    b.write(R.Range, v=2, seat=(RANGES[0], 0), token=held, after=0, count=10)
    b.release(RANGES[0], held, mark=4)
    c.claim(TWO[0])
    assert holders(world_of(paper)) == {}
    assert "ranges that are not done" in bar(world_of(paper), TWO[0])
    root = Pen(paper, "root~1", name="root", eligible=(), reads=2).join()
    pause = root.pause()
    root.rewind((WHOLE.role, 0, 4))
    root.resume(pause)
    c.claim(TWO[0])
    world = world_of(paper)
    assert holders(world) == {TWO[0]: "c~1"}
    assert begins(world, (TWO[0], 0)) == (4, ())


def test_c12_ranges_wait_until_slots_of_keys_stand_at_one_offset() -> None:
    paper, [b, c] = topic_of("b~1", "c~1")
    first, second = 1000 + b.claim(TWO[0]), 1000 + b.claim(TWO[1])
    b.release(TWO[0], first, mark=20)
    b.release(TWO[1], second, mark=12)
    c.claim(RANGES[0])
    world = world_of(paper)
    assert uneven(world, WHOLE.role)
    assert holders(world) == {}
    assert "different offsets" in bar(world, RANGES[0])
    again = 1000 + b.claim(TWO[1])
    b.release(TWO[1], again, mark=20)
    held = 1000 + c.claim(RANGES[0])
    c.write(R.Range, v=2, seat=(RANGES[0], 0), token=held, after=0, count=10)
    assert world_of(paper).ranges == {(RANGES[0], 0): ((20, 30),)}


def test_c12_no_range_is_given_while_slots_stand_apart() -> None:
    """A slot of ranges that was claimed before version 2 was in force."""
    paper, [b] = topic_of("b~1", force=False)
    held, keyed = 1000 + b.claim(RANGES[0]), 1000 + b.claim(TWO[0])
    b.release(TWO[0], keyed, mark=5)
    b.write(R.Range, v=2, seat=(RANGES[0], 0), token=held, after=0, count=10)
    b.write(R.Range, v=2, seat=(RANGES[0], 0), token=held, after=0, count=10)
    assert world_of(paper).ranges == {}


def test_c12_divisions_are_kept_apart_also_when_the_partition_s_own_role_was_removed() -> None:
    paper, [b, c] = topic_of("b~1", "c~1")
    held = 1000 + b.claim(TWO[0])
    b.role(WHOLE.role, removed=True)
    assert (WHOLE.role, 0) not in world_of(paper).seats
    c.claim(THREE[0])
    c.claim(RANGES[0])
    assert holders(world_of(paper)) == {TWO[0]: "b~1"}
    b.release(TWO[0], held, mark=12)
    assert begins(world_of(paper), (THREE[0], 0)) == (0, (Elsewhere(0, 2, 12, ()),))
    c.claim(THREE[0])
    assert holders(world_of(paper)) == {THREE[0]: "c~1"}


# Where a term begins ---------------------------------------------------------------------------------------------------


def test_c12_slots_begin_where_the_whole_partition_ended_and_know_what_it_did_above() -> None:
    paper, [b, _] = topic_of("b~1", "c~1")
    held = 1000 + b.claim(WHOLE.role)
    b.write(R.Ahead, v=2, seat=(WHOLE.role, 0), token=held, mark=40, done=(3, 4))
    b.release(WHOLE.role, held, mark=41)
    assert begins(world_of(paper), (THREE[2], 0)) == (41, (Elsewhere(0, 1, 41, ((43, 47),)),))
    assert begins(world_of(paper), (RANGES[0], 0)) == (0, ()), "ranges say themselves where they begin"


def test_c12_another_division_begins_at_the_hindmost_slot_and_knows_what_the_others_have_done() -> None:
    paper, [b, _] = topic_of("b~1", "c~1")
    marks = {THREE[0]: 30, THREE[1]: 10, THREE[2]: 20}
    for role, mark in marks.items():
        b.release(role, 1000 + b.claim(role), mark=mark)
    world = world_of(paper)
    assert settled(world, WHOLE.role) == position(world, whole(world)) == 10
    known = {Elsewhere(0, 3, 30, ()), Elsewhere(2, 3, 20, ())}
    for role in (WHOLE.role, *TWO):
        at, elsewhere = begins(world, (role, 0))
        assert (at, set(elsewhere)) == (10, known)
    assert begins(world, (THREE[0], 0)) == (30, ()), "its own"


def test_c12_a_division_some_of_whose_slots_nobody_has_held_says_nothing_of_the_others() -> None:
    paper, [b, _] = topic_of("b~1", "c~1")
    b.release(THREE[0], 1000 + b.claim(THREE[0]), mark=30)
    world = world_of(paper)
    assert settled(world, WHOLE.role) == 0
    assert begins(world, (TWO[0], 0)) == (0, (Elsewhere(0, 3, 30, ()),))


def test_c5_a_partition_is_rewound_with_its_slots_of_keys_and_no_slot_alone() -> None:
    paper, [b] = topic_of("b~1")
    tokens = {role: 1000 + b.claim(role) for role in TWO}
    root = Pen(paper, "root~1", name="root", eligible=(), reads=2).join()
    root.pause()
    b.release(TWO[0], tokens[TWO[0]], mark=30)
    b.beat(marks=((TWO[1], 0, tokens[TWO[1]], 20),))
    root.rewind((WHOLE.role, 0, 3))
    assert settled(world_of(paper), WHOLE.role) == 20, "one slot is held"
    b.write(R.Ahead, v=2, seat=(TWO[1], 0), token=tokens[TWO[1]], mark=20, done=(2, 5))
    b.release(TWO[1], tokens[TWO[1]])
    root.rewind((TWO[1], 0, 3))
    assert not may_rewind(world_of(paper), world_of(paper).seats[TWO[1], 0])
    assert settled(world_of(paper), WHOLE.role) == 20, "a slot is not rewound alone"
    root.rewind((WHOLE.role, 0, 3))
    world = world_of(paper)
    assert {world.seats[role, 0].mark for role in (WHOLE.role, *TWO)} == {3}
    assert world.ahead == {}
    assert begins(world, (TWO[1], 0)) == (3, ())


def test_r10_a_reader_that_begins_with_a_snapshot_knows_the_slots() -> None:
    paper, [b] = topic_of("b~1")
    b.claim(THREE[0])
    world = World.load(world_of(paper).dump())
    assert set(world.siblings.of(WHOLE.role)) == {(role, 0) for role in (*TWO, *THREE, *RANGES)}
    assert barred(world, TWO[0])
    b.role(TWO[0], removed=True)
    assert (TWO[0], 0) not in world_of(paper).siblings.of(WHOLE.role)


steps = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 7), st.booleans()), min_size=1, max_size=40
)


@given(steps)
def test_c12_whatever_divisions_follow_one_another_each_record_is_done_once_and_keys_are_in_order(
    script: list[tuple[int, int, int, bool]],
) -> None:
    """Terms of whole partitions, of two slots and of three, each of which does some records and is handed over by plan; then
    one that does all the rest. Some leave a record out that those behind it do not wait for, as they have other keys."""
    keys = [None if at % 9 == 8 else b"k%d" % (at * 7 % 5) for at in range(40)]
    paper, [b] = topic_of("b~1")
    done: list[int] = []

    def work(role: str, most: int, leaves_out: bool) -> None:
        part = part_of(role)
        token = 1000 + b.claim(role)
        world = world_of(paper)
        assert holders(world) == {role: "b~1"}
        at, elsewhere = begins(world, (role, 0))
        own = world.ahead.get((role, 0), AheadState()).done

        def is_left(offset: int) -> bool:
            place = place_of(keys[offset], offset)
            mine = part is None or place % part.slots == part.slot
            there = (each for each in elsewhere if place % each.slots == each.slot)
            known = any(offset < each.position or any(a <= offset < z for a, z in each.runs) for each in there)
            return mine and not known and not any(a <= offset < z for a, z in own)

        left = [offset for offset in range(at, len(keys)) if is_left(offset)]
        skipped = left[0] if leaves_out and left else None
        given = [each for each in left if skipped is None or (each != skipped and keys[each] != keys[skipped])][:most]
        done.extend(given)
        stops = [each for each in left if each not in given]
        mark = stops[0] if stops else len(keys)
        above = sorted(each for each in (*given, *(o for a, z in own for o in range(a, z))) if each > mark)
        gaps, last = [], mark
        for each in above:
            gaps += [each - last, 1]
            last = each + 1
        b.write(R.Ahead, v=2, seat=(role, 0), token=token, mark=mark, done=tuple(gaps))
        b.release(role, token)

    for division, slot, most, leaves_out in script:
        roles = ([WHOLE.role], TWO, THREE)[division]
        work(roles[slot % len(roles)], most, leaves_out)
    assert len(set(done)) == len(done), "nothing is done twice"
    for role in THREE:
        work(role, len(keys), False)
    assert sorted(done) == list(range(len(keys)))
    for key in set(keys) - {None}:
        mine = [offset for offset in done if keys[offset] == key]
        assert mine == sorted(mine)
    world = world_of(paper)
    assert position(world, whole(world)) == len(keys)


# A consumer's side ---------------------------------------------------------------------------------------------------


def keyed(*, paper: Paper | None = None, slots: int = 3, **config: Any) -> Solo:
    roles = tuple(RoleSpec(role.role) for role in (WHOLE, *WHOLE.slots_of_keys(slots)))
    solo = consumer(paper=paper, terms=Terms(frozenset({"orders"}), keys=slots), **{"roles": roles, **config})
    solo.run(0.4)
    return solo


def test_c12_a_consumer_of_keys_takes_all_slots_and_not_the_partition() -> None:
    solo = keyed()
    assert {seat[0] for seat in solo.world.held[solo.me]} == set(THREE)


def test_c12_a_consumer_claims_nothing_of_what_others_divide_in_another_way_and_begins_when_they_are_gone() -> None:
    paper, [b] = topic_of("b~1", labels=Terms(frozenset({"orders"}), keys=2).labels(), session=60_000)
    tokens = {role: 1000 + b.claim(role) for role in TWO}
    solo = keyed(paper=paper)
    assert not [record for record in solo.sent if isinstance(record, R.Claim)]
    assert share(solo.world, {"b~1", solo.me}) == {(role, 0): "b~1" for role in TWO}
    b.release(TWO[0], tokens[TWO[0]], mark=7)
    b.release(TWO[1], tokens[TWO[1]], mark=9)
    b.leave()
    solo.run(0.4)
    found = {effect.seat[0]: effect for effect in told(solo, ev.Begins)}
    assert {role: effect.position for role, effect in found.items()} == dict.fromkeys(THREE, 7)
    assert {effect.elsewhere for effect in found.values()} == {(Elsewhere(1, 2, 9, ()),)}


def test_r11_no_slot_of_keys_is_claimed_while_a_member_of_the_first_release_is_in_the_group() -> None:
    paper, [old] = began("old~1", roles=("x",), session=60_000)
    solo = keyed(paper=paper)
    assert not [record for record in solo.sent if isinstance(record, R.Claim)]
    old.leave()
    solo.run(2.0)
    assert {seat[0] for seat in solo.world.held[solo.me]} == set(THREE)


def test_c12_a_dead_holder_of_another_division_does_not_bar_the_living_for_ever() -> None:
    paper, [b] = topic_of("b~1", labels=Terms(frozenset({"orders"})).labels())
    b.claim(WHOLE.role)
    solo = keyed(paper=paper)
    assert not solo.world.held[solo.me]
    solo.run(6.0)
    assert {seat[0] for seat in solo.world.held[solo.me]} == set(THREE)
