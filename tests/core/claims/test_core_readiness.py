"""R18 and R19: who is not ready, or can't lead, is given nothing, and gives up what it has."""

from __future__ import annotations

import pytest
from core_authors import Paper, Pen, began, raw, token, world_of
from core_driver import A, Solo, joined, leader
from hypothesis import given
from hypothesis import strategies as st

from pares.core.claims.fitness.pace import GOOD_TRIPS, LOSS_SESSIONS, MOST_DOUBLINGS, PATIENCE, Pace
from pares.core.claims.placing.placement import place
from pares.core.events import Lead, Ready, Restart
from pares.core.lease import MS, lease_ns
from pares.core.wire import records as R
from pares.core.wire.reader import Reader

SESSION = 1000 * MS


def in_force(*members: str) -> tuple[Paper, list[Pen]]:
    """A group in which version 2 of the format is in force."""
    paper, pens = began(*members, reads=2)
    pens[0].beat(v=2)
    return paper, pens


# The fold --------------------------------------------------------------------------------------------------------------


def test_r19_who_is_not_ready_gets_nothing_by_any_record_until_it_says_that_it_is() -> None:
    paper, (a, b) = in_force("a~1", "b~1")
    b.write(R.Ready, ready=False, v=2)
    b.claim("A")
    assert world_of(paper).seats[A].holder is None
    held = token(a.claim("A"))
    a.transfer("A", held, "b~1")
    assert world_of(paper).seats[A].holder is None, "as to one that drains: it acts as a release"
    b.write(R.Ready, ready=True, v=2)
    b.claim("A")
    assert world_of(paper).seats[A].holder == "b~1"


def test_r19_a_join_says_it_where_the_version_is_in_force() -> None:
    paper, _ = in_force("a~1")
    c = Pen(paper, "c~1", reads=2).join(v=2, ready=False)
    c.claim("A")
    world = world_of(paper)
    assert (set(world.unready), world.seats[A].holder) == ({"c~1"}, None)


def test_r19_what_is_held_is_kept_until_it_is_given_up() -> None:
    paper, (a, _) = in_force("a~1", "b~1")
    a.claim("A")
    a.write(R.Ready, ready=False, v=2)
    world = world_of(paper)
    assert world.seats[A].holder == "a~1"
    assert place(world, frozenset(world.members))[A] == "b~1"


def test_r11_r19_in_version_1_the_word_is_what_release_0_1_takes_it_for() -> None:
    """A record of an unknown kind is a sign of life, and a join with an unknown field is no record at all."""
    paper, (a, _) = began("a~1", "b~1", reads=2)
    at = a.write(R.Ready, ready=False)
    envelope = {"v": 1, "g": "g", "m": "c~1", "n": 1, "b": a.base, "s": 1}
    paper.put(raw(k="join", name="c", session=1000, reads=2, ready=True, **envelope))
    Pen(paper, "d~1", reads=2).join(v=2, ready=True)
    world = world_of(paper)
    assert (world.members["a~1"].offset, world.unready) == (at, {})
    assert world.members.keys() == {"a~1", "b~1"}, "nor counts such a join of version 2 before anything else of it has"
    Pen(paper, "e~1", reads=2).join(v=2)
    assert "e~1" in world_of(paper).members, "release 0.1 knows this form, and sees by it that version 2 has counted"


def test_r10_a_snapshot_carries_it_and_one_of_version_1_has_no_word_of_it() -> None:
    paper, (a, b) = began("a~1", "b~1", reads=2)
    before = world_of(paper)
    assert '"two"' not in before.dump()
    a.beat(v=2)
    ready = world_of(paper)
    b.write(R.Ready, ready=False, v=2)
    world = world_of(paper)
    again = type(world).load(world.dump())
    assert (again.unready, again.digest()) == (world.unready, world.digest())
    assert world.digest() != ready.digest()
    with pytest.raises(ValueError, match="version 2"):
        type(world).load(before.dump().replace('"highest":1', '"highest":2'))
    with pytest.raises(ValueError, match="version 2"):
        type(world).load(world.dump().replace('"highest":2', '"highest":1'))


# A member --------------------------------------------------------------------------------------------------------------


def test_r19_not_ready_when_it_begins_a_log_it_says_so_in_the_append_of_its_join() -> None:
    solo = Solo("A", ready=False)
    solo.run(2)
    kinds = solo.kinds(solo.sent)
    assert kinds[:3] == ["Genesis", "Join", "Ready"]
    assert "Claim" not in kinds
    assert solo.world.unready == {solo.me: "not ready"}
    solo.step(Ready(True))
    solo.run(0.5)
    assert (len(solo.of(Lead)), solo.of(Restart)) == (1, []), "it leads, in the same incarnation"
    solo.step(Ready(False))
    solo.run(0.1)
    assert solo.world.seats[A].holder is None


