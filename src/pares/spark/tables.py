"""From facts to tables: which view stands on which, and what of them comes to the driver.

Each table is worked out once and settled where it was worked out; later queries plan on it and no longer on all that led
to it. To the
driver come sums, and of each table at most `ROWS` rows a group. [a quarter of a million terms in the driver's memory]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pares.spark import intervals, schema
from pares.spark.rules.base import KNOWN_FAULTS, Allowed, Row, by, text, view
from pares.spark.rules.registry import INPUTS, plainly, violations
from pares.spark.session import started_here

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Engine: TypeAlias = Literal["auto", "spark", "python"]
"""By what the rules are answered: by their SQL (`spark`), by their oracles (`python`), which say the same, or by these
in a short log
and by SQL in a long one (`auto`): to plan a dozen queries takes Spark longer than a short log takes to walk through."""
Settle: TypeAlias = "Callable[[DataFrame], DataFrame]"
ROWS: Final = 1000
"""Rows of a table and a group that an audit holds; all of them are in its frames, and in the files that it writes."""

# The columns that are promised come first, in their promised order; what follows explains them.
_TERMS: Final = """
SELECT t.*, t.g AS `group`, b.a_early AS a_early_ms, b.a_late AS a_late_ms, b.b_early AS b_early_ms, b.b_late AS b_late_ms,
       -- How long it has lasted at the least: until its holder said that it was over, or was seen to die, or said its last.
       coalesce(t.stop_ms, CASE WHEN t.fault = 'crash' THEN least(t.fault_ms, t.b_late) END, least(t.alive_ms, t.b_late),
       t.to_ms)
         AS sure_ms
FROM {terms} t LEFT JOIN {believed} b ON b.g = t.g AND b.role = t.role AND b.seat = t.seat AND b.token = t.token AND
b.member = t.member
"""
_RECORDS: Final = """
SELECT g, kind, offset, at_ms, role, seat, token, member, other, clock_ms, cause, why, n, base, ref, counted, hash, due_ms
FROM {facts} WHERE kind = 'record'
"""
_FACTS: Final = "SELECT * FROM {facts} WHERE kind <> 'record'"
_WAITS: Final = ("token_b", "from_ms", "to_ms", "fit")
_PRESENT: Final = "SELECT DISTINCT CASE WHEN kind = 'record' THEN cause ELSE kind END AS what FROM {all}"
_BAD: Final = "SELECT g, offset, cause AS reason, payload, at_ms FROM {facts} WHERE kind = 'bad'"
_FAULTS: Final = "SELECT CAST(NULL AS STRING) AS g, at_ms, member, fault FROM {faults}"
_KEPT: Final = """
SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY {order}) AS place FROM {{table}}) WHERE place <= {rows}
"""

_TAKEOVERS: Final = """
SELECT g, cause, count(*) AS count, CAST(bround(percentile(ms, 0.5)) AS BIGINT) AS p50_ms, max(ms) AS max_ms, sum(ms) AS sum_ms
FROM {takeovers} GROUP BY g, cause
"""
_GAPS: Final = """
SELECT g, cause, count(*) AS count, CAST(bround(percentile(to_ms - from_ms, 0.5)) AS BIGINT) AS p50_ms, max(to_ms -
from_ms) AS max_ms,
       sum(to_ms - from_ms) AS sum_ms FROM {gaps} GROUP BY g, cause
"""
_OVERLAPS: Final = """
SELECT g, count(*) FILTER (WHERE certain AND NOT expected) AS certain, count(*) FILTER (WHERE NOT certain AND NOT
expected) AS unsure,
       count(*) FILTER (WHERE expected) AS expected, max(to_ms - from_ms) FILTER (WHERE expected) AS longest_expected
FROM {overlaps} GROUP BY g
"""
_SUDDEN: Final = """
SELECT g, count(*) AS count, CAST(bround(percentile(ms, 0.5)) AS BIGINT) AS p50_ms, max(ms) AS max_ms, min(limit_ms) AS
least_limit,
       max(limit_ms) AS most_limit, count(*) FILTER (WHERE ms > limit_ms) AS beyond, max(ms - limit_ms) AS most_beyond
