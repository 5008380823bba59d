"""The audit of groups that run NELI and Fast NELI: what the log proves, what it only bounds, and what is broken."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pares.core.wire.neli_records import Announce, Beacon, PartitionCount, Pulse, RolesChanged, Yield, encode
from pares.ledger import open as open_ledger
from pares.spark.audit import audit
from pares.spark.facts.neli import history
from pares.spark.result import AuditResult
from pares.spark.together import audit_together

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
BASE = 1_000_000
SESSION = 1000


class NeliLog:
    """A SQLite ledger of two partitions, written by hand; in the end its entries are given the times that the test says."""

    def __init__(self, path: Path, mode: str = "fast-neli", within: int = 300) -> None:
        self.url = f"sqlite:///{path}/log.db?partitions=2"
        self.ledger = open_ledger(self.url)
        self.path = path / "log.db"
        self.mode, self.within = mode, within
        self.numbers: dict[tuple[str, int], int] = {}
        self.stamps: list[tuple[int, int, int]] = []

    def write(self, kind: Any, member: str, ms: int, *, p: int = 0, stamp: int | None = None, **fields: Any) -> int:
        n = self.numbers[member, p] = self.numbers.get((member, p), 0) + 1
        if kind is Announce:
            given = {"name": member.split("~")[0], "host": "h", "of": 2, "drift": 0.1, "session": SESSION}
            fields = {**given, "within": self.within, "protocol": self.mode, **fields}
        elif kind in (Pulse, Beacon):
            fields = {"within": self.within, **fields}
        elif kind is PartitionCount:
            fields = {"of": 2, **fields}
        at = fields.pop("at", ms)
        offset = self.ledger.append(encode(kind(v=1, g="g", m=member, n=n, b=BASE, s=60, at=at, **fields)), p)
        self.stamps.append((p, offset, ms if stamp is None else stamp))
        return BASE + offset

    def lead(self, member: str, ms: int, until: int, *, p: int = 0, every: int = 50) -> int:
        """Announces itself, and says that it leads from `ms` on, last at `until`."""
        token = self.write(Announce, member, ms - 1, p=p)
        kind = Pulse if self.mode == "fast-neli" else Beacon
        for at in [*range(ms, until, every), until]:
            self.write(kind, member, at, p=p, term=token, lead=True)
        return token

    def yield_(
        self, member: str, token: int, ms: int, began: int, why: str, *, p: int = 0, ended: int | None = None
    ) -> None:
        ended = ms if ended is None else ended
        self.write(Yield, member, ms, p=p, term=token, led=True, began=began, ended=ended, why=why)

    def audit(self, spark: SparkSession, **options: Any) -> AuditResult:
        self.settle()
        return audit(self.url, "g", spark=spark, **options)

    def settle(self) -> None:
        """Gives the log the times that the test has said."""
        import sqlite3

        from pares.ledger.sqlite.schema import SHIFT

        self.ledger.close()
        with sqlite3.connect(self.path) as connection:
            logs = dict(connection.execute("SELECT partition, log FROM logs WHERE topic = ''"))
            column = [row[1] for row in connection.execute("PRAGMA table_info(entries)")]
            for p, offset, ms in self.stamps:
                key = (logs[p] << SHIFT) + offset
                connection.execute(f"UPDATE entries SET {column[1]} = ? WHERE {column[0]} = ?", (ms, key))
        connection.close()


def verdicts(result: AuditResult) -> dict[str, str]:
    return {promise.promise: promise.verdict for promise in result.promises}


def no_promise_is_broken(result: AuditResult) -> None:
    assert result.exit_code == 0, [p for p in result.promises if p.verdict == "broken"]


def terms(result: AuditResult) -> list[tuple[Any, ...]]:
    keys = ("role", "member", "from_ms", "to_ms", "cause", "measured")
    return [
        tuple(row[key] for key in keys) for row in sorted(result.rows("terms"), key=lambda r: (r["role"], r["token"]))
    ]


def test_a_planned_move_and_a_crash_of_fast_neli(tmp_path: Path, spark: SparkSession) -> None:
    log = NeliLog(tmp_path)
    log.write(PartitionCount, "a~1", 1000, roles=("0",))
    log.write(PartitionCount, "a~1", 1000, p=1, roles=("1",))
    token = log.lead("a~1", 1100, 2000)
    log.yield_("a~1", token, 2040, 1100, "revoked", ended=2010)
    heir = log.lead("b~1", 2060, 3000)  # and is killed
    log.lead("c~1", 4200, 6000)
    other = log.lead("a~1", 1100, 5900, p=1)
    assert heir
    assert other
    result = log.audit(spark)
    no_promise_is_broken(result)
    assert terms(result) == [
        ("0", "a~1", 1100, 2010, "balance", True),
        ("0", "b~1", 2060, 3300, "crash", False),
        ("0", "c~1", 4200, None, None, True),
        ("1", "a~1", 1100, None, None, True),
    ]
    gaps = [(g["role"], g["from_ms"], g["to_ms"], g["cause"]) for g in result.rows("gaps")]
    assert gaps == [
        ("0", 1000, 1100, "start"),
        ("1", 1000, 1100, "start"),
        ("0", 2010, 2060, "balance"),
        ("0", 3300, 4200, "crash"),
    ]
    takeovers = [(t["from_member"], t["to_member"], t["cause"], t["ms"]) for t in result.rows("takeovers")]
    assert takeovers == [("a~1", "b~1", "balance", 50), ("b~1", "c~1", "crash", 1200)]
    assert result.rows("overlaps") == []
    moves = [(m["role"], m["from_member"], m["to_member"]) for m in result.rows("moves")]
    assert moves == [("0", None, "a~1"), ("1", None, "a~1"), ("0", "a~1", "b~1"), ("0", "b~1", "c~1")]
    assert result.summary["exclusive"]


def test_a_group_with_nothing_in_the_first_partition_is_found_in_the_others(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Neither is it taken for one that runs claims, nor for one that is not there."""
    log = NeliLog(tmp_path)
    log.write(PartitionCount, "a~1", 1000, p=1, roles=("1",))
    log.lead("a~1", 1100, 1400, p=1)
    result = log.audit(spark)
    no_promise_is_broken(result)
    assert terms(result) == [("1", "a~1", 1100, None, None, True)]
    assert result.summary["members"] == 1


