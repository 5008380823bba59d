"""Placement (R13): balanced, sticky, by rank, spread over hosts, and nothing moved that need not move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pares.core.claims.placing.placement import place
from pares.core.wire.records import Seat
from pares.core.wire.states import MemberState, PauseState, RoleState, SeatState, new_seat
from pares.core.wire.world import World

Target = dict[Seat, str | None]


def member(id: str, **fields: Any) -> MemberState:
    known: dict[str, Any] = {
        "id": id, "name": id.split("~")[0], "host": "", "zone": "", "labels": {}, "rank": 0, "weight": 1.0,
        "eligible": None, "session_ms": 1000, "drift": 0.1, "overlap_ms": 0, "protocol": "claims", "reads": 1, "lock": None,
        "joined": 0, "draining": False, "offset": 0, "n": 1, "due_ms": 250, "count": 1,
    }  # fmt: skip
    return MemberState(**{**known, **fields})


class Group:
    """A world put together by hand."""

    def __init__(self, members: Iterable[MemberState]) -> None:
        self.world = World()
        self.world.members = {m.id: m for m in members}
        self.world.refresh()

    def role(self, name: str, *holders: str | None, weight: float = 1.0, spread: str = "host") -> list[SeatState]:
        """A role with as many seats as holders are given."""
        self.world.roles[name] = RoleState(name, len(holders), weight, spread, removed=False)
        made: list[SeatState] = []
        for index, holder in enumerate(holders):
            seat = new_seat(name, index)
            seat.holder, seat.token = holder, len(self.world.seats) + 1
            self.world.seats[seat.seat] = seat
            made.append(seat)
        self.world.refresh()
        return made

    def place(self, alive: Iterable[str] | None = None, **sets: Iterable[str]) -> Target:
        ids = self.world.members if alive is None else alive
        return place(self.world, frozenset(ids), **{name: frozenset(value) for name, value in sets.items()})

    def follow(self, target: Target) -> None:
        """Everybody does what the placement says."""
        for key, id in target.items():
            self.world.seats[key].holder = id
        self.world.refresh()

    def moved(self, target: Target) -> list[tuple[Seat, str, str | None]]:
        """What is to go from a member that is there to another."""
        held = {key: seat.holder for key, seat in self.world.seats.items()}
        return [(key, old, new) for key, new in target.items() if (old := held[key]) is not None and new != old]


def group(count: int, **fields: Any) -> Group:
    return Group(member(f"m{i:02}~1", **fields) for i in range(count))


def ids(count: int) -> list[str]:
    return [f"m{i:02}~1" for i in range(count)]


# Balance and stickiness ----------------------------------------------------------------------------------------------


def fewest_moves(loads: list[int], free: int) -> int:
    """How many of the held seats must move so that all loads come within one of each other, counted without any placement:
    of the final loads (some one larger than the others) the larger ones go to who has most already."""
    least, larger = divmod(sum(loads) + free, len(loads))
    caps = [least + (i < larger) for i in range(len(loads))]
    return sum(max(0, load - cap) for load, cap in zip(sorted(loads, reverse=True), caps, strict=True))


@given(st.lists(st.integers(0, 12), min_size=1, max_size=8), st.integers(0, 12))
def test_r13_balanced_within_one_with_the_fewest_moves(loads: list[int], free: int) -> None:
    crew = group(len(loads))
    for holder, load in zip(ids(len(loads)), loads, strict=True):
        for i in range(load):
            crew.role(f"{holder} {i}", holder)
    for i in range(free):
        crew.role(f"free {i}", None)
    target = crew.place()
    final = Counter(dict.fromkeys(ids(len(loads)), 0))
    final.update(id for id in target.values() if id is not None)
    assert sum(final.values()) == sum(loads) + free
    assert max(final.values()) - min(final.values()) <= 1
    assert len(crew.moved(target)) == fewest_moves(loads, free)


def test_r13_a_ninth_member_takes_the_surplus_of_a_thousand_roles_and_nothing_else_moves() -> None:
    crew = group(8)
    for i in range(1000):
        crew.role(f"role {i}", ids(8)[i % 8])
    assert crew.moved(crew.place()) == []
    crew.world.members["n~1"] = member("n~1")
    crew.world.refresh()
    target = crew.place()
    moved = crew.moved(target)
    assert {new for _, _, new in moved} == {"n~1"}
    assert len(moved) == fewest_moves([125] * 8 + [0], 0) == 111
    assert sorted(Counter(target.values()).values()) == [111] * 8 + [112]


def test_r13_a_member_that_goes_leaves_the_others_seats_where_they_are() -> None:
    crew = group(4)
    for i in range(40):
        crew.role(f"role {i}", ids(4)[i % 4])
    alive = ids(4)[:3]
    target = crew.place(alive)
    assert {old for _, old, _ in crew.moved(target)} == {ids(4)[3]}
    assert sorted(Counter(target.values()).values()) == [13, 13, 14]


def test_r13_many_seats_are_placed_from_nothing_in_balance() -> None:
    crew = group(8)
    for i in range(200):
        crew.role(f"role {i}", None)
    assert set(Counter(crew.place().values()).values()) == {25}


def test_r13_by_weight_of_members_and_of_roles() -> None:
    crew = Group([member("big~1", weight=3.0), member("small~1", weight=1.0)])
    for i in range(40):
        crew.role(f"role {i}", None)
    assert Counter(crew.place().values()) == {"big~1": 30, "small~1": 10}
    crew = group(2)
    crew.role("heavy", None, weight=10)
    for i in range(10):
        crew.role(f"light {i}", None)
    target = crew.place()
    heavy = target["heavy", 0]
    assert all(id != heavy for key, id in target.items() if key[0] != "heavy")


# Any group: what must hold of every placement ------------------------------------------------------------------------


@st.composite
def groups(draw: st.DrawFn) -> tuple[Group, dict[str, set[str]]]:
    """Members and roles of all sorts, with seats held by anybody who may hold them, and who is there or not."""
    names = ["A", "B", "C", "D", "E"]
    members = [
        member(
            f"m{i}~1",
            rank=draw(st.sampled_from([0, 0, 0, 1])),
            weight=draw(st.sampled_from([1.0, 1.0, 1.0, 2.0])),
            host=draw(st.sampled_from(["", "h1", "h2", "h3"])),
            zone=draw(st.sampled_from(["", "z1", "z2"])),
            eligible=draw(st.sampled_from([None, None, None, ("A", "B"), ("C",), ()])),
            draining=draw(st.sampled_from([False, False, False, True])),
        )
        for i in range(draw(st.integers(1, 6)))
    ]
    crew = Group(members)
    for name in names[: draw(st.integers(1, 5))]:
        able = [m.id for m in members if m.eligible is None or name in m.eligible]
        holders: list[str | None] = []
        for _ in range(draw(st.integers(1, 3))):
            left: list[str | None] = [id for id in able if id not in holders]
            holders.append(draw(st.sampled_from([None, *left])))
        seats = crew.role(
            name,
            *holders,
            weight=draw(st.sampled_from([1.0, 1.0, 3.0])),
            spread=draw(st.sampled_from(["host", "zone", "none"])),
        )
        for seat in seats:
            seat.pinned = seat.holder is not None and draw(st.integers(0, 5)) == 0
            if seat.holder in (None, members[0].id):  # the fold forgets it when somebody else takes the seat
                seat.avoid = draw(st.sampled_from([None, None, None, members[0].id]))
            if seat.holder is not None and draw(st.integers(0, 5)) == 0:
                seat.asked = (draw(st.sampled_from([None, members[-1].id])), 5)
        if draw(st.integers(0, 6)) == 0:
            crew.world.roles[name].removed = True
    if draw(st.integers(0, 4)) == 0:
        crew.world.pauses[9] = PauseState(9, draw(st.sampled_from(names)), 1000, "m0~1")
    known = [m.id for m in members]
    few = st.sets(st.sampled_from(known), max_size=2)
    return crew, {"alive": set(known) - draw(few), "unsettled": draw(few), "without": draw(few)}


@given(groups())
def test_r13_nobody_is_given_what_it_may_not_hold(drawn: tuple[Group, dict[str, set[str]]]) -> None:
    crew, sets = drawn
    world, target = crew.world, crew.place(**sets)
    by_role: dict[str, list[str]] = {}
    for (role, index), id in target.items():
        assert not world.roles[role].removed
        assert index < world.roles[role].seats
        assert not world.paused(role)
        if id is None:
            continue
        chosen = world.members[id]
        assert id in sets["alive"] - sets["without"]
        assert not chosen.draining
        assert chosen.eligible is None or role in chosen.eligible
        by_role.setdefault(role, []).append(id)
    for holders in by_role.values():
        assert len(holders) == len(set(holders)), "two seats of one role"
    expected = {key for key in world.seats if world.open(key) and not world.paused(key[0])}
    assert target.keys() == expected


@given(groups())
def test_r13_a_seat_stays_empty_only_if_nobody_is_left_for_it(drawn: tuple[Group, dict[str, set[str]]]) -> None:
    crew, sets = drawn
    target = crew.place(**sets)
    for (role, _), id in target.items():
        if id is None:
            inside = {other for (name, _), other in target.items() if name == role}
            for candidate in crew.world.members.values():
                free = candidate.id in sets["alive"] - sets["without"] and not candidate.draining
                able = candidate.eligible is None or role in candidate.eligible
                assert not (free and able and candidate.id not in inside)


@given(groups(), st.randoms(use_true_random=False))
def test_r13_the_answer_does_not_depend_on_the_order_of_dicts_or_sets(
    drawn: tuple[Group, dict[str, set[str]]], chance: Any
) -> None:
    crew, sets = drawn
    before = crew.place(**sets)
    for table in ("members", "seats", "roles"):
        items = list(getattr(crew.world, table).items())
        chance.shuffle(items)
        setattr(crew.world, table, dict(items))
    assert crew.place(**sets) == before


@given(groups())
def test_r13_once_everybody_has_followed_nothing_more_moves(drawn: tuple[Group, dict[str, set[str]]]) -> None:
    """Else seats would go back and forth for ever, an interruption of somebody's work each time."""
    crew, sets = drawn
    for seat in crew.world.seats.values():
        seat.asked = seat.avoid = None  # the fold forgets both when the seat moves
    rounds = 0
    while moved := crew.moved(target := crew.place(**sets)):
        crew.follow(target)
        rounds += 1
        assert rounds <= 3, f"still moving: {moved}"
    assert rounds <= 1


