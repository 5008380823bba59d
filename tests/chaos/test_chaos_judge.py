"""The judge of a chaos run sees what is wrong, counts it once, and measures from the right instants."""

from __future__ import annotations

import io
import json
import struct
from collections import Counter
from pathlib import Path

import pytest
from chaos.__main__ import main
from chaos.faults import KINDS
from chaos.judge import Judge, Outcome, led_since, longest_without, rows
from chaos.probe import Acks
from chaos.run import Result, possible, schedule
from process_beliefs import Belief
from process_judge import Write
from rich.console import Console

from chaos import report

SECOND = 1_000_000_000


def belief(member: str, token: int, first: float, last: float, role: int = 0) -> Belief:
    return Belief(member, role, token, int(first * SECOND), int(last * SECOND))


def outcome(kind: str = "member-cut", led: float | None = 0.1, number: int = 1) -> Outcome:
    return Outcome(number, kind, "m1 is cut off", 2.0, 0.01, led, 1.2)


def test_an_overlap_that_grows_is_one_overlap_and_a_second_one_is_a_second() -> None:
    judge = Judge()
    double, _ = judge.beliefs([belief("w1", 1, 0, 3), belief("w2", 2, 2, 4)])
    assert len(double) == 1
    assert judge.beliefs([belief("w1", 1, 0, 3.5), belief("w2", 2, 2, 4)])[0] == []
    again = [belief("w1", 1, 0, 3.5), belief("w2", 2, 2, 4), belief("w1", 3, 5, 8), belief("w2", 4, 7, 9)]
    assert len(judge.beliefs(again)[0]) == 1


def test_a_token_that_falls_is_told_once() -> None:
    judge = Judge()
    beliefs = [belief("w1", 9, 0, 1), belief("w2", 5, 2, 3)]
    assert len(judge.beliefs(beliefs)[1]) == 1
    assert judge.beliefs(beliefs)[1] == []


def test_a_stale_write_is_seen_whenever_the_higher_token_was() -> None:
    judge = Judge()
    first = [Write("A", 1, "w1", "leader"), Write("A", 5, "w2", "leader"), Write("B", 2, "w1", "leader")]
    assert judge.stale(first) == []
    assert len(judge.stale([Write("A", 1, "w1", "leader"), Write("B", 2, "w1", "leader")])) == 1
    assert judge.stale([Write("A", 5, "w2", "leader")]) == []
    assert judge.writes == 6


def test_a_token_used_by_two_is_seen_across_looks() -> None:
    judge = Judge()
    assert judge.stale([Write("A", 1, "w1", "leader")]) == []
    assert len(judge.stale([Write("A", 1, "w2", "leader")])) == 1
    assert judge.stale([Write("A", 3, "w2", "leader")]) == []


def test_beliefs_and_writes_that_the_log_does_not_know() -> None:
    judge = Judge()
    judge.stale([Write("A", 7, "w1", "leader")])
    beliefs = [belief("w1", 7, 0, 1), belief("w2", 8, 2, 3)]
    assert judge.unlogged(beliefs, {("A", 7): "w1", ("A", 8): "w2"}, "AB") == []
    assert len(judge.unlogged(beliefs, {("A", 7): "w1", ("A", 8): "w3"}, "AB")) == 1
    assert len(judge.unlogged(beliefs, {("A", 8): "w2"}, "AB")) == 2, "the belief and the write"


def test_led_since_is_when_the_last_role_had_its_leader() -> None:
    beliefs = [belief("w1", 1, 0, 4), belief("w2", 2, 6, 7), belief("w2", 3, 1, 9, role=1)]
    assert led_since(beliefs, 2, 3 * SECOND) == 3 * SECOND, "both were led all the time"
    assert led_since(beliefs, 2, 5 * SECOND) == 6 * SECOND
    assert led_since(beliefs, 2, 8 * SECOND) is None, "role 0 is not led any more"
    assert led_since(beliefs, 3, 3 * SECOND) is None, "nobody ever led role 2"


def test_longest_without_a_leader() -> None:
    beliefs = [belief("w1", 1, 0, 4), belief("w2", 2, 6, 7), belief("w2", 3, 1, 9, role=1)]
    assert longest_without(beliefs, 2, 2 * SECOND, 7 * SECOND) == 2 * SECOND
    assert longest_without(beliefs, 2, 2 * SECOND, 10 * SECOND) == 3 * SECOND
    assert longest_without([], 1, 0, SECOND) == SECOND


