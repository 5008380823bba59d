"""R13, R18: members of a machine that is too slow for their session lose what they lead, and have it again when it is not."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from core_machine import Machine
from hypothesis import given
from hypothesis import strategies as st

from pares.core.claims.chores.duties import UNLED_US
from pares.core.claims.decisions import Moves
from pares.core.claims.fitness import forming
from pares.core.claims.fitness.appetite import APART_MS, GOOD, MOST_WAITS, Appetite
from pares.core.claims.fitness.forming import FORMING
from pares.core.claims.fitness.pace import Pace
from pares.core.claims.outlook import Outlook
from pares.core.claims.protocol import Stage
from pares.core.lease import MS

MEMBERS, ROLES = 20, 100
SEEDS = range(1, 5)


def overloaded() -> Machine:
    """For eight sessions far slower than the session lets it be; then as it was for seven more."""
    machine = Machine(MEMBERS, ROLES)
    machine.run(3)
    assert machine.led == ROLES
    machine.counted.clear()
    machine.slower(150)
    machine.run(8)
    machine.slower(1)
    machine.run(7)
    return machine


def test_r18_it_is_led_again_when_the_machine_is_quick_again_and_nobody_begins_anew() -> None:
    machine = overloaded()
    assert machine.counted["terms"] > 0, "the leases had run out"
    assert machine.led == ROLES
    assert machine.counted["restarts"] == 0
    assert max(member.leads for member in machine.members) == ROLES // MEMBERS
    assert machine.counted["Claim"] <= 3 * ROLES, "nobody claims everything"
    assert machine.counted["Transfer"] <= ROLES // 4, "and hardly anything moves for balance"


def test_r18_a_member_that_takes_the_late_for_dead_claims_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above would see it."""
    monkeypatch.setattr(Appetite, "left", lambda self, now, share, seats, *, late, members: seats)
    machine = overloaded()
    assert machine.counted["Claim"] > 5 * ROLES


def slow_from_the_start(seed: int, seconds: int) -> Machine:
    """On which all that begins at once takes longer than a session, and what has begun does not."""
    machine = Machine(40, 400, seed=seed)
    machine.slower(12)
    machine.run(seconds)
    return machine


@pytest.mark.parametrize("seed", SEEDS)
def test_r18_members_that_make_one_another_late_claim_less_until_they_are_not(seed: int) -> None:
    machine = slow_from_the_start(seed, 18)
    assert machine.led == 400
    machine.run(4)
    before = machine.counted["terms"]
    machine.run(4)
    assert (machine.led, machine.counted["terms"]) == (400, before), "and nothing moves any more"
    assert max(member.leads for member in machine.members) == 400 // 40
    assert machine.counted["restarts"] == 0
    assert machine.counted["Role"] == 400, "one declares them all"


def test_r18_members_that_claim_all_that_is_free_are_late_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above would see it."""
    monkeypatch.setattr(Appetite, "left", lambda self, now, share, seats, *, late, members: seats)
    machine = slow_from_the_start(1, 16)
    assert machine.led < 400
    assert machine.counted["Claim"] > 5 * 400


def declared_slowly() -> Machine:
    """Too slow for what its members do because many roles are declared."""
    machine = Machine(40, 3000)
    machine.slower(10)
    machine.run(12)
    return machine


def test_r18_a_late_member_does_not_declare_what_others_do() -> None:
    machine = declared_slowly()
    assert len(machine.members[0].core.reader.world.roles) == 3000
    assert machine.counted["Role"] < 5000
    assert machine.counted["restarts"] == 0


def test_r18_late_members_that_find_themselves_alone_declare_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above would see it."""
    monkeypatch.setattr(Outlook, "hurried", lambda self, world, now: False)
    assert declared_slowly().counted["Role"] > 6000


def test_r18_in_a_small_group_with_few_seats_nothing_waits() -> None:
    machine = Machine(3, 9)
    machine.run(0.7)
    assert machine.led == 9


@pytest.mark.parametrize("members", [3, 60])
def test_r18_a_group_that_comes_together_is_shared_out_once(members: int) -> None:
    """Nobody claims what is about to be handed over."""
    machine = Machine(members, 600)
    machine.run(4)
    assert machine.led == 600
    assert max(member.leads for member in machine.members) == 600 // members
    assert machine.counted["Transfer"] <= 600 // 10


def test_r18_a_member_that_is_handed_its_first_seat_is_not_late_for_that() -> None:
    """Until then it has written as seldom as standbys do."""
    machine, late = Machine(MEMBERS, 60, stamped=True), set[str]()
    while machine.now < 5_000 * MS:
        machine.run(0.01)
        for core in (member.core for member in machine.members if member.core.stage is Stage.LIVE):
            if machine.now < core.watches.late_until(core.reader.world, machine.now):
                late.add(core.me)
    assert machine.counted["Transfer"] > 0
    assert late == set()


