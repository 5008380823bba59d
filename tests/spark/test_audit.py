"""Whole audits of whole logs, in real ledgers: what is found is what the scribe knows to have happened."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from planted import Planted, plant_all
from scribe import BASE, Scribe, story

from pares.core.errors import CapabilityError, ConfigError
from pares.core.wire import records as r
from pares.ledger import open as open_ledger
from pares.spark.audit import audit, audit_all, warm_up
from pares.spark.result import AuditResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEWER = r.READS + 1
"""A format version that this one can't read."""

pytestmark = pytest.mark.spark


def _verdicts(result: AuditResult) -> Counter[str]:
    return Counter(promise.verdict for promise in result.promises)


def _broken(result: AuditResult) -> list[str]:
    return [promise.promise for promise in result.promises if promise.verdict == "broken"]


def test_the_audit_that_warms_a_session_up_succeeds(spark: SparkSession) -> None:
    """`prestart` says nothing of one that fails."""
    warm_up(spark)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> tuple[Scribe, AuditResult]:
    """A lawful history of hundreds of terms on sixty roles."""
    log = story(3, roles=60, members=8, steps=500)
    url = log.save(tmp_path_factory.mktemp("story") / "work.db")
    return log, audit(url, "g", spark=spark)


def test_members_are_counted_once_and_administrators_apart(told: tuple[Scribe, AuditResult]) -> None:
    """By what they may lead, not by their names: the page shows as many as its head says."""
    _, result = told
    administrators = [row["name"] for row in result.rows("balance") if row["administrator"]]
    assert administrators == ["admin"]
    assert result.summary["administrators"] == 1
    assert result.summary["members"] == len(result.rows("balance")) - 1 >= 8


def test_terms_are_what_happened(told: tuple[Scribe, AuditResult]) -> None:
    log, result = told
    last = result.summary["to_ms"]
    found = {row["token"]: row for row in result.rows("terms")}
    assert len(found) == len(result.rows("terms")) == len(log.truths) > 300
    for truth in log.truths:
        row = found[truth.token]
        assert (row["role"], row["member"], row["from_ms"]) == (truth.role, truth.member, truth.start)
        assert row["from_offset"] == truth.token - BASE
        if truth.end is not None:
            assert (row["to_ms"], row["cause"], row["measured"]) == (truth.end, truth.cause, truth.told)
        else:
            # It goes on, or its holder has been silent for so long that it can't believe any more.
            assert row["to_ms"] is None or (row["to_ms"] < last and row["cause"] == "crash")
    assert {truth.cause for truth in log.truths} > {"crash", "freeze", "handover", "drain", "lapse", "pause"}


def test_a_lawful_history_breaks_no_promise(told: tuple[Scribe, AuditResult]) -> None:
    result = told[1]
    assert result.exit_code == 0
    assert not result.rows("overlaps")
    assert not _broken(result)
    assert not [row for row in result.rows("violations") if row["rule"] != "late"]
    assert set(_verdicts(result)) <= {"kept", "slow", "not checked"}


def test_gaps_and_terms_share_out_all_time(told: tuple[Scribe, AuditResult]) -> None:
    """Every millisecond of a seat's life is in a belief or in a gap, and in one only."""
    result = told[1]
    begin, end = result.summary["from_ms"], result.summary["to_ms"]
    for role in ("r000", "r042", "r059"):
        spans = [(g["from_ms"], g["to_ms"]) for g in result.rows("gaps") if g["role"] == role]
        spans += [
            (t["from_ms"], end if t["to_ms"] is None else t["to_ms"])
            for t in result.rows("terms")
            if t["role"] == role and t["from_ms"] is not None
        ]
        spans = sorted(span for span in spans if span[0] < span[1])
        assert spans[0][0] == begin
        assert spans[-1][1] == end
        assert all(one[1] == two[0] for one, two in pairwise(spans))


def test_moves_and_balance_add_up(told: tuple[Scribe, AuditResult]) -> None:
    log, result = told
    moves = result.rows("moves")
    assert [row["token"] for row in moves] == [truth.token for truth in log.truths]
    before: dict[str, str] = {}
    for row in moves:
        assert row["from_member"] == before.get(row["role"])
        before[row["role"]] = row["to_member"]
    balance = result.rows("balance")
    assert sum(row["share"] for row in balance) == pytest.approx(1)
    assert sum(row["terms"] for row in balance) == sum(truth.start is not None for truth in log.truths)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    plant = plant_all()
    plant.url = plant.log.save(tmp_path_factory.mktemp("planted") / "l.db")
    return plant


