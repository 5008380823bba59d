"""What ends a member's beliefs, and itself (R2, R4, R8, R12): its lease, deafness, doubt, clones, jumps of the log."""

from __future__ import annotations

import itertools

from core_authors import Pen
from core_driver import LOCK, A, Solo, joined, leader, with_others

from pares.core.events import Follow, Jumped, Lead, Report, Restart, Stop
from pares.core.lease import MS, challenge_ns, lease_ns
from pares.core.wire import records as R


def test_r4_the_belief_ends_a_lease_after_the_last_record_that_came_back_was_sent() -> None:
    solo = leader()
    solo.fate = lambda records: "lost"
    counted = solo.claims.outbox.sent.counted
    assert counted is not None
    solo.run(2)
    (follow,) = solo.of(Follow)
    assert follow.fenced
    assert follow.at == counted + lease_ns(1000, 0.1)


def test_r2_r4_acknowledged_is_not_accepted() -> None:
    """It is buried by mistake. Its beats go on to land and are acknowledged, but nothing of it counts any more; so its lease
    counts from the last record that did, also when it reads all of this only later."""
    solo = leader(lock=LOCK)
    undertaker = joined(solo, "x~1")
    solo.run(0.05)
    counted = solo.claims.outbox.sent.counted
    assert counted is not None
    undertaker.obituary(solo.me)
    solo.reading = False
    written = solo.run(0.75)
    assert solo.kinds(written).count("Beat") >= 2
    assert solo.claims.until == counted + lease_ns(1000, 0.1)
    solo.run(0.2)
    assert solo.of(Follow)[-1].at == counted + lease_ns(1000, 0.1)
    solo.reading = True
    solo.run(0.01)
    assert isinstance(solo.ending, Restart)


def test_r2_deaf_it_releases_once_and_falls_silent_until_it_has_caught_up() -> None:
    solo = leader()
    solo.reading = False
    written = solo.kinds(solo.run(5))
    assert written[-1] == "Release"
    assert written.count("Release") == 1
    assert solo.of(Follow)[-1].why == "lease ran out"
    solo.reading = True
    assert solo.run(0.5) != []
    assert solo.world.seats[A].holder == solo.me, "it claims again after it saw the seat free"
    assert len({lead.token for lead in solo.of(Lead)}) == 2


def test_r2_in_doubt_it_writes_more_seldom_than_its_session_whatever_it_writes() -> None:
    """Appends land, and nothing comes back. It may hold seats unknown to it: whoever waits for its silence gets it."""
    solo = leader()
    solo.reading = False
    solo.fate = lambda records: "late"
    times: list[int] = []
    for _ in range(1200):
        if solo.run(0.01):
            times.append(solo.now)
    gaps = [(after - before) / MS for before, after in itertools.pairwise(times)]
    assert len(gaps) > 5
    quiet = [gap for gap, at in zip(gaps, times[1:], strict=False) if at > 2000 * MS + 300 * MS]
    assert quiet
    assert all(gap > challenge_ns(1000, 0.1, 0.1) / MS for gap in quiet)


def test_r8_a_record_of_its_own_id_that_it_did_not_write_ends_it() -> None:
    solo = leader()
    Pen.write(_as(solo, n=50), R.Beat)
    solo.run(0.1)
    assert isinstance(solo.ending, Stop)
    assert solo.ending.kind == "cloned"
    assert solo.of(Follow)[-1].why == "cloned"


def test_r8_a_namesake_is_reported_and_takes_nothing() -> None:
    solo, _ = with_others("twin~1", name="a")
    (report,) = solo.of(Report)
    assert report.kind == "duplicate-name"
    assert solo.claims.tenures.leading()


def _as(solo: Solo, *, n: int) -> Pen:
    pen = Pen(solo.paper, solo.me)
    pen.base, pen.n = solo.world.base, n
    return pen


def test_r12_a_jump_ends_beliefs_first_and_then_the_incarnation() -> None:
    solo = leader()
    effects = solo.step(Jumped("another log"))
    assert [type(effect) for effect in effects] == [Follow, Restart]
    assert solo.step(Jumped("again")) == []


def test_r2_who_is_no_longer_in_the_group_begins_anew() -> None:
    solo = leader(lock=LOCK)
    joined(solo, "x~1").obituary(solo.me)
    solo.run(0.1)
    assert isinstance(solo.ending, Restart)
    assert solo.of(Follow)[-1].fenced
