"""What a member does for the group (R7, R10, R16): beats within a budget, watches locks, writes snapshots."""

from __future__ import annotations

from core_authors import Pen, began, token
from core_driver import LOCK, A, Solo, challenger, leader, with_others

from pares.core import records as R
from pares.core.lease import MS
from pares.core.protocol import (
    Died,
    HandOver,
    Lead,
    Report,
    Watch,
)


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
    pen = Pen(solo.paper, "late~1")
    pen.base = solo.world.base
    pen.join(adrift=True)
    written = solo.run(0.1)
    (snapshot,) = (record for record in written if isinstance(record, R.Snapshot))
    assert snapshot.upto == next(o for o, _, p in solo.paper.entries if b"late~1" in p) + 1


def test_r10_a_defect_is_reported() -> None:
    solo = leader(retention_ms=20_000)
    solo.run(30)
    pen = Pen(solo.paper, "liar~1")
    pen.base = solo.world.base
    pen.join()
    upto = max(solo.claims.reader.places)
    pen.write(R.Snapshot, upto=upto, id="x", part=0, parts=1, world="{}")
    solo.run(0.1)
    assert "defect" in [report.kind for report in solo.of(Report)]
