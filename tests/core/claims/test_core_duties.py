"""What a member does for the group (R7, R10, R16): beats within a budget, watches locks, writes snapshots."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from core_authors import Paper, Pen, began, token
from core_driver import LOCK, A, Solo, challenger, leader, with_others

from pares.core.claims.chores import snapshotting
from pares.core.claims.chores.duties import EAGER, gather_ns, judge_ns
from pares.core.events import Append, Died, HandOver, Lead, Report, Wake, Watch
from pares.core.lease import MS
from pares.core.wire import records as R


def beats(solo: Solo, seconds: float) -> list[float]:
    """When it wrote anything, in seconds."""
    times: list[float] = []
    end = solo.now + int(seconds * 1000) * MS
    while solo.now < end:
        if solo.run(0.01):
            times.append(solo.now / 1e9)
    return times


def test_r16_holders_beat_four_times_a_session_and_standbys_once() -> None:
    solo = leader()
    solo.run(1)
    assert 11 <= len(beats(solo, 3)) <= 13
    standby, h = challenger(session=60_000)
    standby.run(2)
    assert 2 <= len(beats(standby, 3)) <= 4
    assert h.n == 3


@pytest.mark.parametrize("fate", ["fails", "lost"])
def test_r16_a_standby_whose_beats_are_lost_writes_again_as_often_as_a_holder(fate: str) -> None:
    """Others take it for silent after 2.25 sessions (R20)."""
    standby, _ = challenger(session=60_000)
    standby.run(2)
    lost, tried, landed = 2, list[int](), list[int]()

    def choose(records: list[object]) -> str:
        tried.append(standby.now)
        if landed and len(tried) <= lost + 1:
            return fate
        landed.append(standby.now)
        return "lands"

    standby.fate = choose
    standby.run(5)
    gaps = [(later - earlier) / 1e9 for earlier, later in itertools.pairwise(tried)]
    assert gaps[0] == pytest.approx(1.0, abs=0.02)
    assert gaps[1:3] == pytest.approx([0.25, 0.25], abs=0.02)
    assert gaps[3:] == pytest.approx([1.0] * len(gaps[3:]), abs=0.02)
    assert (landed[1] - landed[0]) / 1e9 < 1.6


def test_r16_the_next_record_comes_no_later_than_the_last_one_said() -> None:
    solo, _ = with_others("b~1")
    solo.step(HandOver("A", "b~1"))
    promised, last = 0.0, 0.0
    for _ in range(400):
        for record in solo.run(0.01):
            if last:
                assert solo.now / 1e9 - last <= promised + 0.02
            promised, last = record.s / 1000, solo.now / 1e9
    assert last


def test_r16_a_standby_of_a_large_group_keeps_to_its_share() -> None:
    """4,000 standbys that share 200 records a second write one each 20 seconds; a group that forgets whoever is silent for
    too many records must not make them write more, or every record would bring more than one."""
    paper = Paper()
    paper.genesis()
    crowd = [Pen(paper, f"m{i}~1", session=60_000).join(s=600_000) for i in range(4000)]
    solo = Solo(paper=paper, eligible=())
    solo.run(0.1, every=0.05)
    solo.run(1, every=0.5)
    written_at: list[int] = []
    for turn in range(0, 45 * 200, 100):
        for i in range(turn, turn + 100):
            crowd[i % 4000].beat(s=600_000)
        if solo.run(0.5, every=0.5):
            written_at.append(solo.now // MS)
    assert "a~1" in solo.world.members
    assert len(written_at) >= 2
    assert all(later - earlier >= 19_000 for earlier, later in itertools.pairwise(written_at)), written_at


def test_r16_who_is_given_a_seat_and_has_no_good_lease_beats_at_once() -> None:
    paper, (h,) = began("h~1", session=60_000)
    held = h.claim("A")
    solo = Solo("A", paper=paper)
    solo.run(0.95)
    while solo.now < solo.claims.until:
        solo.run(0.01)
    assert solo.now < solo.claims.outbox.last_at + 1000 * MS, "its beat is not due yet"
    h.transfer("A", token(held), solo.me)
    written = solo.run(0.02)
    assert solo.kinds(written)[0] == "Beat"
    assert solo.of(Lead)


def test_r7_locks_of_holders_on_the_same_host_are_watched() -> None:
    paper, (h, _) = began("h~1", "z~1", lock=LOCK)
    h.claim("A")
    solo = Solo("A", paper=paper, lock=LOCK, id="i~1", name="i")
    solo.run(0.1)
    assert list(solo.of(Watch)[-1].locks) == ["h~1"]
    h.leave()
    solo.run(0.1)
    assert list(solo.of(Watch)[-1].locks) == []


def test_r7_obituary_and_claim_go_in_one_append() -> None:
    paper, (h,) = began("h~1", lock=LOCK)
    h.claim("A")
    solo = Solo("A", paper=paper, lock=LOCK)
    solo.run(0.1)
    solo.step(Died("h~1"))
    written = solo.run(0.01)
    assert solo.kinds(written)[:2] == ["Obituary", "Claim"]
    assert solo.world.seats[A].holder == solo.me


@pytest.mark.parametrize(("me", "other", "at_once"), [("a~1", "z~1", True), ("z~1", "a~1", False)])
def test_r7_of_two_watchers_the_heir_buries_and_the_other_only_if_it_must(me: str, other: str, at_once: bool) -> None:
    paper, (h, _) = began("h~1", other, lock=LOCK)
    h.claim("A")
    solo = Solo("A", paper=paper, lock=LOCK, id=me, name=me[0])
    solo.run(0.1)
    solo.step(Died("h~1"))
    soon = solo.kinds(solo.run(0.01))
    assert ("Obituary" in soon, "Claim" in soon) == (at_once, at_once)
    later = solo.kinds(solo.run(0.02))
    assert [*soon, *later].count("Obituary") == 1
    assert "h~1" not in solo.world.members


def test_r10_a_lone_holder_writes_a_snapshot_often_enough_and_it_agrees() -> None:
    solo = leader(retention_ms=20_000)
    written = solo.run(40)
    assert solo.kinds(written).count("Snapshot") >= 4
    assert solo.claims.reader.verified > 0
    assert solo.claims.reader.defects == []
    fresh = Solo("A", paper=solo.paper, start=solo.claims.reader.verified, id="b~1", name="b")
    fresh.run(0.5)
    assert fresh.world.members.keys() == {"a~1", "b~1"}


def test_r10_an_adrift_join_is_answered_at_once() -> None:
    solo = leader()
    pen = Pen(solo.paper, "late~1", reads=R.READS)
    pen.base = solo.world.base
    pen.join(adrift=True)
    written = solo.run(0.1)
    (snapshot,) = (record for record in written if isinstance(record, R.Snapshot))
    assert snapshot.upto == next(o for o, _, p in solo.paper.entries if b"late~1" in p) + 1


def test_r10_a_defect_is_reported() -> None:
    solo = leader(retention_ms=20_000)
    solo.run(30)
    pen = Pen(solo.paper, "liar~1", reads=R.READS)
    pen.base = solo.world.base
    pen.join()
    upto = max(solo.claims.reader.places)
    pen.write(R.Snapshot, upto=upto, id="x", part=0, parts=1, world="{}")
    solo.run(0.1)
    assert "defect" in [report.kind for report in solo.of(Report)]


def wakes_in(others: int) -> float:
    """In how many milliseconds a standby asks to be woken whose fellows have just said that they write again in 100 ms."""
    paper, pens = began(*(f"m{n:02}~1" for n in range(others)), roles=())
    solo = Solo(paper=paper)
    solo.run(0.05)
    for pen in pens:
        pen.beat(s=100)
    solo.tick()
    return (solo.of(Wake)[-1].at - solo.now) / MS


def test_r21_in_a_large_group_nobody_wakes_because_another_is_late() -> None:
    """Each quarter of a session it looks anyway, and sees it then."""
    assert wakes_in(EAGER - 1) == 2 * 100 + 1000 // 4
    assert wakes_in(EAGER) > 900, "its own next beat"


def test_r21_the_larger_the_group_the_longer_a_round_gathers() -> None:
    assert gather_ns(EAGER, 1000) == 0
    assert 1 * MS < gather_ns(EAGER + 1, 1000) < gather_ns(100, 1000) == 10 * MS
    assert gather_ns(1000, 1000) == gather_ns(300, 1000) == 25 * MS, "a fortieth of a session at the most"
    assert gather_ns(1000, 10_000) == 100 * MS


def large(**config: Any) -> tuple[Solo, list[Pen]]:
    """A member that leads A, in a large group whose others beat now and then."""
    solo, pens = with_others(*(f"p{i:02}~1" for i in range(EAGER + 4)), leader_=config)
    assert len(solo.world.members) > EAGER
    return solo, pens


def spoken(solo: Solo, pens: list[Pen], seconds: float) -> list[tuple[int, Any]]:
    """What the member has written meanwhile, and when; the others beat."""
    found: list[tuple[int, Any]] = []
    end = solo.now + int(seconds * 1000) * MS
    while solo.now < end:
        for pen in pens:
            pen.beat()
        for _ in range(10):
            found += [(solo.now, record) for record in solo.run(0.01)]
    return found


def test_r10_in_a_large_group_parts_come_one_at_a_time_and_the_last_one_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshotting, "PART_TEXT", 1000)
    solo, pens = large(retention_ms=40_000)
    written = spoken(solo, pens, 14)
    parts = [(at, record) for at, record in written if isinstance(record, R.Snapshot)]
    assert len(parts) == parts[0][1].parts > 3
    assert [record.part for _, record in parts] == list(range(len(parts)))
    apart = [(later - earlier) // MS for (earlier, _), (later, _) in itertools.pairwise(parts)]
    assert min(apart) >= 250
    assert max(apart) < 600
    urgent = {payload: append.urgent for append in solo.of(Append) for payload in append.payloads}
    woke = [urgent[R.encode(record)] for _, record in parts]
    assert woke == [False] * (len(parts) - 1) + [True]
    assert solo.claims.reader.verified == parts[0][1].upto
    assert solo.claims.reader.defects == []


def test_r10_in_a_large_group_each_compares_a_snapshot_at_its_own_time() -> None:
    paper, pens = began(*(f"p{i:02}~1" for i in range(EAGER + 4)), reads=R.READS)
    pens[0].beat()
    pens[0].claim("A")
    solo = Solo(paper=paper, eligible=("A",), id="b~1", name="b")
    spoken(solo, pens, 3)
    reader = solo.claims.reader
    reader.wanted, at = True, reader.world.placed
    while reader.world.placed == at:
        spoken(solo, pens, 0.1)
    taken, reader.taken, before = reader.taken, None, reader.verified
    assert taken is not None
    assert taken.upto > before
    pens[0].write(R.Snapshot, upto=taken.upto, id="x", part=0, parts=1, world=taken.text)
    due = judge_ns(solo.world, solo.me)
    assert due > 2 * MS
    solo.run(0.001, every=0.001)
    assert (reader.verified, len(reader.unjudged)) == (before, 1)
    solo.run(due / 1e9 + 0.01, every=0.001)
    assert (reader.verified, reader.unjudged, reader.defects) == (taken.upto, [], [])
