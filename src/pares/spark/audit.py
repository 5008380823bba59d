"""The audit: from a group's log, and what its work left behind, to tables and verdicts.

It believes nobody. The log is opened read-only and folded from its beginning, once, by the kernel's own fold (what the log
decided); a second opinion in SQL goes over the same records without the fold; members' own words about their beliefs are held
against each other as intervals (what physically happened); the sink's rows are held against all of it. A dead member can't lie
in its favour: what it did not say is bounded by its lease.

    log --fold--> facts --SQL--> terms --SQL--> overlaps, gaps, takeovers, moves, balance
    facts, terms, raw records --rules--> violations, anomalies          sink's rows --rules--> findings
    all --> verdicts
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import quote

from pares.core.errors import CapabilityError, ConfigError
from pares.core.wire.records import AnyRecord, Claim, Did, Genesis, Join, Role, check_name, encode
from pares.ledger.base import Ledger, offers
from pares.ledger.bus import BUS_TOPIC, last_published
from pares.ledger.registry import open as open_ledger
from pares.runtime.detect import known, runs_induced
from pares.spark import verdict
from pares.spark.host.compiling import Compiling
from pares.spark.host.memory import in_memory
from pares.spark.logs import Opened, is_long, open_to_read
from pares.spark.page import pictures
from pares.spark.page.pictures import Near, Picture
from pares.spark.plain.moments import RECORDS
from pares.spark.result import AuditResult, Share, Whole, quoted
from pares.spark.rules.base import SLACK_MS, Allowed, Row
from pares.spark.rules.sifting import Files
from pares.spark.session import require_rows, settled, started, while_kept
from pares.spark.sums import of_sums

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pares.spark.rows import Faults
    from pares.spark.tables import Engine, Frames


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
    engine: Engine = "auto",
) -> AuditResult:
    """Audits `group` on the ledger at the URL `ledger`.

    Promised: nothing is written to the ledger or to the sink, and no setting of `spark` is changed; the log is read once; the
    log's part of the verdict is exact; what physically happened is called broken only where clocks that are off by no more than
    `clock_error_ms` can't explain it.
    Not promised: anything about what was deleted from the log, or about members that lie about their beliefs.

    `writes`  the sink's rows: a path (Parquet, CSV, JSON lines, or ``file.db#table`` of SQLite) or a DataFrame, with the
              columns role, token, at_ms and, if there, key, seq, seat, member, ord (the order in which the sink took them).
    `faults`  what was done to the members: the same, or an iterable, of (at_ms, member id or name, fault); it tells causes
              and deaths to the millisecond.
    `out`     a folder to write the tables into, as `form`.
    `options` settings of a Kafka ledger's clients, as for a member; secrets are better in a file of your own, which the URL
              names (`?config=FILE`): then Spark is not told them. They stand in no table, summary, report or error.
    `clock_error_ms` how far the members' clocks may be off; 0 for processes of one host, which share a clock.
    `slack_ms` how much longer than asked for an overlap may be in a non-exclusive group.
    `engine`  by what the rules are answered: `spark`, `python`, or `auto`, which takes Python for a short log, whose tables are
              then made without Spark as well. All say the same. With `python` and no `spark`, none is started, and no Java is
              needed: a log of up to `plain.tables.MOST` records is judged in plain Python, without `writes` and without a file
              of `faults`; `frames` has nothing then, and `tables` all rows.

    Raises `ConfigError` for a ledger, group or file that is not there, `CapabilityError` without Spark or Java, with a heap
    that is too small, for a log too long to be judged without Spark, and for a group that writes a newer format than this
    version reads, `LedgerUnavailable` for a ledger that can't be reached, and `LedgerGap` for one whose beginning is deleted
    faster than it can be read.
    """
    check_name("a group's name", group)
    allowed = _allowed(clock_error_ms, slack_ms)
    with open_to_read(ledger, options) as opened:
        # What is no ledger is said before Spark is started.
        place, induced = place_of(opened, group)
        long = spark is None and is_long(opened.log)
    if engine == "python" and spark is None:
        result = _plainly(place, group, ledger, options or {}, allowed, faults, writes, induced=induced)
        if out is not None:
            result.write(out, form)
        return result
    spark = spark if spark is not None else started(fill=load, long=long)
    with in_memory():
        (result,) = _audits(
            spark, place, group, ledger, options or {}, allowed, faults, writes, induced=induced, engine=engine
        )
    if out is not None:
        result.write(out, form)
    return result


def audit_all(
    ledger: str,
    spark: SparkSession | None = None,
    *,
    faults: str | Path | DataFrame | Faults | None = None,
    options: Mapping[str, str] | None = None,
    clock_error_ms: int = 0,
    slack_ms: int = SLACK_MS,
    engine: Engine = "auto",
) -> list[AuditResult]:
    """Audits all groups in the ledger's log, in one pass over it, by name; see `audit`.

    Left out: groups of which the log has lost the beginning and holds no snapshot; groups that run ALLCALL, which have no log
    (audit them by name, or `ledger` with `#pares.bus`). Raises `ConfigError` for a ledger without any group.
    """
    allowed = _allowed(clock_error_ms, slack_ms)
    with open_to_read(ledger, options) as opened:
        place = opened.log.url, opened.partition
        long = spark is None and is_long(opened.log)
    spark = spark if spark is not None else started(fill=load, long=long)
    with in_memory():
        return _audits(spark, place, None, ledger, options or {}, allowed, faults, None, induced=True, engine=engine)


def audit_several(
    ledger: str,
    groups: Sequence[str],
    spark: SparkSession | None = None,
    *,
    faults: str | Path | DataFrame | Faults | None = None,
    options: Mapping[str, str] | None = None,
    clock_error_ms: int = 0,
    slack_ms: int = SLACK_MS,
    engine: Engine = "auto",
) -> list[AuditResult]:
    """Audits each of `groups` in the ledger's log, as they are named; see `audit`.

    Groups whose histories stand in the same log are read in one pass over it. Raises what `audit` raises, for any of them.
    """
    for group in groups:
        check_name("a group's name", group)
    allowed = _allowed(clock_error_ms, slack_ms)
    together: dict[tuple[tuple[str, int], bool], list[str]] = {}
    with open_to_read(ledger, options) as opened:
        long = spark is None and is_long(opened.log)
        for group in dict.fromkeys(groups):
            together.setdefault(place_of(opened, group), []).append(group)
    spark = spark if spark is not None else started(fill=load, long=long)
    found: dict[str, AuditResult] = {}
    with in_memory():
        for (place, induced), names in together.items():
            of = names[0] if len(names) == 1 else frozenset(names)
            found |= {
                result.group: result
                for result in _audits(
                    spark, place, of, ledger, options or {}, allowed, faults, None, induced=induced, engine=engine
                )
            }
    return [found[group] for group in groups]


def _allowed(clock_error_ms: int, slack_ms: int) -> Allowed:
    if clock_error_ms < 0 or slack_ms < 0:
        raise ConfigError(f"clock_error_ms={clock_error_ms}, slack_ms={slack_ms}: give milliseconds of 0 or more")
    return Allowed(clock_error_ms, slack_ms)


def place_of(opened: Opened, group: str) -> tuple[tuple[str, int], bool]:
    """The URL and partition that the group's history is read from, and whether the group runs a protocol of NELI's family: by
    its newest record here, or in another partition if there is none. A group that no log knows may be one of ALLCALL's: its
    calls stand on the ledger's bus."""
    log, partition = opened
    place = log.url, partition
    if known(log, group, partition):
        return place, runs_induced(log, group, partition)
    if any(runs_induced(log, group, other) for other in range(log.partitions) if other != partition):
        return place, True
    if offers(log, Ledger) and last_published(log, group) is not None:
        return (f"{log.url}#{BUS_TOPIC}", 0), False
    return place, False