def test_r19_not_ready_it_does_not_join_a_group_that_has_no_word_for_it() -> None:
    paper, _ = began("old~1")
    solo = Solo("A", paper=paper, ready=False)
    assert solo.run(3) == []
    solo.step(Ready(True))
    assert solo.kinds(solo.run(1))[:2] == ["Join", "Claim"]


def test_r19_told_to_write_version_1_it_does_not_join_either() -> None:
    solo = Solo("A", ready=False, writes=1)
    assert solo.kinds(solo.run(3)) == ["Genesis"]
    solo.step(Ready(True))
    solo.run(0.5)
    assert {record.v for record in solo.sent} == {1}
    assert len(solo.of(Lead)) == 1


def test_r19_given_a_seat_as_it_stops_being_ready_it_believes_nothing() -> None:
    solo = Solo("A")
    solo.run(0.05)
    other = joined(solo, "b~1")
    held = solo.world.seats[A]
    assert held.holder == solo.me
    other.claim("A")
    solo.step(Ready(False))
    solo.run(0.1)
    given = other.claim("A")
    solo.step(Ready(True))
    solo.run(0.1)
    before = len(solo.of(Lead))
    solo.claims.request = None  # type: ignore[attr-defined]
    other.transfer("A", solo.world.base + given, solo.me)
    solo.step(Ready(False))
    solo.run(0.3)
    assert len(solo.of(Lead)) == before
    assert solo.world.seats[A].holder != solo.me


# R18 -------------------------------------------------------------------------------------------------------------------


class Trips:
    """Round trips of a holder, one after the other."""

    def __init__(self) -> None:
        self.pace = Pace(1000, lease_ns(1000, 0.1))
        self.now = 0

    def take(self, seconds: float, count: int = 1, *, held: bool = True) -> None:
        for _ in range(count):
            sent, self.now = self.now, self.now + int(seconds * 1e9)
            self.pace.appended(self.now - sent)
            self.pace.came_back(sent, self.now, held=held, for_lost=False)
            self.now += 1


def test_r18_a_holder_whose_trips_are_too_long_for_two_sessions_is_slow() -> None:
    trips = Trips()
    trips.take(0.9)
    assert not trips.pace.slow, "one says nothing"
    trips.take(0.9)
    assert trips.pace.slow, "the next one would end after two sessions"


def test_r18_with_an_overlap_a_holder_must_be_heard_within_its_session_all_the_same() -> None:
    """Its beliefs last, but the others claim its seats while its next record is under way."""
    lease, heard = lease_ns(1000, 0.1, 1000), lease_ns(1000, 0.1)
    trips = Trips()
    trips.pace = Pace(1000, lease, heard_ns=heard)
    trips.take(0.85, 3)
    assert lease > 2 * 0.85e9
    assert trips.pace.slow
    trips.pace = Pace(1000, lease, heard_ns=heard)
    for _ in range(5):
        sent, trips.now = trips.now, trips.now + int(1.2e9)
        trips.pace.appended(int(0.1e9))
        trips.pace.came_back(sent, trips.now, held=True, for_lost=False)
    assert not trips.pace.slow, "it is heard in time, and reads late what it can bear to read late"


@given(st.lists(st.tuples(st.floats(0.42, 60), st.floats(0.001, 0.3)), max_size=20))
def test_r18_long_trips_with_short_ones_between_them_say_nothing(pairs: list[tuple[float, float]]) -> None:
    """A process that was stopped, or a ledger that was out of reach."""
    trips = Trips()
    for long, short in pairs:
        trips.take(long)
        trips.take(short)
    assert not trips.pace.slow


def test_r18_a_standby_may_take_as_long_as_it_likes() -> None:
    trips = Trips()
    trips.take(0.9, 20, held=False)
    assert not trips.pace.slow


def test_r18_the_patience_doubles_each_time_up_to_a_bound_and_a_long_good_time_shortens_it() -> None:
    trips = Trips()
    found: list[int] = []
    for _ in range(MOST_DOUBLINGS + 3):
        trips.take(0.9, 2)
        assert trips.pace.slow
        began = trips.now
        while trips.pace.slow:
            trips.take(0.1)
        found.append(round((trips.now - began) / SESSION))
    assert found[:4] == [2, 4, 8, 16]
    assert found[-1] == found[-2] == PATIENCE * 2**MOST_DOUBLINGS
    for _ in range(200_000):
        trips.take(0.3)
    trips.take(0.9, 2)
    assert trips.pace.slow_until is not None
    assert trips.pace.slow_until - trips.now <= PATIENCE * SESSION


def test_r18_it_stays_slow_until_its_own_trips_would_let_it_lead() -> None:
    trips = Trips()
    trips.take(0.9, 100)
    assert trips.pace.slow
    trips.take(0.1, GOOD_TRIPS - 1)
    assert trips.pace.slow
    trips.take(0.9)
    began = trips.now
    while trips.pace.slow:
        trips.take(0.1)
    assert round((trips.now - began) / SESSION) == PATIENCE, "counted from the last trip that was too long"


