"""What a large group costs and what shedding by halves would cost, in virtual time: small ones here."""

from __future__ import annotations

import sys

import pytest
from bench.crowd import Crowd

from bench import crowd, shedding
from pares.core.lease import MS


def test_a_group_starts_settles_loses_half_and_wins_as_many(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["crowd", "--members", "20", "--roles", "200", "--session", "1"])
    crowd.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    assert lines[0].startswith("| what | virtual time |")
    assert lines[4].startswith("| ten sessions of calm | 10.00 s | 800 | 0 | 0 | - | 0 |")


def test_nothing_is_measured_of_a_group_that_does_not_come_to_be() -> None:
    group = Crowd(2, 2, 1.0, 1)
    with pytest.raises(AssertionError, match="twenty sessions"):
        group._until(lambda: False)()  # pyright: ignore[reportPrivateUsage]


def test_r18_to_shed_by_halves_helps_no_member_whose_trips_are_long_anyhow() -> None:
    """It leads none of what it keeps."""
    at_once, halves = (shedding.slowed(lambda held: 700 * MS, halves=how) for how in (False, True))
    assert at_once.unled <= halves.unled
    assert at_once.fenced <= halves.fenced