def _audits(
    spark: SparkSession,
    place: tuple[str, int],
    group: str | frozenset[str] | None,
    ledger: str,
    options: Mapping[str, str],
    allowed: Allowed,
    faults: str | Path | DataFrame | Faults | None,
    writes: str | Path | DataFrame | None,
    *,
    induced: bool,
    engine: Engine,
) -> list[AuditResult]:
    # Only now: it needs pyspark, and if that is not there, `session` has said so.
    from pares.spark.reading import Reading
    from pares.spark.rows import repeatable

    url, partition = place
    struck = repeatable(faults)

    def work_out() -> list[AuditResult]:
        reading = Reading(spark, url, partition, options, ledger)
        facts = reading.fold(group, induced=induced, error_ms=allowed.error_ms)
        return judged(spark, facts, reading, group, ledger, allowed, struck, writes, engine)

    return while_kept(work_out)


class Folded(Protocol):
    """Where the facts come from: a log that was just read, or a history."""

    @property
    def entries(self) -> int:
        """How many entries of the log they were made of."""
        ...

    @property
    def start(self) -> int:
        """Where what is known of the log begins."""
        ...

    @property
    def here(self) -> pa.Table | None:
        """The facts, if they are few."""
        ...

    @property
    def files(self) -> Files | None:
        """The files that have the facts, and no others of the groups that are judged; None: there are none, or others."""
        ...

    def nothing(self, group: str | None) -> str:
        """Why there is nothing of `group` to audit."""
        ...


