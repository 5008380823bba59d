"""The judge of a chaos run sees what is wrong, counts it once, and measures from the right instants."""

from __future__ import annotations

import contextlib
import io
import json
import struct
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from chaos.__main__ import main
from chaos.faults import KINDS
from chaos.probe import Acks
from chaos.run import Result, possible, schedule
from chaos.verdict import report
from chaos.verdict.audits import Audits, together
from chaos.verdict.judge import Judge, Outcome, bound, led_since, longest_without, rows
from chaos.verdict.kept import Stretch, copy, span
from process_beliefs import Belief
from process_judge import Write
from rich.console import Console

import pares
from pares.ledger.batches import batches
from pares.spark.verdict import Verdict

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
    assert possible(Path("/lib"), [], "neli")[1].keys() == missing.keys(), "outside of what NELI rests on"
    assert possible(Path("/lib"), [], "fast-neli")[1] == {}
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
        ({"lost": 2.0}, 0),
        ({"lost": 2.001}, 3),
        ({"unmade": "its clock stamped nothing"}, 1),
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
    assert ("NOT MADE" in text) == (code == 1)


def audited(*verdicts: str, failed: str = "") -> Audits:
    """Audits of as many logs, each with one promise."""
    found = [{"promises": [{"promise": "one leader", "verdict": v, "evidence": f"{v} here"}]} for v in verdicts]
    return Audits(found, logs=len(verdicts), terms=9, writes=100, failed=failed)


def test_an_audit_that_finds_something_makes_the_run_fail_and_so_does_breaking_off() -> None:
    broken = Result(1, 1.0, 1, [outcome()], audits=audited("kept", "broken", "kept"))
    assert broken.exit_code == 3
    assert any("log 2 of 3: broken here" in words for words in broken.broken), "which log it is, is said"
    assert Result(1, 1.0, 1, [outcome()], audits=audited("kept", "kept")).exit_code == 0
    assert Result(1, 1.0, 1, [outcome()], aborted="a broker did not start").exit_code == 1
    assert Result(1, 1.0, 1, [outcome()], audits=audited("kept", failed="there is no Java")).exit_code == 1


def test_how_much_the_audits_have_judged_is_said() -> None:
    result = Result(1, 1.0, 1, [outcome()], audits=audited("kept", "slow"), terms=10, writes=101)
    for text in (shown(result), report.markdown(result)):
        assert "2 of 2 logs, 9 of 10 terms, 100 of 101 writes were judged" in text
    assert report.to_json(result)["audit"]["promises"] == [
        {"promise": "one leader", "verdict": "slow", "evidence": "in 1 of 2 logs, such as log 2: slow here"}
    ]


def test_of_several_logs_the_worst_verdict_counts() -> None:
    verdicts = ("broken", "unsure", "slow", "kept")
    for number, worst in enumerate(verdicts):
        assert [p["verdict"] for p in audited(*reversed(verdicts[number:])).promises] == [worst]


def test_a_copy_of_a_log_is_the_log(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/first.db"
    with contextlib.closing(pares.open(url)) as log:
        for member in ("one", "two"):
            with pares.Member(log, group="g", name=member, roles=["A", "B"], session=1.0) as me:
                assert me.wait("A", timeout=60)
        again = copy(log, tmp_path / "copy.db")
        log.append(b"later")
        entries = [entry for part in batches(log, 0, 0, log.end(0) - 1, 100) for entry in part]
    with contextlib.closing(pares.open(again)) as log:
        assert [entry for part in batches(log, 0, 0, log.end(0), 100) for entry in part] == entries
        assert log.append(b"next") == len(entries), "offsets go on where the original's would"
    found = span(again, "g")
    assert found is not None
    assert found.high is not None
    assert found.low < found.high, "two terms at least"
    assert [found.holds(token) for token in (found.low - 1, found.low, found.high, found.high + 1)] == [0, 1, 1, 0]
    assert Stretch(again, found.low, None).holds(found.high + 1), "one that goes on"
    assert span(again, "nobody") is None


def test_a_new_owner_has_as_long_as_its_protocol_waits() -> None:
    assert bound("claims", 1.0) == 2.0
    assert bound("claims", 1.0, allowance=7.5) == 8.5
    assert bound("claims", 3.0) < bound("fast-neli", 3.0) < bound("neli", 3.0) < 2 * 3.0 + 1.0


def test_the_table_has_a_row_for_each_kind_and_one_for_all() -> None:
    table = rows([outcome(led=0.2), outcome(led=None), outcome("disk-full", led=5.0)], 2.0)
    assert [(row.kind, row.count, row.misses, row.never) for row in table] == [
        ("member-cut", 2, 1, 1),
        ("disk-full", 1, 1, 0),
        ("all", 3, 2, 1),
    ]
    assert table[-1].led_max == 5.0
    bad = outcome(number=2)
    bad.unmade = "its clock stamped nothing"
    assert [(row.count, row.unmade) for row in rows([outcome(), bad], 2.0)] == [(1, 1), (1, 1)], "it counts as none"


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
    file.write_text(f"before\n{report.begin('claims')}\nold\n{report.END}\nafter\n")
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
        ["--aftermath", "-1"],
        ["--protocol", "allcall"],
        ["--mutant", "lease-longer-than-session", "--protocol", "neli"],
    ],
)
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert words[0] in capsys.readouterr().err


def test_the_worst_of_several_logs_is_told_for_every_verdict_that_an_audit_gives() -> None:
    for verdict in get_args(Verdict):
        audits = [[{"promise": "p", "verdict": said, "evidence": said}] for said in ("kept", verdict, "kept")]
        (told,) = together(audits)
        assert told["verdict"] == verdict
        audits.append([{"promise": "p", "verdict": "broken", "evidence": "e"}])
        assert together(audits)[0]["verdict"] == "broken"
