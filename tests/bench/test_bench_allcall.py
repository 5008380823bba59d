"""The benchmarks of ALLCALL: their bounds are the protocol's, and they run."""

from __future__ import annotations

import pytest
from bench.allcall.cases import SHORT, USUAL
from bench.leaderships import at, none, several
from bench_run import is_spread, measured


def test_bounds_are_those_of_the_protocol() -> None:
    assert USUAL.crash_ms == 12_020
    assert USUAL.beat_ms == 1020
    assert SHORT.term_ms == 1120


def test_who_led_when() -> None:
    ms = 1_000_000
    changes = [(10 * ms, "a", True), (30 * ms, "b", True), (50 * ms, "a", False), (80 * ms, "b", False)]
    assert at(changes, 9 * ms) == set()
    assert at(changes, 30 * ms) == {"a", "b"}
    assert none(changes, 0, 100 * ms) == 10 + 20
    assert several(changes, 0, 100 * ms) == 20
    assert several(changes, 40 * ms, 45 * ms) == 5
    assert none(changes, 12 * ms, 70 * ms) == 0
    assert none([], 0, 7 * ms) == 7


@pytest.mark.brokers
@pytest.mark.timeout(400)
def test_a_quick_run() -> None:
    rows = {row["what"]: row["figures"] for row in measured("--protocol", "allcall")}
    assert len(rows) == 6 + 3 + 8 + 2
    assert all(is_spread(figures, "ms") for figures in rows.values()), rows
