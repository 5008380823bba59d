"""When a member claims, and when it must not yet (R3, R5, R13, R14)."""

from __future__ import annotations

from typing import Any

import pytest
from core_authors import began
from core_driver import A, Solo, challenger, leader, with_others
from hypothesis import given
from hypothesis import strategies as st

from pares.core.events import StepDown
from pares.core.lease import MS, challenge_ns
from pares.core.wire import records as R


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


def test_r13_who_holds_another_seat_of_the_role_keeps_nobody_waiting() -> None:
    paper, (b, _) = began("b~1", "c~1", session=60_000)
    b.role("A", seats=2)
    b.claim("A")
    solo = Solo(paper=paper, eligible=())
    solo.run(0.1)
    moves, one, other = solo.claims.living.moves, ("A", 0), ("A", 1)
    assert moves.designated(solo.world, "c~1", other) == "c~1"
    assert moves.designated(solo.world, "b~1", other) == "c~1", "the first in line who can"
    assert moves.designated(solo.world, None, one) is None


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
    """The designated one is alive and slow. A member that lost the seat otherwise may claim it after a wait."""
    solo, (b,) = with_others("b~1")
    term = solo.claims.tenures.by_seat[A]
    solo.claims.tenures.stop(term, "test", solo.now, down=down, release_only=True)
    solo.claims.tenures.barrier_returned(term.seat, term.token)
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
