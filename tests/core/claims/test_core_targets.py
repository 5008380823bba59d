"""What is placed alone where all are alike is what placement says of all (R23)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_core_placement import Group, group, ids, member

from pares.core.claims.placing import targets
from pares.core.claims.placing.placement import place
from pares.core.wire.states import PauseState

NONE: frozenset[str] = frozenset()
LOADS = st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any)


@given(LOADS, st.integers(0, 4), st.data())
def test_r23_r13_what_is_pinned_moves_nowhere_whoever_has_how_much_of_it(
    loads: list[int], free: int, data: st.DataObject
) -> None:
    crew = put_together(loads, free, 0)
    for seat in crew.world.seats.values():
        seat.pinned = seat.holder is not None and data.draw(st.booleans())
    crew.world.refresh()
    assert compare(crew, frozenset(ids(len(loads)))) is not None


def put_together(loads: list[int], free: int, pinned: int, **fields: Any) -> Group:
    """Members that hold so many roles each, in an order of tokens that has nothing to do with names; so many are pinned."""
    crew = group(len(loads), **fields)
    for number in range(max(loads)):
        for holder, load in zip(ids(len(loads)), loads, strict=True):
            if number < load:
                (seat,) = crew.role(f"{number * 7 % 10} {holder}", holder)
                seat.pinned, pinned = pinned > 0, pinned - 1
    for number in range(free):
        crew.role(f"{number % 3} free {number}", None)
    crew.world.refresh()
    return crew


def compare(crew: Group, alive: frozenset[str], without: frozenset[str] = NONE) -> targets.Alike | None:
    """What is placed alone, after a look that it says what placement says."""
    found = targets.alike(crew.world, alive, without)
    if found is not None:
        whole = place(crew.world, alive, without=without)
        assert {seat: found.get(seat) for seat in crew.world.seats} == whole
    return found


@given(
    LOADS,
    st.integers(0, 12),
    st.integers(0, 3),
    st.sets(st.integers(0, 7)),
    st.integers(0, 8),
    st.sampled_from([1.0, 0.1, 3]),
)
def test_r23_r13_it_says_what_placement_says_of_all_seats(
    loads: list[int], free: int, pinned: int, dead: set[int], without: int, weight: float
) -> None:
    crew = put_together(loads, free, pinned, weight=weight)
    for role in crew.world.roles.values():
        role.weight = 1 / weight
    crew.world.refresh()
    living = [id for at, id in enumerate(ids(len(loads))) if at not in dead]
    if living:
        living = [id for id in living if id != ids(len(loads))[without % len(loads)]] or living
    me = frozenset(ids(len(loads))[without % len(loads) :][:1])
    assert compare(crew, frozenset(living)) is not None
    assert compare(crew, frozenset(living) | me, me) is not None


@given(LOADS, st.integers(0, 6), st.data())
def test_r23_whatever_is_claimed_or_handed_over_then(loads: list[int], free: int, data: st.DataObject) -> None:
    """A seat changes hands in the world, and only that is told."""
    crew = put_together(loads, free, 0)
    world, alive = crew.world, frozenset(ids(len(loads)))
    compare(crew, alive)
    for _ in range(3 if world.seats else 0):
        seat = world.seats[data.draw(st.sampled_from(sorted(world.seats)))]
        if seat.holder is not None:
            world.let_go(seat.holder, seat.seat)
        seat.holder = data.draw(st.sampled_from([None, *sorted(alive)]))
        seat.token = 1000 + seat.token
        if seat.holder is not None:
            world.held[seat.holder].add(seat.seat)
        world.changed(("seats", seat.seat))
        assert compare(crew, alive) is not None


ODD: dict[str, dict[str, Any]] = {
    "rank": {"rank": 1},
    "weight": {"weight": 2.0},
    "eligible": {"eligible": ("0 m00~1",)},
    "name": {"name": "m00"},
}


@pytest.mark.parametrize("what", ["asked", "avoid", "seats", "role weight", "removed", "pause", "back", *ODD])
def test_r23_where_something_is_not_alike_all_seats_are_placed(what: str) -> None:
    crew = put_together([3, 3, 1], 2, 0)
    world, alive = crew.world, frozenset([*ids(3), "n~1"])
    seat, role = world.seats["0 m00~1", 0], world.roles["0 m00~1"]
    assert compare(crew, alive) is not None
    if what == "asked":
        seat.asked = (None, 9)
    elif what == "avoid":
        seat.avoid = ids(3)[1]
    elif what == "seats":
        crew.role("two", None, None)
    elif what == "role weight":
        role.weight = 2.0
    elif what == "removed":
        role.removed = True
    elif what == "pause":
        world.pauses[9] = PauseState(9, None, 1000, "m00~1")
    elif what == "back":
        next(s for s in world.seats.values() if s.holder is None).last = "m01"
    else:
        world.members["n~1"] = member("n~1", **ODD[what])
        if what == "name":
            alive -= {"m00~1"}  # its seats are to go to the one of its name
    world.refresh()
    assert targets.alike(world, alive, NONE) is None
    found = targets.Targets(place).get(world, alive, NONE, NONE)
    whole = place(world, alive)
    assert {seat: found.get(seat) for seat in whole} == whole


def test_r23_what_changed_is_found_without_a_look_at_every_seat() -> None:
    crew = put_together([9, 9], 0, 0)
    world = crew.world
    assert set(world.vacant.seats()) == set()
    seat = world.seats["0 m00~1", 0]
    seat.holder = None
    world.changed(("seats", seat.seat))
    assert set(world.vacant.seats()) == {seat.seat}
    for number in range(500):  # roles that come and go while nobody asks
        world.changed(("roles", f"gone {number}"), ("seats", (f"gone {number}", 0)))
    assert sum(map(len, (world.vacant._changed_seats, world.vacant._changed_roles))) < 200  # pyright: ignore[reportPrivateUsage]
    assert world.vacant.one_weight() == 1.0
