"""The audit: from a group's log, and what its work left behind, to tables and verdicts.

It believes nobody. The log is opened read-only and folded from its beginning, by the kernel's own fold (what the log
decided); members' own words about their beliefs are held against each other as intervals (what physically happened); the
sink's rows are held against both. A dead member can't lie in its favour: what it did not say is bounded by its lease.

    log --fold--> facts --SQL--> terms --SQL--> overlaps, gaps, takeovers, moves, balance
    sink's rows ------------------SQL--> stale, duplicate and missing writes        all --> verdicts
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from pares.core.errors import CapabilityError, ConfigError
from pares.core.wire.records import VERSION, AnyRecord, Claim, Did, Genesis, Join, Role, check_name, encode
from pares.ledger.registry import open as open_ledger
from pares.runtime.detect import runs_induced
from pares.spark import intervals, verdict
from pares.spark import writes as sink
from pares.spark.logs import open_to_read
from pares.spark.session import session
from pares.spark.verdict import Promise, Row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pares.spark.rows import Faults

SLACK_MS: Final = 20
"""What an overlap may exceed the one asked for, in non-exclusive groups: timers and schedulers are not exact."""

# The columns that are promised come first, in their promised order; what follows explains them.
_TERMS: Final = """
SELECT {group} AS `group`, role, seat, token, member, name, host, from_offset, to_offset, from_ms, to_ms, why,
       began, cause, measured, truncated,
       -- How long it has lasted at the least: until its holder said that it was over, or was seen to die, or said its last.
       coalesce(stop_ms, CASE WHEN fault = 'crash' THEN least(fault_ms, b_late) END, least(alive_ms, b_late), to_ms)
         AS sure_ms
FROM {terms}
"""
_BAD: Final = "SELECT offset, cause AS reason, payload, at_ms FROM {facts} WHERE kind = 'bad'"
_FAULTS: Final = "SELECT at_ms, member, fault FROM {faults}"
_ORDER: Final = ("offset", "from_ms", "at_ms", "first_ms", "role", "seat", "token", "token_a", "member", "key", "seq")
_HEAD: Final = """
SELECT min(at_ms) FILTER (WHERE kind = 'first') AS from_ms, max(at_ms) FILTER (WHERE kind = 'last') AS to_ms,
       min(offset) FILTER (WHERE kind = 'first') AS first_offset, max(offset) FILTER (WHERE kind = 'last') AS last_offset,
       coalesce(max(token) FILTER (WHERE kind = 'first'), 0) AS floor, count(*) FILTER (WHERE kind = 'defect') AS defects,
       max(cause) FILTER (WHERE kind = 'newer') AS newer,
       max(overlap_ms) AS overlap_ms,
       count(DISTINCT member) FILTER (WHERE kind = 'member' AND coalesce(cause, '') <> 'administrator') AS members,
       count(DISTINCT member) FILTER (WHERE kind = 'member' AND cause = 'administrator') AS administrators,
       count(DISTINCT role) FILTER (WHERE kind = 'opened') AS roles,
       count(DISTINCT struct(role, seat)) FILTER (WHERE kind = 'opened') AS seats
