"""Continuous availability: two members lead each role, on two hosts, and whatever is killed, nobody's absence shows.

A short form of `python tests/processes/continuous.py`. `PARES_KILLS` says how many are killed (4).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from continuous import ROLES, Company, most_at_once, uncovered
from process_beliefs import Belief

KILLS = int(os.environ.get("PARES_KILLS", "4"))


@pytest.fixture
def company(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Company]:
    layout = request.node.callspec.params["layout"]
    company = Company(tmp_path, f"sqlite:///{tmp_path}/log.db?partitions=4", layout)
    yield company
    company.end()


@pytest.mark.processes
@pytest.mark.timeout(900)
@pytest.mark.parametrize("layout", ["seats", "groups"])
def test_no_role_is_without_a_leader_at_any_instant(company: Company, layout: str) -> None:
    first = company.begin()
    while company.kills < KILLS:
        company.strike()
    last = company.known_until()
    found = company.all_beliefs()
    gaps = uncovered(found, first, last)
    assert gaps == [], "\n".join(line for gap in gaps for line in company.told(gap, first))
    assert most_at_once(found) >= 2
    assert {belief.role for belief in found} == set(range(len(ROLES)))


# The judge can say no --------------------------------------------------------------------------------------------------------


def test_a_gap_of_a_nanosecond_is_seen() -> None:
    found = [Belief("a", 0, 1, 0, 100), Belief("b", 0, 2, 101, 200)]
    assert uncovered(found, 0, 200, roles=1) == [(0, 100, 101)]
    assert uncovered(found, 0, 100, roles=1) == []
    assert uncovered([*found, Belief("c", 0, 3, 50, 150)], 0, 200, roles=1) == []


def test_a_gap_at_either_end_is_seen() -> None:
    found = [Belief("a", 0, 1, 10, 90)]
    assert uncovered(found, 0, 100, roles=1) == [(0, 0, 10), (0, 90, 100)]


def test_a_role_that_nobody_ever_led_is_one_gap() -> None:
    assert uncovered([Belief("a", 0, 1, 0, 100)], 0, 100, roles=2) == [(1, 0, 100)]


def test_how_many_led_at_once_is_counted() -> None:
    found = [Belief("a", 0, 1, 0, 100), Belief("b", 0, 2, 50, 80), Belief("c", 0, 3, 60, 70), Belief("d", 1, 4, 0, 100)]
    assert most_at_once(found, roles=2) == 3
