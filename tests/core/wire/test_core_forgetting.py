"""R13, R20: whom the group forgets; the dead add nothing to how long it remembers, nor to how many it takes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from bench.ordinary import crash_loop, new_names
from core_authors import Paper, Pen, began, world_of
from core_driver import A, Solo, joined, once
from hypothesis import given, settings
from hypothesis import strategies as st

from pares.core.events import Restart
from pares.core.lease import MS
from pares.core.wire import forgetting
from pares.core.wire import records as R
from pares.core.wire import world as worlds
from pares.core.wire.fold import at_place, fold
from pares.core.wire.forgetting import GRACE, KEPT
from pares.core.wire.records import Join
from pares.core.wire.states import MemberState
from pares.core.wire.world import World

LIVING = 3


@pytest.mark.parametrize("between", [2, 4, 20, 60])
def test_r20_a_crash_loop_is_let_in_each_time_and_leaves_nothing(between: int) -> None:
    refused, most, gone = crash_loop(12_000, between)
    assert refused == 0
    assert most <= LIVING + 64
    assert gone <= worlds.FORGET


def test_r20_under_a_new_name_each_time_it_is_let_in_too() -> None:
    """By the fold alone, where nobody says who is to be forgotten, it takes longer."""
    refused, most, _ = crash_loop(12_000, 4, name="*")
    assert refused == 0
    assert most <= LIVING + worlds.FORGET // 2 + 300


def group(*members: str) -> tuple[Paper, list[Pen]]:
    paper, pens = began(*members, reads=2)
    pens[0].beat(v=2)
    return paper, pens


def pass_time(pen: Pen, records: int = GRACE + 10) -> None:
    for _ in range(records):
        pen.beat(v=2)


def test_r20_an_incarnation_goes_when_its_successor_has_come_and_its_seats_are_free() -> None:
    paper, (a, old) = group("a~1", "x~1")
    old.claim("A")
    pass_time(a)
    Pen(paper, "x~2", reads=2).join()
    assert "x~1" in world_of(paper).members, "it holds something"
    a.claim("A", over=("x~1", world_of(paper).members["x~1"].offset))
    pass_time(a)
    Pen(paper, "x~3", reads=2).join()
    assert set(world_of(paper).members) == {"a~1", "x~2", "x~3"}, "x~2 has time to answer"
    pass_time(a)
    Pen(paper, "x~4", reads=2).join()
    world = world_of(paper)
    assert set(world.members) == {"a~1", "x~3", "x~4"}
    assert {"x~1", "x~2"} <= world.gone.keys()


def test_r20_whom_it_forgets_is_told_in_the_same_order_by_all_readers() -> None:
    """One has met the name `a` before `b`; to one that begins with a snapshot, the oldest that is left is of `b`."""
    paper, (a, _) = group("a~1", "b~1")
    Pen(paper, "a~2", reads=2).join()
    a.leave()
    Pen(paper, "a~3", reads=2).join()
    Pen(paper, "b~2", reads=2).join()
    folded = world_of(paper)
    told: list[list[str]] = []
    for world in (folded, World.load(folded.dump())):
        world.followed = dict.fromkeys(("a~2", "b~1"), (-1000, world.last))
        changes: list[Any] = []
        forgetting.forget(world, world.last, changes)
        told.append([change.member for change in changes])
    assert told == [["b~1", "a~2"]] * 2


def test_r20_in_version_1_nobody_is_forgotten_for_a_successor() -> None:
    paper, (a, _) = began("a~1", "x~1")
    for _ in range(GRACE + 10):
        a.beat()
    Pen(paper, "x~2").join()
    assert set(world_of(paper).members) == {"a~1", "x~1", "x~2"}


def test_r8_r20_a_living_namesake_speaks_up_and_stays() -> None:
    solo = Solo("A", id="x~1", name="x")
    solo.run(0.1)
    twin = Pen(solo.paper, "x~2", reads=2)
    twin.base = solo.world.base
    other = Pen(solo.paper, "b~1", reads=2)
    other.base = twin.base
    other.join()
    for _ in range(3):
        twin.join() if not twin.n else twin.beat(v=2)
        solo.run(0.02)
        for _ in range(GRACE // 2):
            other.beat(v=2)
    assert {"x~1", "x~2", "b~1"} <= solo.world.members.keys()


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40)), min_size=2, max_size=25), st.data())
def test_r2_r20_no_late_copy_of_a_join_brings_back_who_was_forgotten(
    starts: list[tuple[int, int]], data: st.DataObject
) -> None:
    """For as long as the memory lasts, which is longer than this history."""
    paper, (a,) = group("a~1")
    joins: dict[str, bytes] = {}
    for number, (name, pause) in enumerate(starts):
        id = f"x{name}~{number}"
        Pen(paper, id, reads=2).join()
        joins[id] = paper.last()
        pass_time(a, pause)
        copied = data.draw(st.sampled_from(sorted(joins)))
        known = set(world_of(paper).members)
        paper.put(joins[copied])
        assert set(world_of(paper).members) <= known


# Names without successors ------------------------------------------------------------------------------------------------


def test_r20_who_is_called_silent_goes_if_it_holds_nothing_and_has_written_nothing_since() -> None:
    paper, (a, b, c) = group("a~1", "b~1", "c~1")
    a.role("A")
    last = {pen.id: pen.beat(v=2) for pen in (b, c)}
    word = b.beat(v=2)
    held = c.claim("A")
    a.write(R.Forget, of="b~1", over=last["b~1"], v=2)
    a.write(R.Forget, of="c~1", over=held, v=2)
    assert {"b~1", "c~1"} <= world_of(paper).members.keys(), "one has written since, the other holds something"
    a.write(R.Forget, of="b~1", over=word, v=1)
    assert "b~1" in world_of(paper).members, "to version 1 this is a kind that it does not know"
    a.write(R.Forget, of="b~1", over=word, v=2)
    Pen(paper, "b~1", reads=2).join(n=1000)
    b.beat(v=2)
    world = world_of(paper)
    assert "b~1" not in world.members, "and neither a join nor a beat of it counts any more"
    assert "b~1" in world.gone
    assert World.load(world.dump()).digest() == world.digest()


def crowd(count: int, **config: Any) -> tuple[Solo, list[Pen]]:
    """A member among so many that have joined and say nothing more."""
    paper, pens = began(*(f"p{i:03}~1" for i in range(count)), reads=2)
    pens[0].beat(v=2)
    solo = Solo(paper=paper, eligible=("A",), **config)
    solo.run(0.1)
    return solo, pens


def test_r20_of_the_silent_that_hold_nothing_so_many_stay_and_the_others_are_out_waited() -> None:
    solo, pens = crowd(KEPT + 8)
    speaks, holds = pens[3], pens[5]
    holds.role("A", v=2)
    holds.claim("A", v=2)
    seat = solo.world.seats
    for _ in range(20):
        speaks.beat(v=2)
        written = solo.run(0.1)
        assert R.Forget not in map(type, written), "nobody has been out-waited yet"
    assert seat[A].holder != holds.id, "a holder is claimed from"
    for _ in range(20):
        speaks.beat(v=2)
        solo.run(0.1)
    world = solo.world
    silent = {pen.id for pen in pens if pen is not speaks} & world.members.keys()
    assert len(silent) == KEPT
    assert speaks.id in world.members
    gone = {id for id in world.gone if id.startswith("p")}
    assert gone == {pen.id for pen in pens[:9] if pen not in (speaks, holds)} | ({holds.id} & gone)


def test_r20_a_member_that_holds_version_1_back_calls_nobody_silent() -> None:
    solo, _ = crowd(KEPT + 8, writes=1)
    assert R.Forget not in map(type, solo.run(6))


def test_r20_a_member_whose_own_records_come_back_late_calls_nobody_silent() -> None:
    """A machine that is too slow for its members makes them silent, and each that is forgotten begins anew on it."""
    paper, pens = began(*(f"p{i:03}~1" for i in range(KEPT + 8)), reads=2)
    pens[0].beat(v=2)
    pens[0].claim("A", v=2)
    solo = Solo(paper=paper)
    solo.run(0.1)
    solo.fate, late = lambda records: "deaf", list[Any]()
    for _ in range(6):
        while solo.reading:
            pens[0].beat(v=2)
            late += solo.run(0.05)
        late += solo.run(0.4)
        solo.reading = True
        solo.read()
    assert late
    assert R.Forget not in map(type, late)
    solo.fate, well = lambda records: "lands", list[Any]()
    for _ in range(60):
        pens[0].beat(v=2)
        well += solo.run(0.05)
    assert R.Forget in map(type, well), "it has been well for as long as they are silent"


@pytest.mark.parametrize("fate", ["fails", "lost"])
def test_r20_a_member_whose_append_has_failed_counts_their_silence_anew(fate: str) -> None:
    """What the ledger did not take of it, it may not have taken of them."""
    solo, pens = crowd(KEPT + 8)
    solo.run(1)
    solo.fate, began = once("Beat", fate), 0
    while not began:
        pens[0].beat(v=2)
        began = solo.now if R.Beat in map(type, solo.run(0.05)) else 0
    early, later = list[Any](), list[Any]()
    while solo.now < began + 2_200 * MS:
        pens[0].beat(v=2)
        early += solo.run(0.05)
    assert R.Forget not in map(type, early)
    for _ in range(20):
        pens[0].beat(v=2)
        later += solo.run(0.05)
    assert R.Forget in map(type, later)


def test_r20_a_living_member_that_was_called_silent_begins_anew() -> None:
    solo = Solo("A")
    solo.run(0.3)
    other = joined(solo, "b~1")
    solo.run(0.1)
    other.claim("A", over=(solo.me, solo.world.members[solo.me].offset), v=2)
    other.write(R.Forget, of=solo.me, over=solo.world.members[solo.me].offset, v=2)
    solo.run(0.1)
    assert isinstance(solo.ending, Restart)
    assert solo.claims.until <= solo.now or not solo.claims.tenures.by_seat


@pytest.mark.parametrize("between", [4, 20])
def test_r20_a_crash_loop_under_a_new_name_each_time_leaves_little(between: int) -> None:
    refused, most = new_names(150, between)
    assert refused == 0
    assert KEPT < most <= LIVING + 64


def test_r20_a_full_group_makes_room_among_those_who_are_silent_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "MAX_MEMBERS", 6)
    monkeypatch.setattr(worlds, "FORGET", 100)
    paper, (a, b) = group("a~1", "b~1")
    b.claim("A")
    for number in range(4):
        Pen(paper, f"dead{number}~1", reads=2).join()
    Pen(paper, "late~1", reads=2).join()
    assert "late~1" not in world_of(paper).members, "all of them may live"
    for _ in range(35):
        a.beat(v=2)
    for _ in range(20):
        a.beat(v=2)
    Pen(paper, "late~2", reads=2).join()
    world = world_of(paper)
    assert set(world.members) == {"a~1", "b~1", "late~2"}, "who holds something stays, however silent"


class Counted(dict[str, Any]):
    """A table that counts how many of its entries anybody has looked at."""

    looks = 0

    def __getitem__(self, key: str) -> Any:
        self.looks += 1
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)

    def __iter__(self) -> Iterator[str]:
        self.looks += len(self)
        return super().__iter__()

    def values(self) -> Any:
        self.looks += len(self)
        return super().values()

    def items(self) -> Any:
        self.looks += len(self)
        return super().items()


def full(members: int, monkeypatch: pytest.MonkeyPatch) -> tuple[World, Counted, Counted, Paper, Pen]:
    """A world with as many members as may be; it counts who looks at how many of them."""
    monkeypatch.setattr(forgetting, "MAX_MEMBERS", members)
    paper, (a,) = group("a~1")
    for number in range(members - 1):
        Pen(paper, f"m{number}~1", reads=2).join()
    world = world_of(paper)
    assert len(world.members) == members
    world.members, world.held = Counted(world.members), Counted(world.held)
    return world, world.members, world.held, paper, a


def join(paper: Paper, id: str) -> Join:
    return Join(v=1, g="g", m=id, n=1, b=1000, s=500, name=id, session=1000, reads=2)


@pytest.mark.parametrize("members", [50, 400])
def test_r20_a_join_into_a_full_group_costs_the_same_in_a_large_one(
    members: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By steps, and not by time. A newcomer let in only once in a while is no reason to look at all members."""
    world, table, held, paper, _ = full(members, monkeypatch)
    assert not forgetting.has_room(world)
    table.looks = held.looks = 0
    for number in range(1000):
        assert not fold(world, paper.end + number, join(paper, f"late{number}~1"), [])
    assert table.looks + held.looks <= 4 * 1000


