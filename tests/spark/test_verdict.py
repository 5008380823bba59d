"""What follows from the tables. No Spark here: verdicts are a function of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pares.spark.verdict import APPEND_MS, Case, Promise, by_cause, judge, numbers

TERM = {"role": "r", "seat": 0, "token": 5, "member": "a~0", "from_ms": 0, "to_ms": 9}
OVERLAP = {
    "role": "r", "seat": 0, "token_a": 5, "token_b": 6, "from_ms": 3, "to_ms": 9, "certain": True, "expected": False,
    "member_a": "a~0", "member_b": "b~0",
}  # fmt: skip
TAKEOVER = {"role": "r", "cause": "crash", "ms": 900, "limit_ms": 1112}
STALE = {"role": "r", "token": 5, "seen": 6}
CLEAN = Case(
    terms=[TERM], overlaps=[], takeovers=[TAKEOVER], checks=[], defects=0, stale=[], unknown=[], writes=7, overlap_ms=0,
    clock_error_ms=0,
)  # fmt: skip


def _changed(**changes: Any) -> list[Promise]:
    """The promises whose verdict differs from that of a clean case."""
    clean = judge(CLEAN)
    return [p for p, was in zip(judge(replace(CLEAN, **changes)), clean, strict=True) if p.verdict != was.verdict]


def test_a_clean_case_keeps_every_promise() -> None:
    promises = judge(CLEAN)
    assert [p.verdict for p in promises] == ["kept"] * 9
    assert all(p.promise.endswith(".") and p.evidence for p in promises)


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({"overlaps": [OVERLAP]}, "broken", "1 overlap; the longest is 6 ms, role r, seat 0, by a~0 and b~0"),
        ({"overlaps": [{**OVERLAP, "certain": False}]}, "unsure", "can't be excluded"),
        ({"checks": [{**TERM, "what": "two holders"}]}, "broken", "1 exception in 1 term"),
        ({"checks": [{**TERM, "what": "token fell"}]}, "broken", "token 5"),
        ({"checks": [{**TERM, "what": "no such term"}, {**TERM, "what": "before the log"}]}, "broken", "2 exceptions"),
        ({"checks": [{**TERM, "what": "believed again"}]}, "broken", "a~0"),
        ({"defects": 2}, "broken", "2 snapshots"),
        (
            {"takeovers": [{**TAKEOVER, "ms": 1112 + APPEND_MS + 1}]},
            "slow",
            "1 took longer than the session, by 251 ms at most; 1 by",
        ),
        ({"takeovers": []}, "not checked", "nobody crashed"),
        ({"takeovers": [{**TAKEOVER, "cause": "drain", "ms": 10**6}]}, "not checked", "nobody crashed"),
        ({"stale": [STALE]}, "broken", "1 of 7 writes; the first: role r, token 5 after 6"),
        ({"unknown": [STALE]}, "broken", "role r, token 5"),
    ],
)
def test_each_defect_changes_one_verdict(changes: dict[str, Any], verdict: str, words: str) -> None:
    (promise,) = _changed(**changes)
    assert promise.verdict == verdict
    assert words in promise.evidence


@pytest.mark.parametrize("ms", [900, 1112, 1113, 1112 + APPEND_MS])
def test_what_a_takeover_was_allowed_is_said(ms: int) -> None:
    """Never more than what is promised, and "kept" beside it, with nothing said of why."""
    evidence = next(p for p in judge(replace(CLEAN, takeovers=[{**TAKEOVER, "ms": ms}])) if "crash" in p.promise)
    assert evidence.verdict == "kept"
    assert f"longest {ms} ms. Promised: 1112 ms" in evidence.evidence
    assert (f"for which this audit allows {APPEND_MS} ms" in evidence.evidence) == (ms > 1112)
    assert (f"1 took longer than the session, by {ms - 1112} ms at most" in evidence.evidence) == (ms > 1112)


def test_sessions_that_differ_are_named() -> None:
    takeovers = [TAKEOVER, {**TAKEOVER, "limit_ms": 5556}]
    evidence = next(p for p in judge(replace(CLEAN, takeovers=takeovers)) if "crash" in p.promise).evidence
    assert "Promised: 1112 ms to 5556 ms" in evidence


def test_what_is_unsure_does_not_hide_what_is_certain() -> None:
    (promise,) = _changed(overlaps=[{**OVERLAP, "certain": False}, OVERLAP])
    assert promise.verdict == "broken"


def test_non_exclusive_groups_get_what_they_asked_for() -> None:
    loose = replace(CLEAN, overlap_ms=50, overlaps=[{**OVERLAP, "expected": True}], stale=[STALE])
    verdicts = {p.promise: p.verdict for p in judge(loose)}
    assert verdicts["No two members believed that they led one role for longer than the 50 ms asked for."] == "kept"
    assert "expected" in verdicts.values()
    assert "broken" not in verdicts.values()
    longer = judge(replace(loose, overlaps=[OVERLAP]))
    assert longer[0].verdict == "broken"


def test_without_writes_nothing_is_said_of_them() -> None:
    promises = judge(replace(CLEAN, stale=None, unknown=None))
    assert [p.verdict for p in promises] == ["kept"] * 7 + ["not checked"]


def test_numbers() -> None:
    assert numbers([]) == {"count": 0, "p50_ms": 0, "max_ms": 0, "sum_ms": 0}
    assert numbers([30, 1, 2]) == {"count": 3, "p50_ms": 2, "max_ms": 30, "sum_ms": 33}
    rows = [{"cause": c, "ms": 1, "from_ms": 5, "to_ms": 9} for c in ("b", "a", "a")]
    assert list(by_cause(rows)) == ["a", "b"]
    assert by_cause(rows, None)["b"]["max_ms"] == 4