def starts_on_a_busy_machine() -> Machine:
    machine = Machine(100, 1000, seed=1)
    machine.slower(2)
    while machine.led < 1000 and machine.now < 20_000 * MS:
        machine.run(0.05)
    return machine


@pytest.mark.timeout(300)
def test_r18_a_hundred_that_come_together_claim_their_shares_in_turn() -> None:
    machine = starts_on_a_busy_machine()
    assert machine.led == 1000
    assert machine.counted["Claim"] <= 1.1 * 1000, "hardly anything is claimed twice, or lost and claimed again"


@pytest.mark.timeout(300)
def test_r18_a_hundred_that_claim_at_the_same_moment_lose_what_they_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above would see it."""
    monkeypatch.setattr(forming, "first_ns", lambda *_: (0, 0))
    assert starts_on_a_busy_machine().counted["Claim"] > 1.5 * 1000


def test_r18_what_others_have_left_is_not_claimed_by_all_at_the_same_moment() -> None:
    """Each waits until all have had their turn, and then until its own comes once more."""
    machine = Machine(40, 400, seed=1)
    while machine.led < 400:
        machine.run(0.05)
    made = [member.core.living.moves._forming for member in machine.members]  # pyright: ignore[reportPrivateUsage]
    turns = [(forming._turn_at or 0, forming.all_at) for forming in made]  # pyright: ignore[reportPrivateUsage]
    round_of_turns = 40 * 400 * UNLED_US * 1000
    assert {after - turn for turn, after in turns} == {round_of_turns}
    first = min(after for _, after in turns)
    assert len({(after - first) * 10 // round_of_turns for _, after in turns}) >= 7, "they are spread over it"


def half_dies_on_a_busy_machine() -> Machine:
    machine = Machine(60, 600, seed=2)
    machine.run(14)
    machine.slower(5)
    machine.run(3)
    assert machine.led == 600
    machine.counted.clear()
    machine.kill(30)
    machine.run(9)
    return machine


@pytest.mark.timeout(300)
def test_r20_those_that_outlive_half_of_a_group_claim_their_shares() -> None:
    machine = half_dies_on_a_busy_machine()
    assert machine.led == 600
    assert machine.counted["Claim"] + machine.counted["Transfer"] <= 1.05 * 300


@pytest.mark.timeout(300)
def test_r20_those_that_claim_all_that_seems_to_be_theirs_hand_it_on_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So the test above would see it."""
    monkeypatch.setattr(Moves, "_fair", lambda self, world: len(world.seats))
    machine = half_dies_on_a_busy_machine()
    assert machine.counted["Claim"] + machine.counted["Transfer"] > 1.1 * 300


def test_r18_where_somebody_comes_again_and_again_the_others_wait_for_some_sessions_only() -> None:
    machine = Machine(20, 300, last=12.0)
    machine.run(FORMING + 2)
    assert machine.led == 300, f"{len(machine.stages)} stages"
    assert any(member.core.stage is not Stage.LIVE for member in machine.members), "and some are still to come"


def test_r18_what_moves_for_balance_moves_a_part_at_a_time() -> None:
    """The first member leads everything when the others come."""
    machine = Machine(MEMBERS, 300, first=2.0)
    machine.members[0].go()
    most = 0
    while machine.now < 6_000 * MS:
        before = machine.counted["Transfer"]
        machine.run(0.005)
        most = max(most, machine.counted["Transfer"] - before)
    assert machine.led == 300
    assert max(member.leads for member in machine.members) == 300 // MEMBERS
    assert machine.counted["Transfer"] > most >= 16
    assert most <= 300 // 8 + 16


# One member's appetite -----------------------------------------------------------------------------------------------

SESSION = 1000 * MS
SHARE, SEATS = 16, 1600


def fed(pace: Pace) -> Appetite:
    """Of a member whose trips take ten milliseconds."""
    pace.came_back(0, 10 * MS, held=False, for_lost=False)
    return Appetite("me", 1000, pace)


def windows(appetite: Appetite, now: int, apart: int, count: int, *, late: bool, members: int = 2) -> list[int]:
    """What it may take at each of so many looks, and takes."""
    found: list[int] = []
    for number in range(count):
        left = appetite.left(now + number * apart, SHARE, SEATS, late=late, members=members)
        appetite.took(left)
        found.append(left)
    return found


