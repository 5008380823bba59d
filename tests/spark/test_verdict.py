"""What follows from the sums over the tables. No Spark here: verdicts are a function of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pares.core.errors import ConfigError
from pares.spark.result import AuditResult
from pares.spark.rules.base import APPEND_MS, Allowed
from pares.spark.verdict import Case, Promise, by_cause, judge

WORST = {
    "role": "r", "seat": 0, "token_a": 5, "token_b": 6, "member_a": "a~0", "member_b": "b~0", "length_ms": 6,
    "evidence": "seen so",
}  # fmt: skip
SUDDEN = {
    "count": 1, "p50_ms": 900, "max_ms": 900, "least_limit": 1112, "most_limit": 1112, "beyond": 0, "most_beyond": -212,
}  # fmt: skip
FIRST = {"rows": 1, "count": 1, "first": {"role": "r", "token": 5, "seen": 6}}
CLEAN = Case(terms=1, beliefs=1, sudden=SUDDEN, sink={}, writes=7)


def _found(rule: str, verdict: str = "certain", count: int = 1) -> dict[str, Any]:
    return {"rule": rule, "verdict": verdict, "count": count, "longest_ms": 6, "worst": WORST}


def _changed(**changes: Any) -> list[Promise]:
    """The promises whose verdict differs from that of a clean case."""
    clean = judge(CLEAN)
    return [p for p, was in zip(judge(replace(CLEAN, **changes)), clean, strict=True) if p.verdict != was.verdict]


def test_a_clean_case_keeps_every_promise() -> None:
    promises = judge(CLEAN)
    assert [p.verdict for p in promises] == ["kept"] * 13
    assert all(p.promise.endswith(".") and p.evidence for p in promises)


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({"found": [_found("overlap")]}, "broken", "1 overlap; the longest is 6 ms, role r, seat 0, by a~0 and b~0"),
        ({"found": [_found("overlap", "possible")]}, "unsure", "can't be excluded"),
        ({"found": [_found("two_holders")]}, "broken", "1 exception in 1 term"),
        ({"found": [_found("second_opinion")]}, "broken", "seen so"),
        ({"found": [_found("token_fell")]}, "broken", "token 5"),
        ({"found": [_found("no_such_term"), _found("before_the_log")]}, "broken", "2 exceptions"),
        ({"found": [_found("before_the_log", "possible")]}, "unsure", "may explain"),
        ({"found": [_found("believed_again")]}, "broken", "a~0"),
        ({"found": [_found("past_lease")]}, "broken", "1 exception in 1 belief"),
        ({"found": [_found("through_pause", "possible")]}, "unsure", "1 exception"),
        ({"found": [_found("false_death")]}, "broken", "seen so"),
        ({"found": [_found("worlds_differ", count=2)]}, "broken", "2 snapshots"),
        ({"found": [_found("late", "possible")]}, "slow", "without a leader for too long though another could lead"),
        ({"found": [_found("late")]}, "broken", "role r, seat 0: seen so"),
        ({"sudden": None}, "not checked", "nobody crashed"),
        ({"sink": {"stale": FIRST}}, "broken", "1 stale of 7 writes; the first: role r, token 5 after 6"),
        ({"sink": {"unknown": FIRST}}, "broken", "role r, token 5"),
        ({"sink": {"wrong_member": FIRST, "late": FIRST}}, "broken", "1 wrong member, 1 late of 7 writes"),
        ({"sink": {"wrong_seat": FIRST}}, "broken", "1 wrong seat"),
        ({"sink": {"early": FIRST}}, "broken", "1 early"),
        ({"sink": {"late": FIRST}}, "unsure", "1 late"),
        ({"sink": {"missing": FIRST}}, "missing", "1 missing"),
        ({"sink": {"duplicate": FIRST}}, "missing", "1 duplicate"),
        ({"sink": {"unreadable": FIRST}}, "missing", "1 unreadable"),
    ],
)
def test_each_defect_changes_one_verdict(changes: dict[str, Any], verdict: str, words: str) -> None:
    (promise,) = _changed(**changes)
    assert promise.verdict == verdict
    assert words in promise.evidence


@pytest.mark.parametrize("ms", [900, 1112, 1113, 1112 + APPEND_MS])
def test_what_a_takeover_was_allowed_is_said(ms: int) -> None:
    """Never more than what is promised, and "kept" beside it, with nothing said of why."""
    sudden = {**SUDDEN, "max_ms": ms, "beyond": int(ms > 1112), "most_beyond": ms - 1112}
    evidence = next(p for p in judge(replace(CLEAN, sudden=sudden)) if "crash" in p.promise)
    assert evidence.verdict == "kept"
    assert f"longest {ms} ms. Promised: 1112 ms" in evidence.evidence
    assert (f"for which this audit allows {APPEND_MS} ms" in evidence.evidence) == (ms > 1112)
    assert (f"1 took longer than the session, by {ms - 1112} ms at most" in evidence.evidence) == (ms > 1112)


def test_sessions_that_differ_are_named() -> None:
    sudden = {**SUDDEN, "most_limit": 5556}
    evidence = next(p for p in judge(replace(CLEAN, sudden=sudden)) if "crash" in p.promise).evidence
    assert "Promised: 1112 ms to 5556 ms" in evidence


def test_what_is_unsure_does_not_hide_what_is_certain() -> None:
    (promise,) = _changed(found=[_found("overlap", "possible"), _found("overlap")])
    assert promise.verdict == "broken"


def test_non_exclusive_groups_get_what_they_asked_for() -> None:
    overlaps = {"expected": 1, "longest_expected": 40}
    loose = replace(CLEAN, overlap_ms=50, overlaps=overlaps, sink={"stale": FIRST}, allowed=Allowed(slack_ms=9))
    promises = {p.promise: p for p in judge(loose)}
    first = promises["No two members believed that they led one role for longer than the 50 ms asked for."]
    assert first.verdict == "kept"
    assert "1 overlap, at most 40 ms" in first.evidence
    assert "9 ms allowed" in first.evidence
    verdicts = {p.verdict for p in promises.values()}
    assert "expected" in verdicts
    assert "broken" not in verdicts
    longer = judge(replace(loose, found=[_found("overlap")]))
    assert longer[0].verdict == "broken"


def test_without_writes_nothing_is_said_of_them() -> None:
    promises = judge(replace(CLEAN, sink=None))
    assert [p.verdict for p in promises] == ["kept"] * 9 + ["not checked"]


def test_sums_stand_by_cause_the_most_frequent_first() -> None:
    sums = [{"cause": c, "count": n, "p50_ms": 1, "max_ms": 4, "sum_ms": 5, "g": "g"} for c, n in (("b", 1), ("a", 2))]
    assert list(by_cause(sums)) == ["a", "b"]
    assert by_cause(sums)["b"] == {"count": 1, "p50_ms": 1, "max_ms": 4, "sum_ms": 5}


@pytest.mark.parametrize(("verdict", "code"), [("broken", 3), ("unsure", 0), ("slow", 0), ("missing", 0), ("kept", 0)])
def test_what_fails_is_asked_for(verdict: Any, code: int) -> None:
    result = AuditResult("g", "sqlite:///x.db", {}, {}, [Promise("p", verdict, "e")])
    assert (result.exit_code, result.code(["unsure", "slow", "missing"])) == (code, 0 if verdict == "kept" else 3)
    with pytest.raises(ConfigError, match="kept can't be failed on: give some of unsure, slow, missing"):
        result.code(["kept"])
