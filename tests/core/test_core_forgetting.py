"""R13, R20: whom the group forgets; the dead add nothing to how long it remembers, nor to how many it takes."""

from __future__ import annotations

import pytest
from bench.ordinary import crash_loop
from core_authors import Paper, Pen, began, world_of
from core_driver import Solo
from hypothesis import given, settings
from hypothesis import strategies as st

from pares.core import forgetting
from pares.core import world as worlds
from pares.core.forgetting import GRACE

LIVING = 3


@pytest.mark.parametrize("between", [2, 4, 20, 60])
def test_r20_a_crash_loop_is_let_in_each_time_and_leaves_nothing(between: int) -> None:
    refused, most, gone = crash_loop(12_000, between)
    assert refused == 0
    assert most <= LIVING + 64
    assert gone <= worlds.FORGET


def test_r20_under_a_new_name_each_time_it_is_let_in_too() -> None:
    """Nobody can tell that these are dead but by their silence, so it takes longer."""
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