def test_r20_what_a_full_group_looks_at_is_paid_for_by_what_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """All write between two joins, in any order: each look is at one that has written since the one before."""
    world, table, held, paper, _ = full(300, monkeypatch)
    forgetting.has_room(world)
    ids, offset = sorted(dict(world.members)), paper.end
    random, written = Random(5), 0
    table.looks = held.looks = 0
    for _ in range(200):
        for id in random.sample(ids, 10):
            member = dict.__getitem__(table, id)
            world.count += 1
            member.count, member.offset, written = world.count, offset, written + 1
            offset += 1
        assert not forgetting.has_room(world)
    assert table.looks + held.looks <= 3 * (written + 200)


def test_r20_who_was_passed_over_as_a_holder_is_found_when_its_seat_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "MAX_MEMBERS", 3)
    monkeypatch.setattr(worlds, "FORGET", 20)
    paper, (a, b, c) = group("a~1", "b~1", "c~1")
    a.role("A")
    b.claim("A")
    for _ in range(20):
        a.beat(v=2)
        c.beat(v=2)
    world, changes = world_of(paper), []
    assert "b~1" in world.members
    assert not forgetting.has_room(world)
    offset = a.claim("A", over=("b~1", world.members["b~1"].offset))
    assert fold(world, offset, R.decode(paper.last()), changes)
    assert forgetting.has_room(world)
    assert fold(world, offset + 1, join(paper, "d~1"), changes)
    assert set(world.members) == {"a~1", "c~1", "d~1"}


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["join", "beat", "beat", "take", "free", "leave"]), st.integers(0, 11)), max_size=120
    )
)
def test_r20_room_is_found_exactly_where_each_member_is_asked(moves: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forgetting, "MAX_MEMBERS", 5)
        patch.setattr(worlds, "FORGET", 16)
        paper, (a,) = group("a~1")
        for number in range(6):
            a.role(f"R{number}")
        world, pens = World(), list[Pen]()
        folded = 0
        for made, (what, which) in enumerate(moves):
            pen = pens[which % len(pens)] if pens else a
            if what == "join":
                pens.append(Pen(paper, f"p{made}~1", reads=2).join())
            elif what == "beat":
                pen.beat(v=2)
            elif what == "take":
                pen.claim(f"R{which % 6}")
            elif what == "free":
                held = sorted(world.held.get(pen.id, ()))
                if held:
                    pen.release(held[0][0], world.seats[held[0]].token)
            elif pens:
                pens.remove(pen)
                pen.leave()
            for offset, _, payload in paper.entries[folded:]:
                record = R.decode(payload)
                asked = [m.id for m in world.members.values() if silent_for_half_of_the_memory(world, m)]
                assert forgetting.has_room(world) == (len(world.members) < 5 or (world.in_force and bool(asked)))
                before = set(world.members)
                if fold(world, offset, record, []) and isinstance(record, Join) and len(before) >= 5:
                    assert before - set(world.members) == set(asked)
                at_place(world, offset, record, [])
            folded = len(paper.entries)


def silent_for_half_of_the_memory(world: World, member: MemberState) -> bool:
    return member.count < world.count - world.memory() // 2 and not world.held[member.id]
