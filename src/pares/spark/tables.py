"""From facts to tables: which view stands on which, and what of them comes to the driver.

Each table is worked out once and settled where it was worked out; later queries plan on it and no longer on all that led
to it. To the driver come sums, and of each table at most `ROWS` rows a group. [a quarter of a million terms in the driver's
memory]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pares.spark import intervals, schema
from pares.spark.rules.base import KNOWN_FAULTS, Allowed, Row, least, text, view
from pares.spark.rules.hints import for_records, hinted, if_few
from pares.spark.rules.registry import INPUTS, plainly, violations
from pares.spark.session import frame_of, settled, started_here
from pares.spark.sums import TABLES as SUMMED
from pares.spark.sums import Sums
from pares.spark.sums import asked as asked_sums
from pares.spark.sums import plain as plain_sums

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Engine: TypeAlias = Literal["auto", "spark", "python"]
"""By what the rules are answered: by their SQL (`spark`), by their oracles (`python`), which say the same, or by these
in a short log and by SQL in a long one (`auto`): to plan a dozen queries takes Spark longer than a short log takes to walk
through."""
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
_SAID: Final = "cause, why, n, base, ref, counted, hash, due_ms"
_RAW: Final = f"g, kind, offset, at_ms, role, seat, token, member, other, clock_ms, {_SAID}"
_RECORDS: Final = f"SELECT {_RAW} FROM {{facts}} WHERE kind = 'record'"
_FACTS: Final = "SELECT * FROM {facts} WHERE kind <> 'record'"
_WAITS: Final = ("token_b", "from_ms", "to_ms", "fit")
_PRESENT: Final = (
    "SELECT CASE WHEN kind = 'record' THEN cause ELSE kind END AS what, count(*) AS many FROM {all} GROUP BY 1"
)
_BAD: Final = "SELECT g, offset, cause AS reason, payload, at_ms FROM {facts} WHERE kind = 'bad'"
_FAULTS: Final = "SELECT CAST(NULL AS STRING) AS g, at_ms, member, fault FROM {faults}"
_SHOWN: Final = tuple(table for table in schema.TABLES if table not in ("records", "sink_findings"))
_KEPT: Final = """
SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY {order}) AS place FROM {{table}}) WHERE place <= {rows}
"""


class Frames(dict[str, "DataFrame"]):
    """Frames by name; `held` has the rows of those that are here already."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[str, pa.Table] = {}

    def rows(self, name: str) -> pa.Table:
        """The rows of a frame, fetched if they are not here."""
        if name not in self.held:
            self.held[name] = self[name].toArrow()
        return self.held[name]

    def lists(self, names: Iterable[str]) -> dict[str, list[Row]]:
        """The rows of several, as dictionaries."""
        return {name: self.rows(name).to_pylist() for name in names}


def of_log(
    facts: DataFrame,
    faults: DataFrame,
    allowed: Allowed,
    *,
    short: bool,
    engine: Engine,
    here: pa.Table | None = None,
) -> Frames:
    """All frames that follow from the log: the inputs of the rules, and the tables of `schema` but the sink's.

    `short`: the log is, so that its tables are kept here; see `_Settle`. `engine`: see `Engine`. `here`: the rows of `facts`,
    if they are here.
    """
    frames = Frames()
    settled = _Settle(frames, short)
    spark = facts.sparkSession
    if here is None:
        frames["records"] = view(spark, _RECORDS, {"facts": facts})
        settled("facts", view(spark, _FACTS, {"facts": facts}))
        frames["bad_records"] = view(spark, _BAD, frames)
    else:
        _divide(spark, here, frames)
    frames["faults"] = faults
    raw, facts = facts, frames["facts"]
    groups = settled("groups", intervals.groups(facts))
    members = settled("members", intervals.members(facts))
    terms = settled("terms", intervals.terms(facts, groups, members, faults))
    believed = settled("believed", intervals.believed(terms))
    settled("moves", intervals.moves(facts))
    segments = settled("segments", intervals.segments(believed, intervals.windows(facts, groups)))
    settled("overlaps", intervals.pairs(believed, allowed.error_ms, allowed.slack_ms))
    settled("gaps", intervals.gaps(segments, believed))
    settled("takeovers", intervals.takeovers(believed))
    frames["balance"] = intervals.balance(members, believed)
    by_rules = _plainly if engine == "python" or (engine == "auto" and short) else _by_sql
    by_rules(spark, frames, raw, allowed, settled)
    return frames