@given(groups())
def test_r13_no_single_move_would_still_help(drawn: tuple[Group, dict[str, set[str]]]) -> None:
    """Balanced within one by weight: where somebody has more than another by more than a seat, that seat may not go there."""
    crew, sets = drawn
    world, target = crew.world, crew.place(**sets)
    load = Counter[str]()
    for (role, _), id in target.items():
        if id is not None:
            load[id] += world.roles[role].weight  # type: ignore[assignment]
    crew_ids = [
        m.id
        for m in world.members.values()
        if m.id in sets["alive"] - sets["without"] and not m.draining and m.eligible != ()
    ]
    settled = {id: world.members[id].rank for id in crew_ids}
    last = max(settled.values(), default=0)
    rank = {id: last if id in sets["unsettled"] else settled[id] for id in crew_ids}
    for key, giver in target.items():
        seat, role = world.seats[key], world.roles[key[0]]
        # Only seats that are held and stay are moved for balance; of those only the free ones.
        if giver is None or giver != seat.holder or seat.pinned or seat.asked or role.seats > 1:
            continue
        for taker in crew_ids:
            able = world.members[taker].eligible is None or key[0] in (world.members[taker].eligible or ())
            if taker == giver or rank[taker] != rank[giver] or not able or seat.avoid == taker:
                continue
            after = (load[taker] + role.weight) / world.members[taker].weight
            assert after + 1e-6 >= load[giver] / world.members[giver].weight, (key, giver, taker)


