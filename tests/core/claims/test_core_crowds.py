"""R23: twice the members and roles cost at most about twice the steps and bytes, also when half of them die or come at once.

Steps are instructions of the interpreter, so they are the same on a machine of any speed. What is bounded by the logarithm
of the group, or sorted by the interpreter itself, is the allowance above twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from core_steps import steps

from pares.core.claims.chores.duties import Rings, to_watch, turn
from pares.core.claims.placing.placement import place
from pares.core.claims.placing.targets import Target, Targets
from pares.core.claims.silence import Stopwatches
from pares.core.lease import MS
from pares.core.wire import records as R
from pares.core.wire.changes import Change
from pares.core.wire.fold import at_place, fold
from pares.core.wire.records import Seat
from pares.core.wire.world import World

ABOUT_TWICE = 2.2
ABOUT_THE_SAME = 1.2


class Crowd:
    """A world that records have led to: members `m0000~1` and so on, on as many hosts as are given, and roles of one seat."""

    def __init__(self, members: int, roles: int, *, held_by: int = 0, hosts: int = 1, listed: bool = False) -> None:
        self.world, self.offset, self.numbers = World(), 0, Counter[str]()
        self.hosts = hosts
        self.names = tuple(f"r{number:05}" for number in range(roles))
        self.eligible = self.names if listed else None
        self.put(R.Genesis, "a~1", v=1, b=10**6, base=10**6, over=None)
        for number in range(members):
            self.join(number)
        self.put(R.Beat, self.id(0))
        for name in self.names:
            self.put(R.Role, self.id(0), name=name, seats=1, weight=1.0, spread="host")
        for number, name in enumerate(self.names):
            if held_by:
                self.put(R.Claim, self.id(number % held_by), seat=(name, 0), over=None)

    def id(self, number: int) -> str:
        return f"m{number:05}~1"

    @property
    def ids(self) -> list[str]:
        return sorted(self.world.members)

    def put(self, kind: Any, member: str, v: int = 2, b: int | None = None, **fields: Any) -> list[Change]:
        self.numbers[member] += 1
        base = self.world.base if b is None else b
        record = kind(v=v, g="g", m=member, n=self.numbers[member], b=base, s=250, **fields)
        changes: list[Change] = []
        assert fold(self.world, self.offset, record, changes)
        at_place(self.world, self.offset, record, changes)
        self.offset += 1
        return changes

    def join(self, number: int) -> list[Change]:
        # A list of its own for each, as each record that is read brings one.
        eligible = None if self.eligible is None else tuple("".join(name) for name in self.eligible)
        said: dict[str, Any] = {"name": f"m{number:05}", "host": f"h{number % self.hosts}", "zone": "", "labels": {}}
        said |= {"rank": 0, "weight": 1.0, "eligible": eligible, "session": 1000, "drift": 0.1, "overlap": 0}
        lock = R.Lock(boot=f"boot{number % self.hosts}", device="d", inode=str(number), file=f"f{number}")
        return self.put(R.Join, self.id(number), v=1, protocol="claims", reads=2, lock=lock, **said)

    def moved(self, target: dict[Seat, str | None], alive: frozenset[str]) -> int:
        """Seats of the living that are to go to another."""
        return sum(
            seat.holder in alive and target[seat.seat] != seat.holder
            for seat in self.world.seats.values()
            if seat.holder is not None
        )


# Placement ---------------------------------------------------------------------------------------------------------------


def calm(size: int) -> tuple[Crowd, frozenset[str]]:
    crowd = Crowd(size, 10 * size, held_by=size)
    return crowd, frozenset(crowd.ids)


def half_died(size: int) -> tuple[Crowd, frozenset[str]]:
    crowd = Crowd(size, 10 * size, held_by=size)
    return crowd, frozenset(crowd.ids[::2])


def as_many_joined(size: int) -> tuple[Crowd, frozenset[str]]:
    crowd = Crowd(size, 10 * size, held_by=size // 2)
    return crowd, frozenset(crowd.ids)


def uneven(size: int) -> tuple[Crowd, frozenset[str]]:
    """So that half of them hold one seat more than the others."""
    crowd = Crowd(size, 10 * size + size // 2, held_by=size)
    return crowd, frozenset(crowd.ids)


def all_free(size: int) -> tuple[Crowd, frozenset[str]]:
    crowd = Crowd(size, 10 * size)
    return crowd, frozenset(crowd.ids)


@pytest.mark.parametrize("befell", [calm, half_died, as_many_joined, uneven, all_free])
def test_r23_placement_for_twice_the_group_takes_about_twice_the_steps(
    befell: Callable[[int], tuple[Crowd, frozenset[str]]],
) -> None:
    taken: list[int] = []
    for size in (50, 100):
        crowd, alive = befell(size)
        taken.append(steps(lambda world=crowd.world, alive=alive: place(world, alive)))
    assert taken[1] <= ABOUT_TWICE * taken[0]


@pytest.mark.parametrize("befell", [half_died, as_many_joined])
def test_r23_r13_a_thousand_members_move_hardly_more_than_the_least(
    befell: Callable[[int], tuple[Crowd, frozenset[str]]],
) -> None:
    crowd, alive = befell(1000)
    target = place(crowd.world, alive)
    loads = Counter(target.values())
    assert set(loads) == alive, "everybody has something, and nobody else has"
    assert max(loads.values()) - min(loads.values()) <= 1
    least = 0 if befell is half_died else 10 * 1000 // 2
    assert crowd.moved(target, alive) <= 1.05 * least


def found(target: Target, world: World) -> dict[Seat, str | None]:
    return {seat: target.get(seat) for seat in sorted(world.seats)}


@pytest.mark.parametrize("alike", [True, False])
def test_r23_claims_that_follow_a_placement_cause_no_other(alike: bool) -> None:
    """Of half a group's seats, which are claimed one by one."""
    asked: list[frozenset[str]] = []

    def placing(world: World, alive: Any, **more: Any) -> dict[Seat, str | None]:
        asked.append(alive)
        return place(world, alive, **more)

    crowd, alive = half_died(40)
    targets, none = Targets(placing, alike=alike), frozenset[str]()
    first = found(targets.get(crowd.world, alive, none, none), crowd.world)
    for seat, to in first.items():
        holder = crowd.world.seats[seat].holder or ""
        if holder not in alive:
            over = (holder, crowd.world.members[holder].offset)
            targets.read(crowd.world, crowd.put(R.Claim, to or "", seat=seat, over=over))
            assert found(targets.get(crowd.world, alive, none, none), crowd.world) == first
    assert len(asked) == (0 if alike else 1)
    assert place(crowd.world, alive) == first, "and it would be the same"