FROM {takeovers} WHERE cause IN ('crash', 'freeze', 'cut') AND limit_ms IS NOT NULL GROUP BY g
"""
_FOUND: Final = """
SELECT g, rule, verdict, count(*) AS count, max(length_ms) AS longest_ms,
       max_by(struct(role, seat, token_a, token_b, member_a, member_b, length_ms, evidence),
              struct(coalesce(length_ms, 0), -coalesce(token_a, 0))) AS worst
FROM {violations} GROUP BY g, rule, verdict
"""
_COUNTS: Final = """
SELECT g, 'terms' AS what, count(*) AS count FROM {terms} GROUP BY g
UNION ALL SELECT g, 'beliefs', count(from_ms) FROM {terms} GROUP BY g
UNION ALL SELECT g, 'moves', count(*) FROM {moves} GROUP BY g
UNION ALL SELECT g, 'bad_records', count(*) FROM {bad_records} GROUP BY g
UNION ALL SELECT g, 'double_ms', sum(b - a) FROM {segments} WHERE what = 'double' GROUP BY g
UNION ALL SELECT g, concat('anomaly ', kind), count(*) FROM {anomalies} GROUP BY g, kind
"""
SUMS: Final = {
    "takeovers": _TAKEOVERS,
    "gaps": _GAPS,
    "overlaps": _OVERLAPS,
    "sudden": _SUDDEN,
    "found": _FOUND,
    "counts": _COUNTS,
}


def of_log(
    facts: DataFrame, faults: DataFrame, allowed: Allowed, *, short: bool, engine: Engine
) -> dict[str, DataFrame]:
    """All frames that follow from the log: the inputs of the rules, and the tables of `schema` but the sink's.

    `short`: the log is, so that to work a table out twice costs nothing; see `_Settle`. `engine`: see `Engine`.
    """
    settled = _Settle(short)
    spark = facts.sparkSession
    frames: dict[str, DataFrame] = {
        "records": view(spark, _RECORDS, {"facts": facts}),
        "facts": settled(view(spark, _FACTS, {"facts": facts})),
        "faults": faults,
    }
    raw, facts = facts, frames["facts"]
    frames["groups"] = settled(intervals.groups(facts))
    frames["members"] = settled(intervals.members(facts))
    frames["terms"] = settled(intervals.terms(facts, frames["groups"], frames["members"], faults))
    frames["believed"] = settled(intervals.believed(frames["terms"]))
    frames["moves"] = settled(intervals.moves(facts))
    frames["segments"] = settled(intervals.segments(frames["believed"], intervals.windows(facts, frames["groups"])))
    frames["overlaps"] = settled(intervals.pairs(frames["believed"], allowed.error_ms, allowed.slack_ms))
    frames["gaps"] = settled(intervals.gaps(frames["segments"], frames["believed"]))
    frames["takeovers"] = settled(intervals.takeovers(frames["believed"]))
    frames["balance"] = intervals.balance(frames["members"], frames["believed"])
    frames["bad_records"] = view(spark, _BAD, frames)
    by_rules = _plainly if engine == "python" or (engine == "auto" and short) else _by_sql
    by_rules(spark, frames, raw, allowed, settled)
    return frames


def _plainly(
    spark: SparkSession,
    frames: dict[str, DataFrame],
    raw: DataFrame,
    allowed: Allowed,
    settled: Callable[[DataFrame], DataFrame],
) -> None:
    """The rules by their oracles, here."""
    import pyarrow as pa

    found = plainly({name: frames[name].toArrow().to_pylist() for name in INPUTS}, allowed)
    for name in ("violations", "anomalies"):
        named = pa.schema([pa.field("g", pa.string()), *schema.arrow(name)])
        frames[name] = spark.createDataFrame(pa.Table.from_pylist(found[name], schema=named))
    waits = pa.schema(
        [(n, pa.string()) for n in ("g", "role")] + [("seat", pa.int32())] + [(n, pa.int64()) for n in _WAITS]
    )
    frames["waits"] = spark.createDataFrame(pa.Table.from_pylist(found["waits"], schema=waits))


def _by_sql(
    spark: SparkSession,
    frames: dict[str, DataFrame],
    raw: DataFrame,
    allowed: Allowed,
    settled: Callable[[DataFrame], DataFrame],
) -> None:
    """The rules by their views."""
    literals = allowed.literals()
    present: set[str] = {row["what"] for row in view(spark, _PRESENT, {**frames, "all": raw}).toArrow().to_pylist()}
    frames["pauses"] = settled(view(spark, text("views/pauses"), frames))
    stretches = settled(view(spark, text("views/waits"), frames, **literals))
    if stretches.isEmpty():
        frames["waits"] = stretches.selectExpr("*", "0L AS fit", "0L AS fit_long")
    else:
        present.add("wait")
        frames["waits"] = settled(view(spark, text("views/able"), {**frames, "stretches": stretches}, **literals))
    frames["counting"] = settled(view(spark, text("views/counting"), frames))
    frames["violations"] = settled(violations(spark, frames, allowed, present))
    words = ", ".join(KNOWN_FAULTS)
    frames["anomalies"] = settled(view(spark, text("views/anomalies"), frames, words=words))


def shown(frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The tables of `schema` by name, with `g` before their columns."""
    spark = frames["terms"].sparkSession
    made = {
        **frames,
        "terms": spark.sql(_TERMS, terms=frames["terms"], believed=frames["believed"]),
        "faults": spark.sql(_FAULTS, faults=frames["faults"]),
        "takeovers": spark.sql(
            "SELECT t.*, w.fit AS candidates FROM {takeovers} t LEFT JOIN {waits} w "
            "ON w.g = t.g AND w.role = t.role AND w.seat = t.seat AND w.token_b = t.token AND w.to_ms = t.at_ms",
            takeovers=frames["takeovers"],
            waits=frames["waits"],
        ),
    }
    return {
        table: spark.sql(f"SELECT g, {schema.select(table)} FROM {{frame}}", frame=made[table])
        for table in schema.TABLES
        if table in made and table != "records"
    }