def judged(
    spark: SparkSession,
    facts: DataFrame | None,
    reading: Folded,
    group: str | frozenset[str] | None,
    ledger: str,
    allowed: Allowed,
    faults: str | Path | DataFrame | Faults | None = None,
    writes: str | Path | DataFrame | None = None,
    engine: Engine = "auto",
) -> list[AuditResult]:
    """The audit of facts that are there; what `audit`, `audit_several` and `audit_all` do once the log is folded.

    `facts` need not be given where `reading` has them here.
    """
    from pares.spark import rows as rows_
    from pares.spark import tables
    from pares.spark.reading import SMALL

    short = reading.entries <= SMALL
    with Compiling(spark, rows=0 if short else math.inf):
        struck = rows_.faults_of(spark, faults)
        rows_.check_faults(struck, rows_.told(faults))
    here, files = reading.here, reading.files
    frames = tables.of_log(spark, facts, struck, allowed, short=short, engine=engine, here=here, files=files)
    with Compiling(spark, rows=frames.of_rows):
        heads = _heads(frames.lists(["groups"])["groups"], reading, group)
        sums = tables.sums(frames, short=short)
        shown = tables.shown(frames, short=short)
        held = {name: tables.kept(shown, name, one=isinstance(group, str)) for name in [*shown]}
    sink: tuple[DataFrame, dict[str, Row]] | None = None
    if writes is not None and isinstance(group, str):
        sink = _at_sink(spark, writes, frames, heads[group]["floor"], allowed)
        shown["sink_findings"] = sink[0]
        held["sink_findings"] = tables.kept(shown, "sink_findings", one=True)
    found: list[AuditResult] = []
    shares = {table: Share(rows) for table, rows in held.items()}
    for name in sorted(heads):
        head, of_group = heads[name], of_sums(sums, name)
        case = verdict.case_of(head, of_group, None if sink is None else sink[1], allowed)
        summary = verdict.summary(head, of_group, case)
        own = {table: share.of(name) for table, share in shares.items()}
        whole = Whole(shown, name, (facts, shown.in_files))
        by: Literal["spark", "python"] = "python" if frames.by_oracles else "spark"
        result = AuditResult(name, ledger, own, summary, verdict.judge(case), whole, engine=by)
        if isinstance(group, str):
            with Compiling(spark, rows=frames.of_rows) as how:
                result = replace(result, picture=_picture(result, frames, shown.held, how))
        found.append(result)
    return found


def _picture(result: AuditResult, frames: Frames, here: Mapping[str, pa.Table], how: Compiling) -> Picture:
    """What the report draws, of all rows; `here`: those of a short log, by table."""
    times = result.summary["from_ms"], result.summary["to_ms"]
    records = _near(frames, result.group, how, short=bool(here))
    if not here and any(result.cut(name) for name in pictures.TABLES):
        return pictures.of_frames(result.frames, *times, records)
    rows = {name: Share(here[name]).of(result.group) if here else result.tables[name] for name in pictures.TABLES}
    return pictures.of_rows({name: table.to_pylist() for name, table in rows.items()}, *times, records)