@pytest.fixture(scope="module")
def found(planted: Planted, spark: SparkSession) -> AuditResult:
    return audit(planted.url, "g", spark=spark)


@pytest.fixture(scope="module")
def seen(planted: Planted, spark: SparkSession) -> AuditResult:
    """The same log, with what was done to the members, and with clocks that may be off by 15 ms."""
    return audit(planted.url, "g", spark=spark, faults=planted.faults, clock_error_ms=15)


def _of(result: AuditResult, table: str, role: str) -> list[dict[str, Any]]:
    return [row for row in result.rows(table) if row["role"] == role]


def test_two_who_believe_at_once_are_found(planted: Planted, found: AuditResult, seen: AuditResult) -> None:
    (row,) = _of(found, "overlaps", "together")
    assert (row["token_a"], row["to_ms"] - row["from_ms"]) == (planted.terms["together"].token, 30)
    assert (row["certain"], row["expected"]) == (True, False)
    assert found.summary["overlaps"]["certain"] == 1
    # Clocks that may be off by 15 ms each way would explain it: then it is no longer certain.
    assert not _of(seen, "overlaps", "together")[0]["certain"]
    assert seen.promises[0].verdict == "unsure"
    assert seen.summary["allowances"] == {"error_ms": 15, "slack_ms": 20, "resolution_ms": 1, "append_ms": 250}


def test_an_end_that_nobody_told_is_bounded(planted: Planted, found: AuditResult, seen: AuditResult) -> None:
    (row,) = _of(found, "overlaps", "untold")
    # From its successor's belief to the end of its own lease, counted from its last sign of life.
    assert row["to_ms"] - row["from_ms"] == planted.log.lease - 100 - 400
    assert not row["certain"]
    assert [t["ms"] for t in _of(found, "takeovers", "untold")] == [500]  # since the last sign of life: at most so long
    # A witness of its death knows better when it stopped, and by what; but a signal is not yet a death.
    killed = planted.faults[0][0]
    assert _of(seen, "terms", "untold")[0]["to_ms"] == killed
    (takeover,) = _of(seen, "takeovers", "untold")
    assert (takeover["cause"], takeover["ms"], takeover["measured"]) == ("crash", 350, True)
    assert len(_of(seen, "overlaps", "untold")) == 1
    # A fault that is told of a member by its name is matched as one told by its id is.
    assert seen.summary["anomalies"] == {"defect": 1}


def test_faults_tell_a_freeze_from_a_crash(planted: Planted, found: AuditResult, seen: AuditResult) -> None:
    assert [t["cause"] for t in _of(found, "takeovers", "frozen")] == ["crash"]
    assert [(t["cause"], t["ms"]) for t in _of(seen, "takeovers", "frozen")] == [("freeze", 1200)]
    # It may have believed up to the end of its lease, whatever was done to it.
    assert _of(seen, "terms", "frozen")[0]["to_ms"] == planted.faults[1][0] - 100 + planted.log.lease
    assert [row["fault"] for row in seen.rows("faults")] == ["crash", "freeze", "freeze"]


def test_a_proof_of_death_ends_the_belief(found: AuditResult) -> None:
    assert not _of(found, "overlaps", "proven")
    (takeover,) = _of(found, "takeovers", "proven")
    assert takeover["cause"] == "crash"
    assert _of(found, "terms", "proven")[0]["to_ms"] == takeover["at_ms"]


def test_each_broken_promise_is_named(found: AuditResult) -> None:
    assert _broken(found) == [
        "At no instant did two members believe that they led one role.",
        "Nobody believed that it led before the log said so, or without the log saying so.",
        "A term once given up was never believed in again.",
        "No belief outlasted its lease, nor a pause.",
        "All readers of the log saw the same world.",
    ]
    assert found.exit_code == 3
    evidence = {promise.promise: promise.evidence for promise in found.promises}
    assert (
        "2 exceptions" in evidence["Nobody believed that it led before the log said so, or without the log saying so."]
    )


def test_a_belief_that_began_again_goes_on(found: AuditResult) -> None:
    assert [row["to_ms"] for row in _of(found, "terms", "again")] == [None]


def test_a_belief_without_a_term_overlaps_with_the_holder(planted: Planted, found: AuditResult) -> None:
    rows = _of(found, "terms", "unfounded")
    assert sorted(row["from_offset"] is None for row in rows) == [False, True]
    assert {row["token"] for row in rows} == {planted.terms["unfounded"].token}


def test_a_seat_that_nobody_ever_held_is_one_long_gap(found: AuditResult) -> None:
    (row,) = _of(found, "gaps", "never")
    assert row["cause"] == "start"
    assert (row["from_ms"], row["to_ms"]) == (found.summary["from_ms"], found.summary["to_ms"])