FROM {facts}
"""


@dataclass(frozen=True)
class AuditResult:
    """What an audit found. Tables are small (one row a term, a takeover, a broken thing) and here as Arrow tables."""

    group: str
    ledger: str
    tables: Mapping[str, pa.Table]
    """terms, overlaps, gaps, takeovers, moves, balance, bad_records, faults; with writes also stale_writes, unknown_writes,
    duplicate_writes and missing_writes."""
    summary: Mapping[str, Any]
    promises: list[Promise]
    _rows: dict[str, list[Row]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def cut_off(self) -> str | None:
        """What is to be said of a log whose beginning is deleted; None if all of it is there."""
        start = self.summary["log_from"]
        if start == 0:
            return None
        return (
            f"The log begins at offset {start}: what stood before it was deleted, by retention or a trim, and is not audited. "
            f"The group's history is known from offset {self.summary['records_from']} on; older terms have no beginning."
        )

    @property
    def exit_code(self) -> int:
        """3 if a promise was broken, else 0."""
        return 3 if any(promise.verdict == "broken" for promise in self.promises) else 0

    def rows(self, table: str) -> list[Row]:
        """The rows of a table as dictionaries."""
        if table not in self._rows:
            self._rows[table] = self.tables[table].to_pylist()
        return self._rows[table]

    def write(self, out: str | Path, form: Literal["parquet", "jsonl"] = "parquet") -> list[Path]:
        """Writes each table to a file of its own in the folder `out`, and `summary.json`; returns the files.

        A file is there whole or not at all. Files of an earlier audit are replaced.
        """
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        written: list[Path] = []
        for name, table in self.tables.items():
            draft, place = folder / f".{name}.draft", folder / f"{name}.{form}"
            if form == "parquet":
                import pyarrow.parquet as pq

                pq.write_table(table, draft)
            else:
                draft.write_text("".join(f"{json.dumps(row, default=_text)}\n" for row in table.to_pylist()))
            os.replace(draft, place)
            written.append(place)
        draft, place = folder / ".summary.draft", folder / "summary.json"
        draft.write_text(json.dumps(self.to_json(), indent=2, default=_text) + "\n")
        os.replace(draft, place)
        return [*written, place]

    def to_json(self) -> dict[str, Any]:
        """The summary and the promises, for `--json`."""
        return {
            "group": self.group,
            "ledger": self.ledger,
            "summary": dict(self.summary),
            "cut_off": self.cut_off,
            "promises": [promise._asdict() for promise in self.promises],
            "exit_code": self.exit_code,
        }


def audit(
    ledger: str,
    group: str,
    writes: str | Path | DataFrame | None = None,
    faults: str | Path | DataFrame | Faults | None = None,
    out: str | Path | None = None,
    spark: SparkSession | None = None,
    *,
    options: Mapping[str, str] | None = None,
    clock_error_ms: int = 0,
    slack_ms: int = SLACK_MS,
    form: Literal["parquet", "jsonl"] = "parquet",
) -> AuditResult:
    """Audits `group` on the ledger at the URL `ledger`.

    Promised: nothing is written to the ledger or to the sink; the log's part of the verdict is exact; what physically
    happened is called broken only where clocks that are off by no more than `clock_error_ms` can't explain it.
    Not promised: anything about what was deleted from the log, or about members that lie about their beliefs.

    `writes`  the sink's rows: a path (Parquet, CSV, JSON lines, or ``file.db#table`` of SQLite) or a DataFrame, with the
              columns role, token, at_ms and, if there, key, seq, seat, member.
    `faults`  what was done to the members: the same, or an iterable, of (at_ms, member id or name, fault); it tells causes
              and deaths to the millisecond.
    `out`     a folder to write the tables into, as `form`.
    `options` settings of a Kafka ledger's clients, as for a member; secrets are better in a file of your own, which the URL
              names (`?config=FILE`): then Spark is not told them. They stand in no table, summary, report or error.
    `clock_error_ms` how far the members' clocks may be off; 0 for processes of one host, which share a clock.
    `slack_ms` how much longer than asked for an overlap may be in a non-exclusive group.

    Raises `ConfigError` for a ledger, group or file that is not there, `CapabilityError` without Spark or Java, and for a
    group that writes a newer format than this version reads, `LedgerUnavailable` for a ledger that can't be reached, and
    `LedgerGap` for one whose beginning is deleted faster than it can be read.
    """
    check_name("a group's name", group)
    if clock_error_ms < 0 or slack_ms < 0:
        raise ConfigError(f"clock_error_ms={clock_error_ms}, slack_ms={slack_ms}: give milliseconds of 0 or more")
    with open_to_read(ledger, options) as opened:
        # What is no ledger is said before Spark is started.
        induced = runs_induced(opened.log, group, opened.partition)
        shared_out = opened.log.partitions if induced else 0
    spark = spark if spark is not None else session()
    # Only now: these need pyspark, and if it is not there, `session` has said so.
    from pares.spark import rows as rows_
    from pares.spark.reading import Reading

    reading = Reading(spark, opened.log.url, opened.partition, options or {}, ledger)
    head, facts = reading.fold(group, _HEAD, shared_out)
    try:
        if head["from_ms"] is None:
            raise ConfigError(reading.nothing(group))
        if head["newer"] is not None:
            raise CapabilityError(head["newer"])
        faulty = rows_.load_faults(spark, faults)
        rows = None if writes is None else rows_.load_writes(spark, writes)
        result = _audit(spark, head, facts, faulty, rows, group, ledger, clock_error_ms, slack_ms)
    finally:
        facts.unpersist()
    if out is not None:
        result.write(out, form)
    return result


def warm_up(spark: SparkSession) -> None:
    """Audits a group of one member, so that Spark has done everything once: the next audit takes a third of the time.

    For `session.prestart`.
    """
    envelope: dict[str, Any] = {"v": VERSION, "g": "warm", "m": "a~0", "s": 0}
    records: list[AnyRecord] = [
        Genesis(**envelope, n=1, b=1, base=1),
        Join(**envelope, n=2, b=1, name="a", session=1000),
        Role(**envelope, n=3, b=1, name="r"),
        Claim(**envelope, n=4, b=1, seat=("r", 0)),
        Did(**envelope, n=5, b=1, seat=("r", 0), token=4, what="lead", at=1),
    ]
    with tempfile.TemporaryDirectory(prefix="pares-warm-") as folder:
        url = f"sqlite:///{quote(folder)}/warm.db"
        with closing(open_ledger(url)) as ledger:
            ledger.append_many([encode(record) for record in records])
        rows = spark.range(1).selectExpr("'r' AS role", "4L AS token", "2L AS at_ms")
        audit(url, "warm", rows, [(1, "a", "crash")], spark=spark)


def _audit(
    spark: SparkSession,
    head: Row,
    facts: DataFrame,
    faults: DataFrame,
    writes: DataFrame | None,
    group: str,
    ledger: str,
    clock_error_ms: int,
    slack_ms: int,
) -> AuditResult:
    window = intervals.Window(head["from_ms"], head["to_ms"], head["floor"])
    with _interpreted(spark):
        frames, checks, double_ms, terms = _of_log(facts, faults, window, group, clock_error_ms, slack_ms)
    counted: Row = {"writes": 0, "unreadable": 0, "late": 0}
    if writes is not None:
        seated = sink.seated(writes, terms, window.floor).cache()
        counted = sink.counts(seated, clock_error_ms).toArrow().to_pylist()[0]
        frames |= {
            "stale_writes": _sorted(sink.stale(seated)),
            "unknown_writes": _sorted(sink.unknown(seated)),
            "duplicate_writes": _sorted(sink.duplicates(seated)),
            "missing_writes": _sorted(sink.missing(seated)),
        }
        seated.unpersist()
    rows = {name: table.to_pylist() for name, table in frames.items()}
    case = verdict.Case(
        terms=rows["terms"],
        overlaps=rows["overlaps"],
        takeovers=rows["takeovers"],
        checks=checks,
        defects=head["defects"],
        stale=rows.get("stale_writes"),
        unknown=rows.get("unknown_writes"),
        writes=counted["writes"],
        overlap_ms=head["overlap_ms"] or 0,
        clock_error_ms=clock_error_ms,
    )
    summary = _summary(head, rows, counted, double_ms, writes is not None)
    return AuditResult(group, ledger, frames, summary, verdict.judge(case), rows)


def _of_log(
    facts: DataFrame, faults: DataFrame, window: intervals.Window, group: str, clock_error_ms: int, slack_ms: int
) -> tuple[dict[str, pa.Table], list[Row], int, DataFrame]:
    """The tables that follow from the log, what should not be there, the time in violation, and the terms for the sink."""
    spark = facts.sparkSession
    faults = _settled(faults)
    members = _settled(intervals.members(facts))
    terms = _settled(intervals.terms(facts, members, faults, window))
    believed = _settled(intervals.believed(terms))
    moves = _settled(intervals.moves(facts))
    stretches = _settled(intervals.segments(believed, intervals.windows(facts, window)))
    tables = {
        "terms": spark.sql(_TERMS, terms=terms, group=group),
        "overlaps": intervals.pairs(believed, clock_error_ms, slack_ms),
        "gaps": intervals.gaps(stretches, believed),
        "takeovers": intervals.takeovers(believed),
        "moves": moves,
        "balance": intervals.balance(members, believed),
        "bad_records": spark.sql(_BAD, facts=facts),
        "faults": spark.sql(_FAULTS, faults=faults),
    }
    wrong = verdict.checks(terms, moves, window.floor, clock_error_ms).toArrow().to_pylist()
    double = stretches.where("what = 'double'").toArrow().to_pylist()
    sorted_ = {name: _sorted(frame) for name, frame in tables.items()}
    return sorted_, wrong, sum(row["b"] - row["a"] for row in double), terms


@contextmanager
def _interpreted(spark: SparkSession) -> Iterator[None]:
    """Without compiling each query to Java, and in one partition: a few thousand rows take less time than the compiler.

    For the sink's rows it pays: a million of them take four times as long without.
    """
    wanted = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "1",
    }
    before = {key: spark.conf.get(key, None) for key in wanted}
    try:
        for key, value in wanted.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def _sorted(frame: DataFrame) -> pa.Table:
    """In order of place or time. Sorted here, not there: an order over all partitions costs Spark two more jobs a table."""
    table = frame.toArrow()
    return table.sort_by([(name, "ascending") for name in _ORDER if name in table.column_names])


def _settled(frame: DataFrame) -> DataFrame:
    """The same rows, computed now: later queries plan on them and no longer on all that led to them.

    Planning is what takes the time here, as there is one row a term; with everything in one plan it takes ten times longer.
    """
    return frame.sparkSession.createDataFrame(frame.toArrow())


def _summary(head: Row, rows: dict[str, list[Row]], counted: Row, double_ms: int, sunk: bool) -> dict[str, Any]:
    overlaps = rows["overlaps"]
    summary: dict[str, Any] = {
        "from_ms": head["from_ms"],
        "to_ms": head["to_ms"],
        "log_from": head["log_from"],
        "records_from": head["first_offset"],
        "records_to": head["last_offset"],
        "members": head["members"],
        "administrators": head["administrators"],
        "roles": head["roles"],
        "seats": head["seats"],
        "exclusive": not head["overlap_ms"],
        "overlap_ms": head["overlap_ms"] or 0,
        "terms": len(rows["terms"]),
        "moves": len(rows["moves"]),
        "takeovers": verdict.by_cause(rows["takeovers"]),
        "gaps": verdict.by_cause(rows["gaps"], None),
        "overlaps": {
            "certain": sum(row["certain"] and not row["expected"] for row in overlaps),
            "unsure": sum(not row["certain"] and not row["expected"] for row in overlaps),
            "expected": sum(row["expected"] for row in overlaps),
            "double_ms": double_ms,
        },
        "bad_records": len(rows["bad_records"]),
    }
    if sunk:
        summary["writes"] = {
            "count": counted["writes"],
            "unreadable": counted["unreadable"],
            "late": counted["late"],
            "stale": len(rows["stale_writes"]),
            "unknown": len(rows["unknown_writes"]),
            "duplicates": sum(row["writes"] - 1 for row in rows["duplicate_writes"]),
            "missing": sum(row["missing"] for row in rows["missing_writes"]),
        }
    return summary


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)