def test_r23_another_claim_a_role_and_a_readiness_are_thought_of() -> None:
    crowd, alive = half_died(10)
    targets, none, world = Targets(place), frozenset[str](), crowd.world

    def now() -> dict[Seat, str | None]:
        return found(targets.get(world, alive, none, none), world)

    seat, to = next((s, to) for s, to in now().items() if world.seats[s].holder not in alive)
    other = next(id for id in sorted(alive) if id != to)
    over = (world.seats[seat].holder, world.members[world.seats[seat].holder or ""].offset)
    targets.read(world, crowd.put(R.Claim, other, seat=seat, over=over))
    assert now() == place(world, alive)
    targets.read(world, crowd.put(R.Role, other, name="new", seats=1, weight=1.0, spread="host"))
    assert now()["new", 0] in alive
    targets.read(world, crowd.put(R.Ready, other, ready=False, why="slow"))
    assert other not in now().values()


def test_r23_r13_a_seat_that_was_stepped_down_from_is_thought_of_again_when_it_has_gone() -> None:
    crowd = Crowd(2, 2, held_by=2)
    targets, none, alive, world = Targets(place), frozenset[str](), frozenset(crowd.ids), crowd.world
    token = world.seats["r00000", 0].token
    crowd.put(R.Release, crowd.id(0), seat=("r00000", 0), token=token, down=True, why="")
    assert targets.get(world, alive, none, none).get(("r00000", 0)) == crowd.id(1)
    targets.read(world, crowd.put(R.Claim, crowd.id(1), seat=("r00000", 0), over=None))
    loads = Counter(found(targets.get(world, alive, none, none), world).values())
    assert set(loads.values()) == {1}, "it may fall back now"