def test_bad_records_are_counted_and_stop_nothing(planted: Planted, found: AuditResult) -> None:
    rows = found.rows("bad_records")
    assert [row["offset"] for row in rows] == planted.bad
    assert all(row["reason"] for row in rows)
    assert rows[0]["payload"] == b"\xff\x00garbage"
    assert len(rows[2]["payload"]) == 200


def test_non_exclusive_groups_may_overlap_for_as_long_as_they_asked(tmp_path: Path, spark: SparkSession) -> None:
    log = Scribe(overlap=500)
    log.role("allowed", "too long")
    for role, over in (("allowed", 500), ("too long", 501)):
        a, b = log.join(f"{role}-a"), log.join(f"{role}-b")
        term = log.claim(a, role)
        log.lead(term)
        log.sleep(1100)
        log.beat(b)
        log.lead(log.claim(b, role, cause="freeze"))
        log.sleep(over)
        log.stop(term)
        log.beat(b)
    result = audit(log.save(tmp_path / "l.db"), "g", spark=spark, slack_ms=0)
    assert [(row["role"], row["expected"], row["certain"]) for row in result.rows("overlaps")] == [
        ("allowed", True, True),
        ("too long", False, True),
    ]
    assert (result.summary["exclusive"], result.summary["overlap_ms"]) == (False, 500)
    assert result.exit_code == 3


def test_a_trimmed_log_is_read_from_its_oldest_snapshot(tmp_path: Path, spark: SparkSession) -> None:
    """What is known is kept and marked as cut off; what began earlier is not mistaken for a belief without a term."""
    log = story(5, roles=10, steps=200)
    for _ in range(150):
        log.beat("admin~0")  # so that a place for snapshots comes, and nothing changes hands after it
    log.snapshot("admin~0")
    upto = log.places[-1]
    held = [term for role in range(10) if (term := log.holder(f"r{role:03}")) is not None]
    log.sleep(10)
    log.stop(held[0], "drained")
    log.release(held[0], "drained", "drain")
    url = log.save(tmp_path / "l.db")
    with closing(open_ledger(url)) as ledger:
        ledger.trim(upto)
    result = audit(url, "g", spark=spark)
    cut = {row["token"]: row for row in result.rows("terms") if row["truncated"]}
    assert {token: row["member"] for token, row in cut.items()} == {term.token: term.member for term in held}
    assert all(row["from_offset"] < upto and row["from_ms"] is None for row in cut.values())
    assert (cut[held[0].token]["to_ms"], cut[held[0].token]["cause"]) == (held[0].end, "drain")
    assert result.exit_code == 0
    with closing(open_ledger(url)) as ledger:
        ledger.trim(ledger.end())
        ledger.append(r.encode(r.Beat(v=1, g="g", m="a~0", n=999, b=BASE, s=1)))
    with pytest.raises(ConfigError, match="has no snapshot of group 'g'"):
        audit(url, "g", spark=spark)


def test_groups_in_one_partition_are_kept_apart(tmp_path: Path, spark: SparkSession) -> None:
    ours, theirs = story(11, roles=4, steps=80), story(12, roles=4, steps=80)
    alone = audit(ours.save(tmp_path / "alone.db"), "g", spark=spark)
    for _, at_ms, payload in theirs.entries:
        log = json.loads(payload)
        ours.entries.append((len(ours.entries), at_ms, json.dumps({**log, "g": "other"}).encode()))
    both = audit(ours.save(tmp_path / "both.db"), "g", spark=spark)
    assert both.rows("terms") == alone.rows("terms")
    ours_again, others = audit_all(both.ledger, spark)
    assert (ours_again.group, others.group) == ("g", "other")
    assert ours_again.rows("terms") == alone.rows("terms")
    assert ours_again.summary == both.summary
    assert [p.verdict for p in ours_again.promises] == [p.verdict for p in both.promises]
    assert {row["role"] for row in others.rows("terms")} == {"r000", "r001", "r002", "r003"}
    with pytest.raises(ConfigError, match=r"no group 'nobody' in partition 0 .* it has records of 'g', 'other'"):
        audit(both.ledger, "nobody", spark=spark)


