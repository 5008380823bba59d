"""A member's side of the protocol (R2 to R17): one member, on a log that the test holds in its hand."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from core_authors import BASE, Paper, Pen, began, token
from core_driver import WALL_US, Solo, once
from hypothesis import given
from hypothesis import strategies as st

from pares.core import fold
from pares.core import records as R
from pares.core.claims import RoleSpec, Stage
from pares.core.errors import ConfigError
from pares.core.lease import MS, challenge_ns, lease_ns
from pares.core.protocol import (
    Ask,
    Close,
    Closed,
    Declare,
    Died,
    Event,
    Follow,
    HandOver,
    Jumped,
    Lead,
    Live,
    Marked,
    PauseFor,
    Ready,
    Report,
    Restart,
    ResumeNow,
    RewindTo,
    StepDown,
    Stop,
    Watch,
)
from pares.core.records import Seat

A: Seat = ("A", 0)
LOCK = R.Lock(boot="boot", device="0", inode="1", file="f")


def leader(**config: Any) -> Solo:
    """A member that leads A."""
    solo = Solo("A", **config)
    solo.run(0.3)
    assert solo.world.seats[A].holder == solo.me
    return solo


def joined(solo: Solo, id: str, **join: Any) -> Pen:
    """Somebody else, who says nothing more by itself."""
    pen = Pen(solo.paper, id, **join)
    pen.base = solo.world.base
    return pen.join()


def with_others(*ids: str, **join: Any) -> tuple[Solo, list[Pen]]:
    """A member that leads A, in a group with others."""
    solo = leader()
    pens = [joined(solo, id, **join) for id in ids]
    solo.run(0.05)
    return solo, pens


# Joining -------------------------------------------------------------------------------------------------------------


def test_r9_an_empty_log_is_begun_joined_and_led() -> None:
    solo = Solo("A")
    written = solo.kinds(solo.run(0.1))
    assert written == ["Genesis", "Join", "Role", "Claim", "Did"]
    assert solo.world.base == pytest.approx(WALL_US, abs=10**6)
    assert len(solo.of(Live)) == 1
    (lead,) = solo.of(Lead)
    assert (lead.seat, lead.token) == (A, solo.world.seats[A].token)


def test_r9_a_new_log_begins_above_every_token_that_the_process_has_seen() -> None:
    solo = Solo("A", seen=3_000_000_000_000_000)
    solo.run(0.1)
    assert solo.world.base > 3_000_000_000_000_000
    assert solo.claims.largest_token >= solo.world.seats[A].token


@pytest.mark.parametrize("base", [R.MAX_BASE - 1, R.MAX_BASE - 100])
def test_r9_a_log_above_which_nothing_can_begin_is_said_to_be_so(base: int) -> None:
    paper = Paper(10)
    stranger = Pen(paper, "x~1")
    stranger.base = base
    stranger.beat()
    solo = Solo("A", paper=paper, start=10)
    solo.run(200, every=0.5)
    assert solo.claims.stage in (Stage.OVER, Stage.LIVE)


@pytest.mark.parametrize("fate", ["fails", "lost"])
def test_r9_failures_while_joining_are_no_refusals(fate: str) -> None:
    """A ledger that is away for a while must not end a member that has just started."""
    solo = Solo("A")
    solo.fate = lambda records: fate
    solo.run(30)
    assert solo.ending is None
    solo.fate = lambda records: "lands"
    solo.run(2)
    assert solo.world.seats[A].holder == solo.me


def test_a_group_that_has_no_room_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "MAX_MEMBERS", 2)
    monkeypatch.setattr(R, "MAX_MEMBERS", 2)
    paper, _ = began("b~1", "c~1")
    solo = Solo("A", paper=paper)
    solo.run(5)
    assert isinstance(solo.ending, Stop)
    assert solo.ending.kind == "refused"
    assert "no more fit" in solo.ending.text


def test_r11_a_group_that_writes_a_newer_format_is_not_joined() -> None:
    paper, (a,) = began("new~1", reads=2)
    a.beat(v=2)
    solo = Solo("A", paper=paper)
    written = solo.run(0.5)
    assert isinstance(solo.ending, Stop)
    assert (solo.ending.kind, written) == ("newer-format", [])
    assert "upgrade" in solo.ending.text


def test_what_does_not_fit_into_a_join_is_said_before_anything_is_read() -> None:
    with pytest.raises(ConfigError, match="too large"):
        Solo(eligible=tuple(f"{n:0>100}" for n in range(700)))


def test_r12_adrift_it_asks_for_a_snapshot_waits_the_longest_session_and_begins_anew() -> None:
    paper = Paper(10)
    old = Pen(paper, "old~1", session=3000).join()
    solo = Solo("A", paper=paper, start=10)
    written = solo.run(1)
    assert solo.kinds(written) == ["Join"]
    assert written[0].adrift
    wait = challenge_ns(3000, 0.0, 0.1) / 1e9
    assert solo.run(wait - 1.2) == [], "not before the longest session has passed since it read the last record"
    old.beat()
    assert solo.run(wait - 0.2) == [], "and anything written meanwhile begins the wait anew"
    written = solo.run(0.5)
    assert solo.kinds(written)[:2] == ["Genesis", "Join"]
    assert written[0].over == paper.entries[2][0]
    assert written[0].base > BASE
    assert solo.world.seats[A].holder == solo.me


def test_r12_a_log_with_nothing_of_the_group_is_begun_after_a_session_of_ones_own() -> None:
    solo = Solo("A", paper=Paper(7), start=7, session_ms=400)
    assert solo.run(0.39) == []
    assert solo.kinds(solo.run(0.3))[:2] == ["Genesis", "Join"]
    assert solo.world.seats[A].holder == solo.me


def test_r12_an_adrift_join_that_was_lost_is_written_again() -> None:
    paper = Paper(10)
    Pen(paper, "old~1", session=60_000).join()
    solo = Solo("A", paper=paper, start=10)
    solo.fate = once("Join")
    assert solo.kinds(solo.run(2)) == ["Join", "Join"]


# What happens to records whose append failed -------------------------------------------------------------------------

WISHES: list[tuple[Event, str]] = [
    (PauseFor(60_000, "A"), "Pause"),
    (ResumeNow("B"), "Resume"),
    (Declare("New", 2), "Role"),
    (Ask(seat=A), "Ask"),
    (Ask(drain="b~1"), "Ask"),
    (RewindTo((("A", 0, 5),)), "Rewind"),
    (Ready(False), "Ask"),
    (HandOver("A", "b~1"), "Transfer"),
    (StepDown("A"), "Transfer"),
]


@pytest.mark.parametrize("fate", ["fails", "lost"])
@pytest.mark.parametrize(("wish", "kind"), WISHES, ids=[f"{type(w).__name__}-{k}" for w, k in WISHES])
def test_r5_what_was_asked_for_survives_a_failed_append(wish: Event, kind: str, fate: str) -> None:
    solo, _ = with_others("b~1")
    if isinstance(wish, ResumeNow):
        solo.step(PauseFor(60_000, "B"))
        solo.run(0.1)
    solo.fate = once(kind, fate)
    solo.step(wish)
    written = solo.run(1)
    assert solo.kinds(written).count(kind) == 2
    first, again = (record for record in written if type(record).__name__ == kind)
    assert again.n > first.n, "a retry is a new record"


@pytest.mark.parametrize("fate", ["fails", "lost"])
def test_r7_an_obituary_is_written_until_it_stands(fate: str) -> None:
    solo, _ = with_others("b~1", lock=LOCK)
    solo.fate = once("Obituary", fate)
    solo.step(Died("b~1"))
    assert solo.kinds(solo.run(1)).count("Obituary") == 2
    assert "b~1" in solo.world.gone


@pytest.mark.parametrize("fate", ["fails", "lost"])
def test_r13_roles_are_declared_until_they_are_there(fate: str) -> None:
    solo = Solo("A")
    solo.fate = once("Role", fate)
    solo.run(1)
    assert solo.world.seats[A].holder == solo.me


@pytest.mark.parametrize("record", ["Beat", "Transfer"])
@pytest.mark.parametrize("fate", ["fails", "lost"])
def test_r15_a_mark_is_written_until_the_world_shows_it(record: str, fate: str) -> None:
    solo, _ = with_others("b~1")
    solo.step(Marked(A, solo.world.seats[A].token, 77))
    if record == "Transfer":
        solo.step(HandOver("A", "b~1"))
    solo.fate = once(record, fate)
    solo.run(1)
    assert solo.world.seats[A].mark == 77


@pytest.mark.parametrize("fate", ["fails", "lost"])
def test_r17_history_is_written_until_it_stands(fate: str) -> None:
    solo = Solo("A")
    solo.fate = once("Did", fate)
    solo.run(1)
    assert sum(b'"k":"did"' in payload for _, _, payload in solo.paper.entries) == 1


def test_r4_a_record_of_unknown_outcome_is_never_sent_a_second_time() -> None:
    solo = leader()
    solo.fate = lambda records: "lost"
    written = solo.run(3)
    numbers = [record.n for record in written]
    assert len(numbers) == len(set(numbers)) > 3


# Beliefs and the log -------------------------------------------------------------------------------------------------


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


# Claiming and challenging --------------------------------------------------------------------------------------------


def challenger(**holder: Any) -> tuple[Solo, Pen]:
    """A member in a group where `h~1` holds A and says nothing more."""
    paper, (h,) = began("h~1", **holder)
    h.claim("A")
    solo = Solo("A", paper=paper)
    solo.run(0.1)
    return solo, h


@given(st.integers(0, 900))
def test_r3_a_silent_holder_is_challenged_a_session_after_its_last_record_was_read(later_ms: int) -> None:
    solo, h = challenger()
    solo.run(later_ms / 1000)
    last = h.beat()
    solo.tick()
    read_at = solo.now
    while not (claims := [r for r in solo.run(0.01) if isinstance(r, R.Claim)]):
        assert solo.now < read_at + 1500 * MS
    assert claims[0].over == ("h~1", last)
    assert read_at + challenge_ns(1000, 0.1, 0.1) <= solo.now < read_at + challenge_ns(1000, 0.1, 0.1) + 20 * MS
    assert solo.world.seats[A].holder == solo.me


def test_r3_the_holders_session_is_waited_for_not_ones_own() -> None:
    solo, _ = challenger(session=3000)
    assert "Claim" not in solo.kinds(solo.run(2.8))
    assert "Claim" in solo.kinds(solo.run(0.5))


def test_r5_it_claims_again_only_after_it_saw_the_seat_free() -> None:
    solo = leader()
    solo.step(StepDown("A"))
    solo.fate = lambda records: "lost"
    written = solo.run(2)
    assert "Claim" not in solo.kinds(written)
    assert solo.kinds(written).count("Release") >= 2
    assert len({record.token for record in written if isinstance(record, R.Release)}) == 1


def test_r13_the_designated_member_claims_at_once_and_others_after_a_wait() -> None:
    paper, (x, _) = began("x~1", "0~1", roles=("B",))
    solo = Solo(eligible=("A",), paper=paper)
    solo.run(0.1)
    x.role("A")  # "0~1" comes first in the alphabet, and does nothing
    first = solo.run(0.2)
    assert "Claim" not in solo.kinds(first)
    x.beat()
    assert "Claim" in solo.kinds(solo.run(0.4))


def test_r13_who_stepped_down_leaves_the_seat_to_others_though_they_are_slow() -> None:
    solo, (b,) = with_others("b~1")
    solo.step(StepDown("A", why="a reason of my own"))
    solo.run(0.02)
    held = solo.world.seats[A]
    assert (held.holder, held.avoid) == ("b~1", None)
    # Somebody else has held it, so it may come back.
    b.release("A", held.token, down=True)
    solo.run(0.02)
    assert solo.world.seats[A].holder == solo.me


@pytest.mark.parametrize("down", [True, False])
def test_r13_only_who_stepped_down_keeps_off_a_free_seat_while_others_live(down: bool) -> None:
    """The designated one is alive and slow. Whoever lost the seat otherwise may claim it after a wait."""
    solo, (b,) = with_others("b~1")
    term = solo.claims.tenures.by_seat[A]
    solo.claims.tenures.stop(term, "test", solo.now, down=down, release_only=True)
    solo.claims.tenures.barrier_returned(term.token)
    written: list[Any] = []
    for _ in range(60):
        written += solo.run(0.01)
        b.beat()
    assert solo.kinds(written).count("Release") == 1
    if down:
        assert "Claim" not in solo.kinds(written)
    assert solo.world.seats[A].avoid == (solo.me if down else None)


def test_r14_under_a_pause_nobody_claims_but_a_silent_holders_seat_is_freed() -> None:
    solo, h = challenger()
    h.pause("A", ms=60_000)
    written = solo.run(2)
    claims = [record for record in written if isinstance(record, R.Claim)]
    assert [claim.free for claim in claims] == [True]
    assert solo.world.seats[A].holder is None
    assert "Claim" not in solo.kinds(solo.run(2))


def test_r14_an_administrator_frees_a_silent_holders_seat_too() -> None:
    paper, (h,) = began("h~1")
    h.claim("A")
    h.pause("A", ms=60_000)
    admin = Solo(eligible=(), paper=paper, id="admin~1", name="admin")
    admin.run(3)
    assert admin.world.seats[A].holder is None


@pytest.mark.parametrize("ms", [300, 1500])
def test_r14_a_pause_is_ended_by_whoever_has_measured_it(ms: int) -> None:
    solo, (b,) = with_others("b~1")
    b.pause("A", ms=ms)
    written = solo.run(ms / 1000 - 0.05)
    assert "Resume" not in solo.kinds(written)
    b.beat()
    assert solo.kinds(solo.run(0.2)).count("Resume") == 1
    assert not solo.world.pauses


# Giving up -----------------------------------------------------------------------------------------------------------


def test_r5_the_record_waits_for_the_barrier_and_beats_go_on() -> None:
    solo, _ = with_others("b~1")
    solo.barriers = False
    solo.step(HandOver("A", "b~1"))
    written = solo.kinds(solo.run(1))
    assert "Transfer" not in written
    assert written.count("Beat") >= 3
    assert not solo.claims.tenures.leading()


def test_r6_handed_over_to_who_can_not_take_it_it_stays() -> None:
    solo, (b,) = with_others("b~1", eligible=("B",))
    for to in ("b~1", "nobody~1", solo.me):
        solo.step(HandOver("A", to))
        solo.run(0.1)
    assert len(solo.claims.tenures.leading()) == 1
    assert [report.kind for report in solo.of(Report)] == ["not-handed-over"] * 3
    assert b.n == 1


def test_r6_an_heir_that_dies_during_the_barrier_is_not_given_the_seat() -> None:
    solo, (_, c) = with_others("b~1", "c~1", lock=LOCK)
    solo.barriers = False
    solo.step(HandOver("A", "b~1"))
    solo.run(0.05)
    c.obituary("b~1")
    solo.run(0.05)
    term = solo.claims.tenures.by_seat[A]
    solo.claims.tenures.barrier_returned(term.token)
    solo.run(0.1)
    assert solo.world.seats[A].holder == "c~1"


def test_r5_a_reason_that_is_too_long_stops_nothing() -> None:
    solo, _ = with_others("b~1")
    solo.step(HandOver("A", "b~1", why="x" * 5000))
    solo.run(0.2)
    assert solo.world.seats[A].holder == "b~1"


def test_a_request_that_fits_no_record_is_reported_and_stops_nothing() -> None:
    solo = leader()
    solo.step(Declare("x" * 300))
    solo.step(Declare("B"))
    solo.run(0.5)
    assert [report.kind for report in solo.of(Report)] == ["refused-request"]
    assert solo.claims.tenures.by_seat.keys() == {A, ("B", 0)}


def test_r15_a_rewind_of_many_seats_is_written_in_parts() -> None:
    admin = Solo(id="admin~1", name="admin", eligible=())
    admin.run(0.1)
    names = [f"{n:x>190}" for n in range(500)]
    for name in names:
        admin.step(Declare(name))
    admin.step(PauseFor(60_000))
    admin.run(0.2)
    admin.step(RewindTo(tuple((name, 0, 7) for name in names)))
    admin.run(0.2)
    assert {seat.mark for seat in admin.world.seats.values()} == {7}


def test_r15_marks_of_many_seats_with_long_names_are_written_all_the_same() -> None:
    names = [f"{n:\N{GRINNING FACE}>180}" for n in range(150)]
    solo = Solo(roles=tuple(RoleSpec(name) for name in names))
    solo.run(1)
    for seat, term in solo.claims.tenures.by_seat.items():
        solo.step(Marked(seat, term.token, 2**52))
    solo.run(1)
    assert all(seat.mark == 2**52 for seat in solo.world.seats.values())
    assert len(solo.world.seats) == 150


def test_r13_drained_it_gives_everything_up_and_takes_nothing() -> None:
    solo, (b,) = with_others("b~1")
    b.write(R.Ask, drain=solo.me)
    solo.run(0.1)
    assert solo.world.seats[A].holder == "b~1"
    b.leave()
    assert "Claim" not in solo.kinds(solo.run(2))


@pytest.mark.parametrize("others", [(), ("b~1",)])
def test_closing_hands_everything_over_then_leaves(others: tuple[str, ...]) -> None:
    solo, _ = with_others(*others)
    solo.step(Close())
    written = solo.kinds(solo.run(0.3))
    assert isinstance(solo.ending, Closed)
    assert written[-1] == "Leave"
    assert ("Transfer" in written) == bool(others)


def test_r4_a_leave_of_unknown_outcome_is_written_again_and_nothing_else_is() -> None:
    solo = leader()
    solo.fate = once("Leave", "lost")
    solo.step(Close())
    written = solo.kinds(solo.run(1))
    assert written.count("Leave") == 2
    assert written[written.index("Leave") :] == ["Leave", "Leave"]
    assert isinstance(solo.ending, Closed)


def test_ready_again_is_a_new_incarnation() -> None:
    solo, _ = with_others("b~1")
    solo.step(Ready(False))
    solo.run(0.1)
    assert solo.world.seats[A].holder == "b~1"
    solo.step(Ready(True))
    solo.run(0.2)
    assert isinstance(solo.ending, Restart)


# Rates, proof, snapshots ---------------------------------------------------------------------------------------------


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