def _plainly(
    place: tuple[str, int],
    group: str,
    ledger: str,
    options: Mapping[str, str],
    allowed: Allowed,
    faults: Any,
    writes: Any,
    *,
    induced: bool,
) -> AuditResult:
    """The audit without Spark: `_audits` in plain Python."""
    require_rows()
    from pares.spark import tables
    from pares.spark.plain.tables import MOST, of_log
    from pares.spark.reading import Reading
    from pares.spark.rows import fault_named
    from pares.spark.sums import plain

    if writes is not None or isinstance(faults, str | Path) or hasattr(faults, "sparkSession"):
        raise ConfigError(
            "without Spark the log alone is judged: leave out the writes and the file of faults, or --engine"
        )
    reading = Reading(None, *place, options, ledger)
    facts = reading.rows(group, induced=induced, error_ms=allowed.error_ms, most=MOST)
    struck = [{"at_ms": at, "member": member, "fault": fault_named(fault)} for at, member, fault in faults or ()]
    rows = of_log(facts, struck, allowed)
    head = _heads(rows["groups"], reading, group)[group]
    of_group = of_sums(plain(rows), group)
    case = verdict.case_of(head, of_group, None, allowed)
    held = {name: Share(tables.ordered(table)).of(group) for name, table in tables.shown_here(rows).items()}
    summary = verdict.summary(head, of_group, case)
    of_tables = {name: held[name].to_pylist() for name in pictures.TABLES}
    records = [row for row in rows["records"] if row["g"] == group]
    picture = pictures.of_rows(of_tables, summary["from_ms"], summary["to_ms"], lambda _: records)
    return AuditResult(group, ledger, held, summary, verdict.judge(case), engine="python", picture=picture)


def _near(frames: Frames, group: str, how: Compiling, *, short: bool) -> Near:
    """The group's records in ranges of offsets: those that are here, or the ones that Spark has."""

    def near(ranges: Sequence[tuple[int, int]]) -> list[Row]:
        if short:
            return [row for row in frames.rows("records").to_pylist() if row["g"] == group]
        places = " OR ".join(f"offset BETWEEN {low} AND {high}" for low, high in ranges)
        own = frames["records"].where(f"g = {quoted(group)} AND ({places})")
        with how.many():
            return own.orderBy("offset").limit(RECORDS).toArrow().to_pylist()

    return near


def _heads(groups: Iterable[Row], reading: Folded, group: str | frozenset[str] | None) -> dict[str, Row]:
    """The groups that the log tells of, by name: those that are asked for, or all."""
    heads = {row["g"]: {**row, "log_from": reading.start} for row in groups if row["first_ms"] is not None}
    wanted = {group} if isinstance(group, str) else group or ()
    if missing := sorted(set(wanted) - heads.keys()):
        raise ConfigError(reading.nothing(missing[0]))
    if not heads:
        raise ConfigError(reading.nothing(None))
    for head in heads.values():
        if head["newer"] is not None:
            raise CapabilityError(head["newer"])
    return heads


_SINK = """
SELECT rule, count(*) AS rows, sum(count) AS count, min_by(struct(role, token, seen), coalesce(position, at_ms)) AS first
FROM {findings} GROUP BY rule
"""


def _at_sink(
    spark: SparkSession, writes: Any, frames: Mapping[str, DataFrame], floor: int, allowed: Allowed
) -> tuple[DataFrame, dict[str, Row]]:
    """All findings, and what they come to by rule; `writes` has the number of rows."""
    from pares.spark import rows as rows_
    from pares.spark.rules.sink.findings import findings, seated

    loaded = rows_.load_writes(spark, writes)
    rows = settled(seated(spark, loaded, frames, floor))
    rows_.check_unit(rows, rows_.told(writes))
    found = settled(findings(spark, rows, allowed))
    sums = {row["rule"]: row for row in spark.sql(_SINK, findings=found).toArrow().to_pylist()}
    return found, {**sums, "writes": {"count": rows.count()}}


def warm_up(spark: SparkSession) -> None:
    """Audits a group of one member, so that Spark has done everything once: the next audit takes a third of the time.

    For `session.prestart`.
    """
    _warmed(spark, "auto")


def load(spark: SparkSession) -> None:
    """The same, and by queries, so that Spark has loaded all that the audit of a long log needs. For `session.session`."""
    _warmed(spark, "spark")


def _warmed(spark: SparkSession, engine: Engine) -> None:
    envelope: dict[str, Any] = {"v": 1, "g": "warm", "m": "a~0", "s": 0}  # the form of a genesis never changes
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
        audit(url, "warm", rows, [(1, "a", "crash")], spark=spark, engine=engine)
