"""The benchmarks on Kafka: they run."""

from __future__ import annotations

import pytest
from bench_run import is_spread, measured


@pytest.mark.brokers
@pytest.mark.timeout(400)
def test_a_quick_run() -> None:
    rows = {row["what"]: row["figures"] for row in measured("--ledger", "kafka", "--nodes", "1")}
    assert len(rows) == 14
    for what, figures in rows.items():
        assert what.startswith("1 node: ")
        if "source" in what or "consume()" in what:
            assert is_spread(figures, "us" if "processor time" in what else "k records/s"), figures
        elif "live leader" in what:
            assert figures.isdigit()
        elif " / plain" not in what:
            assert is_spread(figures, "ms"), figures