def test_each_kind_comes_equally_often_and_a_seed_draws_the_same_again() -> None:
    kinds = list(KINDS)
    drawn = schedule(kinds, 3 * len(kinds), 7)
    assert set(Counter(drawn).values()) == {3}
    assert drawn == schedule(kinds, 3 * len(kinds), 7)
    assert drawn != schedule(kinds, 3 * len(kinds), 8)
    assert schedule(kinds, 5, 7) == drawn[:5]


def test_clocks_that_cannot_be_stepped_are_said_to_be_missing() -> None:
    kinds, missing = possible(None, [])
    assert missing.keys() == {"clock-ahead", "clock-behind"}
    assert not missing.keys() & set(kinds)
    result = Result(1, 1.0, 1, [outcome()], missing)
    text = shown(result)
    assert text.count("NOT MADE") == 4, "above the table and in it"


def shown(result: Result) -> str:
    console = Console(file=io.StringIO(), width=160)
    report.show(result, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({}, 0),
        ({"led": 2.0}, 0),
        ({"led": 2.001}, 3),
        ({"led": None}, 3),
        ({"overlaps": ["w1 and w2"]}, 3),
        ({"stale": ["w1"]}, 3),
        ({"falling": ["w1"]}, 3),
        ({"fallen": ["member w1 ended with 1"]}, 3),
    ],
)
def test_whatever_is_wrong_with_one_fault_makes_the_run_fail(wrong: dict[str, object], code: int) -> None:
    bad = outcome()
    for name, value in wrong.items():
        setattr(bad, name, value)
    result = Result(1, 1.0, 2, [outcome(), bad])
    assert result.exit_code == code
    assert json.loads(json.dumps(report.to_json(result)))["exit_code"] == code
    text = shown(result)
    assert ("MISSED" in text or "BROKEN" in text or "MEMBER ENDED" in text) == (code == 3)


def test_an_audit_that_finds_something_makes_the_run_fail_and_so_does_breaking_off() -> None:
    audit = {"promises": [{"promise": "one leader", "verdict": "broken", "evidence": "two at 12:00"}]}
    assert Result(1, 1.0, 1, [outcome()], audit=audit).exit_code == 3
    audit["promises"][0]["verdict"] = "kept"
    assert Result(1, 1.0, 1, [outcome()], audit=audit).exit_code == 0
    assert Result(1, 1.0, 1, [outcome()], aborted="a broker did not start").exit_code == 1
    assert Result(1, 1.0, 1, [outcome()], no_audit="there is no Java").exit_code == 1


def test_the_table_has_a_row_for_each_kind_and_one_for_all() -> None:
    table = rows([outcome(led=0.2), outcome(led=None), outcome("disk-full", led=5.0)], 1.0)
    assert [(row.kind, row.count, row.misses, row.never) for row in table] == [
        ("member-cut", 2, 1, 1),
        ("disk-full", 1, 1, 0),
        ("all", 3, 2, 1),
    ]
    assert table[-1].led_max == 5.0


def test_the_probes_acknowledgements(tmp_path: Path) -> None:
    file = tmp_path / "acks"
    file.write_bytes(b"")
    acks = Acks(file)
    assert acks.first_after(0) is None
    assert acks.longest_without(3, 10) == 7
    with file.open("ab") as more:
        more.write(struct.pack("=qq", 1, 4) + struct.pack("=qq", 2, 5) + struct.pack("=q", 6))
    assert acks.all() == [(1, 4), (2, 5)], "half a pair is not read"
    with file.open("ab") as more:
        more.write(struct.pack("=q", 8))
    assert [acks.first_after(instant) for instant in (3, 4, 7, 8)] == [4, 5, 8, None]
    assert acks.longest_without(3, 10) == 3


def test_a_table_for_the_document(tmp_path: Path) -> None:
    file = tmp_path / "chaos.md"
    file.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    result = Result(1, 1.0, 3, [outcome(), outcome("disk-full", led=None)], not_made={"clock-ahead": "no library"})
    report.put(result, file)
    text = file.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "2 of 3 faults" in text, "how many were made"
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in rows[2:]] == ["member-cut", "disk-full", "all", "clock-ahead"]
    assert len({line.count("|") for line in rows}) == 1, "every row has all columns"
    assert "- missed: fault 1 (disk-full" in text
    report.put(result, file)
    assert file.read_text() == text


@pytest.mark.parametrize(
    "words",
    [
        ["--mutant", "unheard-of"],
        ["--write", "/no/such/file"],
        ["--faults", "0"],
        ["--only", "meteor"],
        ["--session", "0"],
        ["--faketime", "/no"],
    ],
)
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert words[0] in capsys.readouterr().err
