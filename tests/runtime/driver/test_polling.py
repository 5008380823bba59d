"""How long a driver waits for a bell before it looks without one (R21)."""

from __future__ import annotations

import pytest

from pares.runtime.driver.doorbell import NOTHING_THERE, UNSEEN, Polling, without_bell


def test_a_bell_that_rang_is_trusted_and_looked_after_four_times_a_session() -> None:
    polling = Polling(True)
    polling.waited(rang=True, found=True)
    assert [polling.patience(session_ms) for session_ms in (1000, 10_000, 60_000)] == [0.25, 2.5, 15.0]


def test_until_it_rang_looks_grow_rare() -> None:
    polling, waits = Polling(True), list[float]()
    for _ in range(10):
        waits.append(polling.patience(10_000))
        polling.waited(rang=False, found=False)
    assert waits[0] == UNSEEN
    assert waits == sorted(waits)
    assert waits[-1] == 2.5
    assert sum(waits[:5]) < 10, "most of them soon"


def test_a_bell_that_did_not_ring_for_what_was_found_is_trusted_no_more() -> None:
    polling = Polling(True)
    polling.waited(rang=True, found=True)
    polling.waited(rang=False, found=False)
    assert polling.patience(10_000) == 2.5, "nothing was missed"
    polling.waited(rang=False, found=True)
    assert polling.patience(10_000) == UNSEEN
    polling.waited(rang=True, found=False)
    assert polling.patience(10_000) == 2.5


@pytest.mark.parametrize("listens", [True, False])
def test_what_was_written_and_is_not_read_yet_is_looked_for_soon(listens: bool) -> None:
    polling = Polling(listens)
    polling.waited(rang=listens, found=False)
    assert polling.patience(1000, unread=True) == without_bell(1000) == 0.01


def test_without_a_bell_looks_follow_the_session() -> None:
    assert [Polling(False).patience(session_ms) for session_ms in (100, 2000, 60_000)] == [0.005, 0.02, 0.05]


def test_without_a_log_there_is_nothing_to_look_for() -> None:
    assert Polling(None).patience(50) == NOTHING_THERE