def test_r18_the_second_loss_of_a_lease_near_the_limit_makes_it_slow() -> None:
    trips = Trips()
    trips.take(0.1)
    for _ in range(5):
        trips.pace.ran_out(trips.now)
    assert not trips.pace.slow, "it was stopped, or the ledger was out of reach: its trips are well inside the lease"
    trips.take(0.39)
    trips.pace.ran_out(trips.now)
    trips.now += LOSS_SESSIONS * SESSION
    trips.pace.ran_out(trips.now)
    assert not trips.pace.slow, "the one before is forgotten"
    trips.take(0.39)
    trips.pace.ran_out(trips.now)
    assert trips.pace.slow


def test_r18_near_the_limit_it_shows_itself_and_is_ready_only_when_all_trips_were_well_inside_for_a_patience() -> None:
    trips = Trips()
    trips.take(0.39)
    assert trips.pace.shown(trips.now, 1000), "short enough"
    trips.pace.ran_out(trips.now)
    assert not trips.pace.shown(trips.now, 1000)
    trips.pace.ran_out(trips.now)
    assert trips.pace.slow
    for _ in range(100):
        trips.take(0.39)
        trips.take(0.1, GOOD_TRIPS)
        assert trips.pace.slow
        assert not trips.pace.shown(trips.now, 1000)
    trips.take(0.1, 20)
    assert not trips.pace.slow
    assert trips.pace.shown(trips.now, 1000)


def test_r18_for_seats_that_nobody_else_could_hold_trips_will_do_that_are_just_short_enough() -> None:
    trips = Trips()
    trips.pace = Pace(1000, lease_ns(1000, 0.1), wanted=lambda: wanted)
    wanted = False
    trips.take(0.39)
    for _ in range(2):
        trips.pace.ran_out(trips.now)
    trips.take(0.39, 100)
    assert trips.pace.slow
    wanted = True
    trips.take(0.9)
    assert trips.pace.slow
    trips.take(0.39, GOOD_TRIPS)
    assert not trips.pace.slow


def test_r18_its_patience_is_that_of_the_longest_session_in_the_group() -> None:
    trips = Trips()
    trips.pace = Pace(1000, lease_ns(1000, 0.1), lambda: 4000)
    trips.take(0.9, 2)
    assert trips.pace.slow_until == trips.now - 1 + 4 * PATIENCE * SESSION


def test_r18_a_member_is_wanted_for_what_no_other_that_is_ready_could_hold() -> None:
    solo = leader()
    solo.run(0.05)
    assert solo.claims.living._wanted()  # pyright: ignore[reportPrivateUsage]
    joined(solo, "b~1")
    solo.run(0.05)
    assert not solo.claims.living._wanted()  # pyright: ignore[reportPrivateUsage]


def test_r18_it_says_until_when_to_who_asks_after_its_health() -> None:
    solo = leader()
    assert solo.claims.slow_until is None
    joined(solo, "b~1")
    pace = solo.claims.living.pace
    for sent in (0, 900 * MS, 1800 * MS):
        pace.came_back(solo.now - 2700 * MS + sent, solo.now - 1800 * MS + sent, held=True, for_lost=False)
    assert solo.claims.slow_until is not None
    assert solo.claims.slow_until > solo.now
    solo.run(0.05)
    assert (solo.world.unready, solo.world.seats[A].holder) == ({solo.me: "slow"}, "b~1")


# R6, R12 -----------------------------------------------------------------------------------------------------------------


def test_r6_who_does_not_know_that_it_could_lead_says_that_it_is_due_at_once() -> None:
    solo = leader()
    joined(solo, "b~1")
    other = Solo("A", paper=solo.paper, id="c~1", name="c")
    other.run(0.05)
    assert [record.s for record in other.sent] == [500, 1000], "a join, and a beat as soon as that was read back"
    other.reading = False
    other.now += 10_000 * MS
    other.tick()
    assert other.sent[-1].s == R.AT_ONCE
    other.reading = True
    assert R.AT_ONCE not in [record.s for record in other.run(0.05)][1:]


@pytest.mark.parametrize(("said", "longest"), [(250, 1004), (1000, 4004), (15_000, 60_000), (R.AT_ONCE, 60_000)])
def test_r12_of_who_has_no_join_left_in_the_log_its_records_say_how_long_its_session_may_be(
    said: int, longest: int
) -> None:
    paper = Paper(10)
    Pen(paper, "a~1").beat(s=said)
    reader = Reader("g")
    reader.attach(10, paper.end)
    reader.feed(paper.entries)
    reader.feed(paper.entries)
    assert reader.longest_ms == longest


def test_r12_only_a_former_incarnation_has_written_it_waits_for_that_ones_session() -> None:
    paper = Paper(10)
    Pen(paper, "a~0").beat(s=250)
    solo = Solo("A", paper=paper, start=10)
    solo.run(3)
    assert solo.world.seats[A].holder == solo.me