@pytest.mark.parametrize("why", ["lease ran out", "lost"])
def test_a_frozen_owner_that_says_later_when_its_belief_ended_was_frozen(
    tmp_path: Path, spark: SparkSession, why: str
) -> None:
    """Thawed, it finds its lease run out or its partition gone, and yields with that: what was done to it says more."""
    log = NeliLog(tmp_path)
    log.write(PartitionCount, "a~1", 1000, roles=("0",))
    token = log.lead("a~1", 1100, 2000)
    log.lead("b~1", 2400, 4000)
    log.yield_("a~1", token, 3000, 1100, why, ended=2300)
    log.settle()
    faults = [(2050, "a", "freeze")]
    result = audit(log.url, "g", spark=spark, faults=faults)
    no_promise_is_broken(result)
    assert terms(result)[0][4] == "freeze"
    (takeover,) = [t for t in result.rows("takeovers") if t["from_member"] == "a~1"]
    assert (takeover["cause"], takeover["ms"]) == ("freeze", 350)


def test_two_leaders_at_once_are_certain_where_both_have_said_so(tmp_path: Path, spark: SparkSession) -> None:
    """The asymmetric partition, as goNELI has it: the old owner goes on reading its own beats."""
    log = NeliLog(tmp_path)
    log.write(PartitionCount, "a~1", 1000, roles=("0",))
    token = log.lead("a~1", 1100, 2000)
    log.lead("b~1", 2400, 2500)
    for ms in range(2510, 3010, 100):
        log.write(Pulse, "a~1", ms, term=token, lead=True)
    result = log.audit(spark)
    (overlap,) = result.rows("overlaps")
    assert overlap["certain"]
    assert (overlap["member_a"], overlap["member_b"]) == ("a~1", "b~1")
    assert result.exit_code == 3


def test_a_belief_that_could_have_lasted_is_not_called_an_overlap(tmp_path: Path, spark: SparkSession) -> None:
    """Its owner said nothing more: it may have believed for 300 ms, or not."""
    log = NeliLog(tmp_path)
    log.write(PartitionCount, "a~1", 1000, roles=("0",))
    log.lead("a~1", 1100, 2000)
    log.lead("b~1", 2200, 3000)
    result = log.audit(spark)
    (overlap,) = result.rows("overlaps")
    assert (overlap["certain"], overlap["from_ms"], overlap["to_ms"]) == (False, 2200, 2300)
    assert result.exit_code == 0
    assert result.promises[0].verdict == "unsure"