def _divide(spark: SparkSession, here: pa.Table, frames: Frames) -> None:
    """`_RECORDS`, `_FACTS` and `_BAD` of rows that are here."""
    for name, rows in divided(here).items():
        frames.held[name] = rows
        frames[name] = frame_of(spark, rows)


def divided(here: pa.Table) -> dict[str, pa.Table]:
    """Of the rows of a fold: `records`, `facts` and `bad_records`."""
    import pyarrow as pa

    kinds = here.column("kind").to_pylist()

    def of(kind: Callable[[str], bool]) -> pa.Table:
        return here.filter(pa.array([kind(one) for one in kinds], pa.bool_()))

    bad = of(lambda kind: kind == "bad").select(["g", "offset", "cause", "payload", "at_ms"])
    return {
        "records": of(lambda kind: kind == "record").select(_RAW.split(", ")),
        "facts": of(lambda kind: kind != "record"),
        "bad_records": bad.rename_columns(["g", "offset", "reason", "payload", "at_ms"]),
    }


def _plainly(
    spark: SparkSession,
    frames: Frames,
    raw: DataFrame,
    allowed: Allowed,
    settled: _Settle,
) -> None:
    """The rules by their oracles, here."""
    import pyarrow as pa

    found = plainly(frames.lists(INPUTS), allowed)
    waits = pa.schema(
        [(n, pa.string()) for n in ("g", "role")] + [("seat", pa.int32())] + [(n, pa.int64()) for n in _WAITS]
    )
    schemas = {
        name: pa.schema([pa.field("g", pa.string()), *schema.arrow(name)]) for name in ("violations", "anomalies")
    }
    for name, named in {**schemas, "waits": waits}.items():
        frames.held[name] = pa.Table.from_pylist(found[name], schema=named)
        frames[name] = frame_of(spark, frames.held[name])


def _by_sql(
    spark: SparkSession,
    frames: Frames,
    raw: DataFrame,
    allowed: Allowed,
    settled: _Settle,
) -> None:
    """The rules by their views."""
    literals = allowed.literals()
    many = {row["what"]: row["many"] for row in view(spark, _PRESENT, {**frames, "all": raw}).toArrow().to_pylist()}
    present: set[str] = set(many)
    settled("pauses", view(spark, text("views/pauses"), frames))
    stretches = settled("stretches", view(spark, text("views/waits"), frames, **literals))
    if stretches.isEmpty():
        frames["waits"] = stretches.selectExpr("*", "0L AS fit", "0L AS fit_long")
    else:
        present.add("wait")
        settled("waits", view(spark, text("views/able"), frames, **literals))
    hints = for_records(many)
    settled("counting", view(spark, hinted(text("views/counting"), **hints), frames))
    settled("violations", violations(spark, frames, allowed, present))
    numbers = settled("numbers", view(spark, hinted(text("views/numbers"), **hints), frames))
    doubtful = if_few(numbers.where("again").count(), "d")
    words = ", ".join(KNOWN_FAULTS)
    settled("anomalies", view(spark, hinted(text("views/anomalies"), doubtful=doubtful), frames, words=words))


def shown(frames: Frames, *, short: bool) -> tuple[dict[str, DataFrame], dict[str, pa.Table]]:
    """The tables of `schema` by name, with `g` before their columns; and their rows, if the log is short."""
    spark = frames["terms"].sparkSession
    if short:
        tables = shown_here(frames.lists({*_SHOWN, "believed", "waits"}))
        return {name: frame_of(spark, table) for name, table in tables.items()}, tables
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
        table: spark.sql(f"SELECT g, {schema.select(table)} FROM {{frame}}", frame=made[table]) for table in _SHOWN
    }, {}


