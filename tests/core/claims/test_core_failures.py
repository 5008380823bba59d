"""What becomes of what a member wanted to write when its append has failed (R4, R5): it is looked at again, as a new record."""

from __future__ import annotations

import pytest
from core_driver import LOCK, A, Solo, leader, once, with_others

from pares.core import events as ev

WISHES: list[tuple[ev.Event, str]] = [
    (ev.PauseFor(60_000, "A"), "Pause"),
    (ev.ResumeNow("B"), "Resume"),
    (ev.Declare("New", 2), "Role"),
    (ev.Ask(seat=A), "Ask"),
    (ev.Ask(drain="b~1"), "Ask"),
    (ev.RewindTo((("A", 0, 5),)), "Rewind"),
    (ev.Ready(False), "Ready"),
    (ev.HandOver("A", "b~1"), "Transfer"),
    (ev.StepDown("A"), "Transfer"),
]


@pytest.mark.parametrize("fate", ["fails", "lost"])
@pytest.mark.parametrize(("wish", "kind"), WISHES, ids=[f"{type(w).__name__}-{k}" for w, k in WISHES])
def test_r5_what_was_asked_for_survives_a_failed_append(wish: ev.Event, kind: str, fate: str) -> None:
    solo, _ = with_others("b~1")
    if isinstance(wish, ev.ResumeNow):
        solo.step(ev.PauseFor(60_000, "B"))
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
    solo.step(ev.Died("b~1"))
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
    solo.step(ev.Marked(A, solo.world.seats[A].token, 77))
    if record == "Transfer":
        solo.step(ev.HandOver("A", "b~1"))
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
