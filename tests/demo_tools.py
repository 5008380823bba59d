"""What a run of the demo came to, for tests of how that is shown."""

from __future__ import annotations

from typing import Final

from pares.demo.summary import Summary

PLAYED: Final = Summary(
    takeovers={"crash": {"count": 6, "p50_ms": 4, "max_ms": 9}},
    quotes=2900,
    duplicates=0,
    missing=41,
    longest_gap_ms=1100,
    refused=8,
    stale=0,
    broken=[],
    unsure=[],
    checked=9,
    lost=[],
    report=None,
    why_no_audit=None,
    ledger="sqlite:///a.db",
    group="demo",
    kept=False,
)