def test_r18_a_newcomer_takes_twice_as_much_each_half_of_a_session() -> None:
    assert windows(fed(Pace(1000, SESSION)), SESSION, SESSION // 2, 6, late=False) == [4, 8, 16, 32, 64, 128]


def test_r18_who_is_late_takes_one_seat_and_waits_twice_as_long_after_each() -> None:
    appetite = fed(Pace(1000, SESSION))
    taken = windows(appetite, SESSION, SESSION, 40, late=True)
    at = [number for number, took in enumerate(taken) if took]
    assert {took for took in taken if took} <= {1, 2}
    gaps = [b - a for a, b in pairwise(at)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == 2**MOST_WAITS


def test_r18_who_is_late_in_a_large_group_takes_half_of_its_share_at_once_and_waits_longer() -> None:
    taken = windows(fed(Pace(1000, SESSION)), SESSION, SESSION, 200, late=True, members=100)
    at = [number for number, took in enumerate(taken) if took]
    assert [taken[number] for number in at] == [SHARE // 2] * len(at)
    gaps, usual = [b - a for a, b in pairwise(at)], 100 * APART_MS // 1000
    assert len(gaps) > MOST_WAITS - 1
    for gap, waits in zip(gaps, [1, 2, 3, MOST_WAITS, MOST_WAITS], strict=False):
        assert usual << waits >> 1 <= gap <= (3 * usual << waits >> 1) + 1


def test_r18_members_that_became_late_together_do_not_claim_together_when_they_wait_no_more() -> None:
    """Each waits as long as the next one on average, and differently each time."""
    firsts, seconds = list[int](), list[int]()
    for number in range(100):
        pace = Pace(1000, SESSION)
        pace.came_back(0, 10 * MS, held=False, for_lost=False)
        appetite, each = Appetite(f"m{number}", 1000, pace), SESSION // 10
        windows(appetite, SESSION, each, 1, late=True, members=100)
        taken = windows(appetite, SESSION + each, each, 400, late=False, members=100)
        first, second = [at for at, took in enumerate(taken) if took][:2]
        firsts.append(first)
        seconds.append(second - first)
    for waits in (firsts, seconds):
        counted = Counter(wait // 10 for wait in waits)
        assert max(counted.values()) <= 100 // 3, "few of them in any second"
        assert len(counted) >= 5
    assert any(first > 1.2 * second for first, second in zip(firsts, seconds, strict=True))
    assert any(second > 1.2 * first for first, second in zip(firsts, seconds, strict=True))


def test_r18_what_was_too_much_is_not_tried_again_at_once() -> None:
    appetite = fed(Pace(1000, SESSION))
    assert windows(appetite, SESSION, SESSION // 2, 4, late=False) == [4, 8, 16, 32]
    windows(appetite, 3 * SESSION, 1, 1, late=True)
    again = windows(appetite, 4 * SESSION, SESSION, 12, late=False)
    assert max(again[:GOOD]) <= 16
    assert again == sorted(again)
    assert again[-1] >= 16


@given(
    st.lists(st.tuples(st.integers(0, 4 * SESSION), st.booleans()), max_size=60),
    st.integers(0, 50),
    st.integers(1, 5000),
    st.integers(0, 200),
)
def test_r18_it_may_take_something_after_some_sessions_at_most_and_never_more_than_there_is(
    looks: list[tuple[int, bool]], share: int, seats: int, members: int
) -> None:
    appetite, now = fed(Pace(1000, SESSION)), SESSION
    for wait, late in looks:
        now += wait
        left = appetite.left(now, share, seats, late=late, members=members)
        assert 0 <= left <= seats
        appetite.took(left)
    window = max(SESSION, 3 * members * APART_MS * MS // 2)
    assert appetite.left(now + (window << MOST_WAITS), share, seats, late=True, members=members) >= 1
    assert appetite.left(now + (window << MOST_WAITS) + window, share, seats, late=False, members=members) >= 1


def test_r18_who_looks_later_than_it_wanted_to_is_late() -> None:
    pace = Pace(1000, SESSION)
    pace.came_back(0, 10 * MS, held=False, for_lost=False)
    pace.wakes_at(SESSION)
    pace.woke(SESSION + SESSION // 4)
    assert pace.unhurried(2 * SESSION, SESSION)
    pace.wakes_at(3 * SESSION)
    pace.woke(3 * SESSION + SESSION // 4 + 1)
    assert not pace.unhurried(4 * SESSION, SESSION)
    assert pace.unhurried(5 * SESSION, SESSION)
    pace.woke(9 * SESSION)
    assert pace.unhurried(9 * SESSION, SESSION), "it did not want to look at all"