def shown_here(rows: Mapping[str, list[Row]]) -> dict[str, pa.Table]:
    """The tables of `schema` out of the rows of all frames that are here, without a query."""
    import pyarrow as pa

    names = ("g", "role", "seat", "token", "member")
    bounds = {tuple(row[name] for name in names): row for row in rows["believed"]}
    terms: list[Row] = rows["terms"]
    for row in terms:
        bound = bounds.get(
            tuple(row[name] for name in names), dict.fromkeys(("a_early", "a_late", "b_early", "b_late"))
        )
        row["group"] = row["g"]
        row |= {f"{name}_ms": bound[name] for name in ("a_early", "a_late", "b_early", "b_late")}
        died = least(row["fault_ms"], row["b_late"]) if row["fault"] == "crash" else None
        alive = least(row["alive_ms"], row["b_late"])
        ends = (row["stop_ms"], died, alive, row["to_ms"])
        row["sure_ms"] = next((end for end in ends if end is not None), None)
    waits = {(row["g"], row["role"], row["seat"], row["token_b"], row["to_ms"]): row["fit"] for row in rows["waits"]}
    takeovers: list[Row] = rows["takeovers"]
    for row in takeovers:
        row["candidates"] = waits.get((row["g"], row["role"], row["seat"], row["token"], row["at_ms"]))
    faults: list[Row] = [{**row, "g": None} for row in rows["faults"]]
    made = {"terms": terms, "takeovers": takeovers, "faults": faults}
    found: dict[str, pa.Table] = {}
    for table in _SHOWN:
        of_table = made[table] if table in made else rows[table]
        named = pa.schema([pa.field("g", pa.string()), *schema.arrow(table)])
        found[table] = pa.Table.from_pylist(of_table, schema=named)
    return found


def kept(frame: DataFrame, here: pa.Table | None = None, *, one: bool) -> pa.Table:
    """At most `ROWS` rows of each group (`one`: there is only one), in the table's order, with `g`. `here`: all of its rows."""
    if here is not None and here.num_rows <= ROWS:
        return ordered(here)
    order = [f"`{name}`" for name in schema.ORDER if name in frame.columns]
    if one:
        return frame.orderBy(*order).limit(ROWS).toArrow()
    sql = _KEPT.format(order=", ".join(order), rows=ROWS)
    return frame.sparkSession.sql(sql, table=frame).drop("place").toArrow()


def ordered(table: pa.Table) -> pa.Table:
    """The rows of a table in its order."""
    return table.sort_by([(name, "ascending") for name in schema.ORDER if name in table.column_names])


def sums(frames: Frames, *, short: bool) -> Sums:
    """The sums over all rows, by what they are about and by group."""
    return plain_sums(frames.lists(SUMMED)) if short else asked_sums(frames)


@contextmanager
def interpreted(spark: SparkSession, *, short: bool) -> Iterator[None]:
    """Without compiling each query to Java, and in one partition: a few thousand rows (`short`) take less time than the
    compiler. Only in a session that was started here: a caller's settings are the caller's.

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
    """Has the rows of a frame computed now, and puts them among the frames. A table of few rows is kept here, and becomes a
    part of the plans that use it, which makes joins with it cheap; of a long log that is not tried, as it may work the table
    out twice."""

    def __init__(self, frames: Frames, short: bool) -> None:
        self._frames, self._short = frames, short

    def __call__(self, name: str, frame: DataFrame) -> DataFrame:
        self._frames[name] = self._settled(name, frame)
        return self._frames[name]

    def _settled(self, name: str, frame: DataFrame) -> DataFrame:
        if self._short:
            rows = frame.limit(ROWS + 1).toArrow()
            if rows.num_rows <= ROWS:
                self._frames.held[name] = rows
                return frame_of(frame.sparkSession, rows)
        return settled(frame)