# Rank ----------------------------------------------------------------------------------------------------------------


def test_r13_lower_rank_first_once_it_is_settled() -> None:
    crew = Group([member("a~1", rank=1), member("b~1", rank=0), member("c~1", rank=1)])
    crew.role("A", "a~1")
    crew.role("B", None)
    assert set(crew.place().values()) == {"b~1"}
    unsettled = crew.place(unsettled={"b~1"})
    assert unsettled["A", 0] == "a~1"
    assert "b~1" in unsettled.values()  # it may share the work, as the last in rank
    assert set(crew.place({"a~1", "c~1"}).values()) == {"a~1", "c~1"}


def test_r13_who_is_unsettled_comes_last_among_those_who_may_hold_seats() -> None:
    """And not behind the rank of an administrator, which holds none."""
    crew = Group([member("a~1"), member("b~1"), member("admin~1", rank=9, eligible=())])
    for i in range(4):
        crew.role(f"role {i}", None)
    assert sorted(Counter(crew.place(unsettled={"b~1"}).values()).values()) == [2, 2]


def test_r13_of_the_surplus_the_youngest_terms_move() -> None:
    crew = group(2)
    for i in range(4):
        crew.role(f"role {i}", "m00~1")
    assert [key for key, _, _ in crew.moved(crew.place())] == [("role 2", 0), ("role 3", 0)]


# Hosts and zones -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", ["host", "zone", "none"])
def test_r13_seats_of_one_role_go_to_different_hosts_and_zones(spread: str) -> None:
    places = [("h1", "z1"), ("h1", "z1"), ("h2", "z1"), ("h2", "z1"), ("h3", "z2"), ("h3", "z2")]
    crew = Group(member(f"m{i}~1", host=host, zone=zone) for i, (host, zone) in enumerate(places))
    crew.role("A", None, None, spread=spread)
    chosen = [crew.world.members[id] for id in crew.place().values() if id]
    if spread == "none":
        assert [m.id for m in chosen] == ["m0~1", "m1~1"]
    else:
        assert len({m.host for m in chosen}) == 2
        assert len({m.zone for m in chosen}) == 2
    crew.role("B", None, None, None, spread="host")
    hosts = [crew.world.members[id].host for key, id in crew.place().items() if id and key[0] == "B"]
    assert sorted(hosts) == ["h1", "h2", "h3"]