def kept(frame: DataFrame, *, one: bool, short: bool = False) -> pa.Table:
    """At most `ROWS` rows of each group (`one`: there is only one), in the table's order, with `g`."""
    spark = frame.sparkSession
    few = frame.limit(ROWS + 1).toArrow() if short else None
    if few is not None and few.num_rows <= ROWS:
        return few.sort_by([(name, "ascending") for name in schema.ORDER if name in few.column_names])
    names = [f"`{name}`" for name in schema.ORDER if name in frame.columns]
    if one:
        return frame.orderBy(*names).limit(ROWS).toArrow()
    return spark.sql(_KEPT.format(order=", ".join(names), rows=ROWS), table=frame).drop("place").toArrow()


def sums(frames: Mapping[str, DataFrame]) -> dict[str, dict[str | None, list[Row]]]:
    """The sums over all rows, by what they are about and by group."""
    spark = frames["terms"].sparkSession
    found: dict[str, dict[str | None, list[Row]]] = {}
    for name, sql in SUMS.items():
        rows: list[Row] = view(spark, sql, frames).toArrow().to_pylist()
        found[name] = {key[0]: group for key, group in by(rows, "g").items()}
    return found


@contextmanager
def interpreted(spark: SparkSession, *, short: bool) -> Iterator[None]:
    """Without compiling each query to Java, and in one partition: a few thousand rows (`short`) take less time than the
    compiler. Only in
    a session that was started here: a caller's settings are the caller's.

    For the sink's rows it pays: a million of them take four times as long without.
    """
    if not (short and started_here(spark)):
        yield
        return
    wanted = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "1",
    }
    before: dict[str, Any] = {key: spark.conf.get(key, None) for key in wanted}
    try:
        for key, value in wanted.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


class _Settle:
    """Has the rows of a frame computed now. A table of few rows becomes a part of the plans that use it, which makes
    joins with it cheap;
    of a long log that is not tried, as it may work the table out twice."""

    def __init__(self, short: bool) -> None:
        self._short = short

    def __call__(self, frame: DataFrame) -> DataFrame:
        if self._short:
            rows = frame.limit(ROWS + 1).toArrow()
            if rows.num_rows <= ROWS:
                return frame.sparkSession.createDataFrame(rows)
        return frame.localCheckpoint(eager=True)
