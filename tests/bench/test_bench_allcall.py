"""The benchmarks of ALLCALL: their bounds are the protocol's, and they run."""

from __future__ import annotations

import pytest
from bench.allcall import SHORT, USUAL
from bench_run import is_spread, measured


def test_bounds_are_those_of_the_protocol() -> None:
    assert USUAL.crash_ms == 12_020
    assert USUAL.beat_ms == 1020
    assert SHORT.term_ms == 1120


@pytest.mark.brokers
@pytest.mark.timeout(400)
def test_a_quick_run() -> None:
    rows = {row["what"]: row["figures"] for row in measured("--protocol", "allcall")}
    assert len(rows) == 6
    assert all(is_spread(figures, "ms") for figures in rows.values()), rows