def test_r13_a_held_seat_moves_to_another_host_when_one_comes() -> None:
    crew = Group([member("a~1", host="h1"), member("b~1", host="h1")])
    crew.role("A", "a~1", "b~1")
    assert crew.moved(crew.place()) == []
    crew.world.members["c~1"] = member("c~1", host="h2")
    crew.world.refresh()
    (move,) = crew.moved(crew.place())
    assert move[2] == "c~1"


def test_r13_members_of_one_host_share_other_roles_as_usual() -> None:
    crew = group(2, host="h1")
    for i in range(10):
        crew.role(f"role {i}", "m00~1")
    assert Counter(crew.place().values()) == {"m00~1": 5, "m01~1": 5}


# Pins, avoided, asked for, paused, removed, gone ---------------------------------------------------------------------


def test_r13_a_pinned_seat_stays_until_its_holder_goes() -> None:
    crew = Group([member("a~1", rank=1), member("b~1", rank=0)])
    (seat,) = crew.role("A", "a~1")
    assert crew.place()["A", 0] == "b~1"
    seat.pinned = True
    assert crew.place()["A", 0] == "a~1"
    assert crew.place({"b~1"})["A", 0] == "b~1"


def test_r13_who_stepped_down_is_avoided_unless_nobody_else_eligible_lives() -> None:
    crew = group(2)
    (seat,) = crew.role("A", None)
    crew.role("B", "m01~1")
    assert crew.place()["A", 0] == "m00~1"
    seat.avoid = "m00~1"
    assert crew.place()["A", 0] == "m01~1"
    assert crew.place({"m00~1"})["A", 0] == "m00~1"


def test_r13_balance_does_not_bring_a_seat_back_to_who_stepped_down_from_it() -> None:
    crew = group(2)
    for i in range(4):
        (seat,) = crew.role(f"role {i}", "m01~1")
        seat.avoid = "m00~1"
    assert crew.moved(crew.place()) == []


def test_r13_what_was_asked_for_goes_where_it_was_asked_to_if_it_can() -> None:
    crew = group(3)
    (seat,) = crew.role("A", "m00~1")
    seat.asked = ("m02~1", 5)
    assert crew.place()["A", 0] == "m02~1"
    assert crew.place({"m00~1", "m01~1"})["A", 0] == "m00~1", "who can't take it is no reason to move"
    seat.asked = (None, 5)
    assert crew.place()["A", 0] in ("m01~1", "m02~1")
    assert crew.place({"m00~1"})["A", 0] == "m00~1"
    seat.pinned = True
    assert crew.place()["A", 0] != "m00~1", "a pin does not stand against an explicit request"


def test_r13_a_request_for_who_holds_another_seat_of_the_role_changes_nothing() -> None:
    crew = group(2)
    seat, _ = crew.role("A", "m00~1", "m01~1")
    seat.asked = ("m01~1", 5)
    assert crew.moved(crew.place()) == []


def test_r14_r3a_paused_and_removed_roles_and_seats_are_not_in_the_answer() -> None:
    crew = group(2)
    crew.role("A", "m00~1")
    crew.role("B", "m00~1", "m01~1")
    crew.role("C", None)
    crew.world.roles["A"].removed = True
    crew.world.roles["B"].seats = 1
    crew.world.pauses[9] = PauseState(9, "C", 1000, "x")
    assert crew.place().keys() == {("B", 0)}
    crew.world.pauses[10] = PauseState(10, None, 1000, "x")
    assert crew.place() == {}


def test_r8_the_restart_of_a_dead_holder_is_designated_for_its_seats() -> None:
    crew = Group([member("a~1"), member("a~2"), member("b~1"), member("c~1")])
    for i in range(9):
        crew.role(f"role {i}", "a~1")
    target = crew.place({"a~2", "b~1", "c~1"})
    assert set(target.values()) == {"a~2"}


def test_r13_nobody_alive_nobody_designated() -> None:
    crew = group(2)
    crew.role("A", "m00~1")
    crew.role("B", None)
    assert crew.place(()) == {("A", 0): None, ("B", 0): None}
    assert crew.place(without=ids(2)) == {("A", 0): None, ("B", 0): None}