def test_non_exclusive_members_overlap_by_design(tmp_path: Path, spark: SparkSession) -> None:
    log = NeliLog(tmp_path, "nele", within=1500)
    log.write(PartitionCount, "a~1", 1000, roles=("0",))
    token = log.lead("a~1", 1100, 2000)
    log.lead("b~1", 2010, 3000)
    log.yield_("a~1", token, 2030, 1100, "superseded by b~1", ended=2020)
    result = log.audit(spark)
    no_promise_is_broken(result)
    assert not result.summary["exclusive"]
    assert result.summary["overlap_ms"] == 500, "T less the session"
    (overlap,) = result.rows("overlaps")
    assert overlap["expected"]
    assert (overlap["from_ms"], overlap["to_ms"]) == (2010, 2020)
    assert terms(result)[0][3:5] == (2020, "balance"), "the group gave it to another, and nobody asked for that"
    assert [g for g in result.rows("gaps") if g["cause"] != "start"] == []
    assert "500 ms asked for" in result.promises[0].promise


def test_an_overlap_beyond_the_one_that_was_asked_for_is_broken(tmp_path: Path, spark: SparkSession) -> None:
    log = NeliLog(tmp_path, "nele", within=1500)
    log.write(PartitionCount, "a~1", 1000, roles=("0",))
    token = log.lead("a~1", 1100, 2000)
    log.lead("b~1", 2010, 4000)
    log.yield_("a~1", token, 2700, 1100, "superseded by b~1", ended=2690)
    result = log.audit(spark)
    (overlap,) = result.rows("overlaps")
    assert (overlap["certain"], overlap["expected"]) == (True, False)
    assert overlap["to_ms"] - overlap["from_ms"] == 680
    assert result.exit_code == 3


def test_an_owner_that_was_cut_off_overlaps_by_no_more_than_t_less_the_session(
    tmp_path: Path, spark: SparkSession
) -> None:
    log = NeliLog(tmp_path, "nele", within=1500)
    log.write(PartitionCount, "a~1", 1000, roles=("0",))
    token = log.lead("a~1", 1100, 2000)
    log.lead("b~1", 3050, 5000)
    log.yield_("a~1", token, 4500, 1100, "superseded by b~1", ended=3500)
    result = log.audit(spark)
    no_promise_is_broken(result)
    assert [o["to_ms"] - o["from_ms"] for o in result.rows("overlaps")] == [450]


CUT = 2000


@pytest.mark.parametrize(
    ("said", "cause", "ms"),
    [(CUT + 30, "cut", 1300), (CUT + 700, "balance", 0)],
    ids=["silent since", "it spoke again"],
)
def test_an_owner_of_nele_that_was_cut_off_is_taken_over_from_because_of_that(
    tmp_path: Path, spark: SparkSession, said: int, cause: str, ms: int
) -> None:
    """Back again it yields, as after any other move: what tells them apart is that it has said nothing since the fault."""
    log = NeliLog(tmp_path, "nele", within=3000)
    log.write(PartitionCount, "a~1", 1000, roles=("0",))
    token = log.lead("a~1", 1100, said)
    log.lead("b~1", CUT + 1300, 5000)
    log.yield_("a~1", token, 4600, 1100, "superseded by b~1", ended=4590)
    faults = tmp_path / "faults.jsonl"
    faults.write_text(json.dumps({"at_ms": CUT, "member": "a", "fault": "cut"}) + "\n")
    result = log.audit(spark, faults=str(faults))
    no_promise_is_broken(result)
    assert [(row["cause"], row["ms"]) for row in result.rows("takeovers")] == [(cause, ms)]
    if cause == "cut":
        # 1000 ms is the least that the group waits, by its fastest stopwatch; by the slowest it is 1000 x 1.1 / 0.9.
        assert result.rows("takeovers")[0]["limit_ms"] == 1223


