"""The benchmarks on Kafka: they run."""

from __future__ import annotations

import pytest
from bench_run import is_spread, measured


@pytest.mark.brokers
@pytest.mark.timeout(400)
def test_a_quick_run() -> None:
    only = [word for case in ("roundtrip", "handover", "takeover", "source", "false") for word in ("--only", case)]
    rows = {row["what"]: row["figures"] for row in measured("--ledger", "kafka", "--nodes", "1", *only)}
    assert len(rows) == 14
    for what, figures in rows.items():
        assert what.startswith("1 node: ")
        if "source" in what or "consume()" in what:
            assert is_spread(figures, "us" if "processor time" in what else "k records/s"), figures
        elif "live leader" in what:
            assert figures.isdigit()
        elif " / plain" not in what:
            assert is_spread(figures, "ms"), figures


@pytest.mark.brokers
@pytest.mark.timeout(400)
def test_idle_members_beside_a_consumer_group() -> None:
    rows = {row["what"]: row["figures"] for row in measured("--ledger", "kafka", "--only", "idle", "--session", "1")}
    assert is_spread(rows["idle member, all holding, 3 members, session 1 s"], "% of a core")
    assert is_spread(rows["idle consumer of a plain group, 3 members, session 1 s"], "% of a core")
    assert is_spread(rows["idle member's memory, 3 members, session 1 s"], "MB")
    sent = [figures for what, figures in rows.items() if what.startswith("sent by all")]
    assert len(sent) == 3, "of pares, of the consumer group, and of kazoo's clients"
    for figures in sent:
        assert "segments/s" in figures or "not measured" in figures