def test_the_sink_is_held_against_the_log(tmp_path: Path, spark: SparkSession) -> None:
    log = Scribe()
    log.role("r")
    term = log.claim(log.join("a"), "r")
    log.lead(term)
    log.sleep(100)
    log.stop(term, "asked")
    after = log.transfer(term, log.join("b"), "asked", "handover")
    log.lead(after)
    url = log.save(tmp_path / "l.db")
    rows: list[tuple[Any, ...]] = [
        ("r", term.token, log.now - 50, "k", 1),
        ("r", term.token, log.now - 40, "k", 2),
        ("r", after.token, log.now + 1, "k", 3),
        ("r", after.token, log.now + 2, "k", 6),
        ("r", term.token, log.now - 30, "k", 3),  # a zombie's: late at the sink, though its clock says otherwise
        ("r", after.token + 1, log.now + 3, "k", 7),  # nobody's token
        ("r", "x", log.now + 3, "k", 8),
    ]
    sink = tmp_path / "sink.db"
    with sqlite3.connect(sink) as connection:
        connection.execute("CREATE TABLE quotes (role TEXT, token INTEGER, at_ms INTEGER, key TEXT, seq INTEGER)")
        connection.execute("CREATE TABLE refused (role TEXT, token INTEGER, seen INTEGER, at_ms INTEGER)")
        connection.executemany("INSERT INTO quotes VALUES (?, ?, ?, ?, ?)", rows)
    connection.close()
    before = (sink.stat().st_mtime_ns, sink.read_bytes())
    result = audit(url, "g", writes=sink, spark=spark, out=tmp_path / "out")
    found = {row["rule"]: row for row in result.rows("sink_findings")}
    assert len(found) == len(result.rows("sink_findings")) == 5
    stale = found["stale"]
    assert (stale["token"], stale["seen"], stale["key"], stale["position"]) == (term.token, after.token, "k", 5)
    assert found["unknown"]["token"] == after.token + 1
    doubled, missing = found["duplicate"], found["missing"]
    assert (doubled["key"], doubled["seq"], doubled["token"], doubled["seen"]) == ("k", 3, term.token, after.token)
    assert (missing["seq"], missing["count"]) == (3, 2)
    assert found["unreadable"]["position"] == 7
    assert result.summary["writes"] == {
        "count": 7, "unreadable": 1, "late": 0, "early": 0, "stale": 1, "unknown": 1, "wrong_member": 0, "wrong_seat": 0,
        "duplicates": 1, "missing": 2,
    }  # fmt: skip
    assert result.exit_code == 3
    assert (sink.stat().st_mtime_ns, sink.read_bytes()) == before
    assert pq.read_table(tmp_path / "out" / "sink_findings.parquet").num_rows == 5
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["exit_code"] == 3
    assert not list((tmp_path / "out").glob(".*"))


def test_tables_have_the_promised_columns(told: tuple[Scribe, AuditResult], tmp_path: Path) -> None:
    promised = {
        "terms": "group role seat token member name host from_offset to_offset from_ms to_ms why",
        "overlaps": "role seat token_a token_b from_ms to_ms certain",
        "gaps": "role seat from_ms to_ms cause",
        "takeovers": "role seat from_member to_member cause ms limit_ms late_ms candidates measured",
        "violations": "rule verdict role seat token_a token_b member_a member_b from_ms to_ms length_ms offsets evidence",
        "anomalies": "kind member from_offset to_offset count detail",
        "bad_records": "offset reason payload",
    }
    for table, names in promised.items():
        assert told[1].tables[table].column_names[: len(names.split())] == names.split()
    files = told[1].write(tmp_path, "jsonl")
    assert {file.stem for file in files} == {*told[1].tables, "summary"}
    assert json.loads((tmp_path / "terms.jsonl").read_text().splitlines()[0]) == told[1].rows("terms")[0]


def test_what_can_not_be_audited_says_why(tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(CapabilityError, match="inside one process"):
        audit("memory://x", "g", spark=spark)
    with pytest.raises(ConfigError, match="not there"):
        audit(f"sqlite:///{tmp_path}/none.db", "g", spark=spark)
    assert not (tmp_path / "none.db").exists()
    newer = Scribe()
    written = {"g": "g", "m": "new~0", "b": BASE, "s": 250}
    newer.raw(
        json.dumps({"v": 1, "k": "join", "n": 1, "name": "new", "session": 1000, "reads": NEWER, **written}).encode()
    )
    newer.put(r.Leave, "admin~0")
    newer.raw(json.dumps({"v": NEWER, "k": "beat", "n": 2, **written}).encode())
    with pytest.raises(CapabilityError, match=f"writes format {NEWER} and this version of pares reads up to {r.READS}"):
        audit(newer.save(tmp_path / "newer.db"), "g", spark=spark)
    with pytest.raises(ConfigError, match="milliseconds"):
        audit(f"sqlite:///{tmp_path}/none.db", "g", spark=spark, clock_error_ms=-1)
