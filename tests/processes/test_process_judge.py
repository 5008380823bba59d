"""The judges of the tests with real processes can say no."""

from __future__ import annotations

from pathlib import Path

from process_beliefs import Belief, Recorder, beliefs
from process_judge import Write, falling_tokens, overlaps, zombie_writes


def test_beliefs_that_touch_or_follow_are_fine() -> None:
    found = [Belief("a", 0, 5, 100, 200), Belief("b", 0, 6, 201, 300), Belief("b", 1, 7, 100, 200)]
    assert overlaps(found) == falling_tokens(found) == []


def test_an_overlap_of_a_nanosecond_is_seen() -> None:
    found = [Belief("b", 0, 6, 200, 300), Belief("a", 0, 5, 100, 200)]
    assert overlaps(found) == ["role 0: a and b both believed for 0.000 ms"]


def test_an_overlap_is_seen_behind_a_shorter_belief_in_between() -> None:
    found = [Belief("a", 0, 5, 100, 900), Belief("b", 0, 6, 200, 210), Belief("c", 0, 7, 800, 950)]
    assert len(overlaps(found)) == 2


def test_one_member_may_follow_itself() -> None:
    assert overlaps([Belief("a", 0, 5, 100, 200), Belief("a", 0, 6, 150, 300)]) == []


def test_a_token_that_falls_or_stays_is_seen() -> None:
    found = [Belief("a", 0, 6, 100, 200), Belief("b", 0, 5, 300, 400), Belief("c", 0, 5, 500, 600)]
    assert len(falling_tokens(found)) == 2


def test_a_zombies_write_is_seen() -> None:
    fine = [Write("A", 5, "a", "leader"), Write("B", 9, "a", "leader"), Write("A", 6, "b", "leader")]
    assert zombie_writes(fine) == []
    assert len(zombie_writes([*fine, Write("A", 5, "a", "leader")])) == 1
    assert len(zombie_writes([*fine, Write("A", 5, "a", "zombie")])) == 2
    assert len(zombie_writes([*fine, Write("A", 6, "c", "leader")])) == 1


def test_what_is_recorded_is_read_back_on_the_safe_side(tmp_path: Path) -> None:
    path = tmp_path / "w1.beliefs"
    recorder = Recorder(path)
    assert beliefs(path) == []
    recorder.believed(0, 5, 100, 110)
    assert beliefs(path) == [Belief("w1", 0, 5, 110, 110)]
    recorder.believed(0, 5, 200, 210)
    recorder.believed(1, 7, 300, 310)
    recorder.believed(0, 8, 400, 410)
    assert beliefs(path) == [Belief("w1", 0, 5, 110, 200), Belief("w1", 1, 7, 310, 310), Belief("w1", 0, 8, 410, 410)]