def test_roles_come_and_go(tmp_path: Path, spark: SparkSession) -> None:
    log = NeliLog(tmp_path)
    log.write(PartitionCount, "a~1", 1000, roles=("0",))
    token = log.lead("a~1", 1100, 2000)
    log.write(RolesChanged, "b~1", 2100, add=("2",))
    for ms in (2105, 2500, 3000):
        log.write(Pulse, "a~1", ms, term=token, lead=True)
    log.write(RolesChanged, "b~1", 3100, drop=("2",))
    log.write(Pulse, "a~1", 3200, term=token, lead=True)
    result = log.audit(spark)
    no_promise_is_broken(result)
    (late,) = [row for row in result.rows("terms") if row["role"] == "2"]
    assert (late["from_ms"], late["to_ms"], late["cause"]) == (2105, 3100, "removed")
    assert [(g["from_ms"], g["to_ms"]) for g in result.rows("gaps") if g["role"] == "2"] == [(2100, 2105)]


def test_a_log_without_its_beginning(tmp_path: Path, spark: SparkSession) -> None:
    log = NeliLog(tmp_path)
    log.write(PartitionCount, "a~1", 1000, roles=("0",))
    token = log.lead("a~1", 1100, 1500)
    log.ledger.trim(token - BASE + 2)
    log.write(RolesChanged, "a~1", 1590, add=("0",))
    log.write(Pulse, "a~1", 1600, term=token, lead=True)
    log.yield_("a~1", token, 1700, 1100, "closed")
    log.lead("b~1", 1750, 2000)
    log.stamps = [one for one in log.stamps if one[0] or one[1] >= token - BASE + 2]
    result = log.audit(spark)
    no_promise_is_broken(result)
    assert result.cut_off is not None
    first, second = sorted(result.rows("terms"), key=lambda row: row["token"])
    assert (first["truncated"], first["to_ms"], second["truncated"]) == (True, 1700, False)


def test_the_fold_does_not_care_for_portions(tmp_path: Path) -> None:
    log = NeliLog(tmp_path)
    log.write(PartitionCount, "a~1", 1000, roles=("0",))
    token = log.lead("a~1", 1100, 1500)
    log.yield_("a~1", token, 1600, 1100, "closed")
    log.ledger.append(b"no record")
    log.lead("b~1", 1750, 2000)
    entries = log.ledger.read(0)

    def told(portions: Iterable[Any]) -> list[Any]:
        from pares.spark.facts.neli import TenureHistory

        folding = TenureHistory("g", 0)
        return [fact for portion in portions for fact in folding.feed(portion)] + folding.finish()

    assert told([entries]) == told([[entry] for entry in entries]) == history("g", 0, entries)
    assert [fact.cause for fact in told([entries]) if fact.kind == "bad"]
    log.ledger.close()


def test_two_groups_leave_no_gap_where_one_of_them_does(tmp_path: Path, spark: SparkSession) -> None:
    """Only what is certain covers: a belief that a dead owner may still have had does not."""
    log = NeliLog(tmp_path)
    log.write(PartitionCount, "a~1", 1000, roles=("0",))
    log.lead("a~1", 1100, 2000)  # is killed
    log.lead("b~1", 3300, 6000)
    other = _in_group(log, "h")
    other.write(PartitionCount, "x~1", 1000, roles=("0",))
    other.lead("x~1", 1150, 2100)  # is killed 100 ms later
    other.lead("y~1", 3250, 6000)
    log.stamps += other.stamps
    log.settle()
    result = audit_together(log.url, ["g", "h"], spark=spark)
    assert [(g["role"], g["from_ms"], g["to_ms"]) for g in result.gaps] == [("0", 2100, 3250)]
    assert result.exit_code == 3
    one = audit_together(log.url, ["g"], spark=spark, until_ms=1900)
    assert one.gaps == []
    assert one.exit_code == 0


def _in_group(log: NeliLog, group: str) -> NeliLog:
    """The same ledger; what is written is another group's."""

    class Other(NeliLog):
        def __init__(self) -> None:
            self.ledger, self.url, self.path = log.ledger, log.url, log.path
            self.mode, self.within = log.mode, log.within
            self.numbers, self.stamps = {}, []

        def write(self, kind: Any, member: str, ms: int, **fields: Any) -> int:
            append = log.ledger.append

            class Renamed:
                def append(self, payload: bytes, partition: int = 0) -> int:
                    return append(payload.replace(b'"g":"g"', f'"g":"{group}"'.encode()), partition)

            self.ledger = Renamed()  # type: ignore[assignment]
            return super().write(kind, member, ms, **fields)

    return Other()
