"""How a member gives up what it holds (R4, R5, R6, R13, R15), and leaves."""

from __future__ import annotations

import pytest
from core_driver import LOCK, A, Solo, leader, once, with_others

from pares.core.claims.protocol import RoleSpec
from pares.core.events import Close, Closed, Declare, HandOver, Marked, PauseFor, Ready, Report, Restart, RewindTo
from pares.core.wire import records as R


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
    reasons = [report.text.removeprefix(f"'A' stays with {solo.me}: ") for report in solo.of(Report)]
    assert reasons == ["b~1 is not eligible for 'A'", "nobody~1 is not in the group", "a~1 holds it already"]
    assert b.n == 2


def test_r6_a_member_that_is_named_and_cannot_lead_is_refused_by_name_and_reason() -> None:
    solo, (unready, draining, overdue) = with_others("b~1", "c~1", "d~1")
    unready.write(R.Ready, ready=False, why="warming up", v=2)
    draining.write(R.Ask, drain="c~1", v=2)
    for _ in range(40):
        unready.beat(v=2)
        draining.beat(v=2)
        solo.run(0.1)
    for pen in (unready, draining, overdue):
        solo.step(HandOver("A", pen.id))
        solo.run(0.05)
    assert [report.text.partition(": ")[2].partition(":")[0] for report in solo.of(Report)] == [
        "b~1 is not ready (warming up)",
        "c~1 is draining",
        "d~1 is overdue",
    ]
    assert len(solo.claims.tenures.leading()) == 1


def test_r6_an_heir_that_dies_during_the_barrier_is_not_given_the_seat() -> None:
    solo, (_, c) = with_others("b~1", "c~1", lock=LOCK)
    solo.barriers = False
    solo.step(HandOver("A", "b~1"))
    solo.run(0.05)
    c.obituary("b~1")
    solo.run(0.05)
    term = solo.claims.tenures.by_seat[A]
    solo.claims.tenures.barrier_returned(term.seat, term.token)
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


def test_r11_where_the_log_has_no_word_for_it_ready_again_is_a_new_incarnation() -> None:
    solo, _ = with_others("b~1", reads=1, leader_={"writes": 1})
    solo.step(Ready(False))
    solo.run(0.1)
    assert solo.world.seats[A].holder == "b~1"
    solo.step(Ready(True))
    solo.run(0.2)
    assert isinstance(solo.ending, Restart)