# Joins, claims and deaths ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["join", "claim", "obituary", "leave", "beat"])
def test_r23_a_record_takes_the_same_steps_in_a_group_of_twice_the_size(what: str) -> None:
    taken: list[int] = []
    for size in (200, 400):
        crowd = Crowd(size, 2 * size, held_by=size // 2, listed=size < 0)
        crowd.world.placed = crowd.world.count  # no place among what is counted: that is a matter of its own
        last, seat = crowd.id(size - 1), (crowd.names[0], 0)
        holder = crowd.world.seats[seat].holder or ""
        over = (holder, crowd.world.members[holder].offset)
        work: dict[str, Callable[[], object]] = {
            "join": lambda crowd=crowd, size=size: crowd.join(size),
            "claim": lambda crowd=crowd, last=last, over=over: crowd.put(
                R.Claim, last, seat=(crowd.names[0], 0), over=over
            ),
            "obituary": lambda crowd=crowd, last=last: crowd.put(R.Obituary, last, of=crowd.id(1)),
            "leave": lambda crowd=crowd, last=last: crowd.put(R.Leave, last),
            "beat": lambda crowd=crowd, last=last: crowd.put(R.Beat, last),
        }
        taken.append(steps(work[what]))
    assert taken[1] <= ABOUT_THE_SAME * taken[0]


def test_r23_members_that_list_their_roles_share_the_list_and_a_claim_walks_through_none() -> None:
    taken: list[int] = []
    for roles in (100, 200):
        crowd = Crowd(20, roles, listed=True)
        assert len({id(member.eligible) for member in crowd.world.members.values()}) == 1
        assert World.load(crowd.world.dump()).digest() == crowd.world.digest()
        seat = (crowd.names[-1], 0)
        taken.append(steps(lambda crowd=crowd, seat=seat: crowd.put(R.Claim, crowd.id(3), seat=seat, over=None)))
    assert taken[1] <= ABOUT_THE_SAME * taken[0]


def test_r23_snapshots_are_about_twice_as_long_for_twice_the_group() -> None:
    small, large = (Crowd(size, 10 * size, held_by=size, listed=False).world.dump() for size in (100, 200))
    assert len(large) <= 2.05 * len(small)


def test_r23_a_place_costs_a_look_at_each_member_and_at_what_has_changed() -> None:
    taken: list[int] = []
    for size in (100, 200):
        crowd = Crowd(size, 10 * size, held_by=size)
        crowd.world.digest()
        crowd.put(
            R.Release, crowd.id(0), seat=(crowd.names[0], 0), token=crowd.world.seats[crowd.names[0], 0].token, why=""
        )
        taken.append(steps(crowd.world.digest))
    assert taken[1] <= ABOUT_TWICE * taken[0]
    assert taken[1] < 50 * 200


def test_r23_each_of_half_a_group_that_dies_costs_the_same_whatever_its_size() -> None:
    """Whom to write an obituary for, whose seats to claim, and whom to watch."""
    taken: list[list[int]] = []
    for size in (100, 200):
        crowd = Crowd(size, size, held_by=size)
        dead, alive, me = crowd.ids[::2], frozenset(crowd.ids[1::2]), crowd.ids[1]
        watches = Stopwatches(me, 0.1, MS)
        watches.read(crowd.world, [], 1, stamps={m.offset: 1 for m in crowd.world.members.values()})
        for id in sorted(alive):
            crowd.put(R.Beat, id)
        watches.read(crowd.world, [], 10**10, stamps={m.offset: 10**10 for m in crowd.world.members.values()})
        crew = sorted(alive)

        def bury(crowd: Crowd = crowd, dead: list[str] = dead, alive: frozenset[str] = alive, me: str = me) -> None:
            rings = Rings(crowd.world)
            for id in dead:
                turn(crowd.world, id, me, alive, (), witness=False, rings=rings)

        def outlive(crowd: Crowd = crowd, dead: list[str] = dead, watches: Any = watches, crew: Any = crew) -> None:
            for id in dead:
                assert len(watches.survivors([crowd.world.members[id]], crew)) == len(crew)

        watched = steps(lambda crowd=crowd, me=me, alive=alive: to_watch(crowd.world, me, alive))
        taken.append([steps(bury), steps(outlive), watched])
    assert [two <= ABOUT_TWICE * one for one, two in zip(*taken, strict=True)] == [True] * 3, taken
