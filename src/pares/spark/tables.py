"""From facts to tables: which view stands on which, and what of them comes to the driver.

Each table is worked out once and settled where it was worked out; later queries plan on it and no longer on all that led
to it. To the driver come sums, and of each table at most `ROWS` rows a group. [a quarter of a million terms in the driver's
memory]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pares.spark import intervals, schema
from pares.spark.host.compiling import Compiling
from pares.spark.host.kept import InFiles, Kept
from pares.spark.plain.tables import RAW, divided
from pares.spark.plain.tables import of_log as plain_tables
from pares.spark.rules import by_sql, sifting
from pares.spark.rules.base import Allowed, Row, least, view
from pares.spark.rules.hints import FEW
from pares.spark.rules.registry import INPUTS, plainly
from pares.spark.rules.sifting import Files
from pares.spark.session import frame_of, settled
from pares.spark.sums import TABLES as SUMMED
from pares.spark.sums import Sums
from pares.spark.sums import asked as asked_sums
from pares.spark.sums import plain as plain_sums

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Engine: TypeAlias = Literal["auto", "spark", "python"]
"""By what the rules are answered: by their SQL (`spark`), by their oracles (`python`), which say the same, or by these
in a short log and by SQL in a long one (`auto`). With the last two the tables of a short log are made in plain Python as
well: to plan two dozen queries takes Spark longer than a short log takes to walk through."""
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
_RECORDS: Final = f"SELECT {RAW} FROM {{facts}} WHERE kind = 'record'"
_FACTS: Final = "SELECT * FROM {facts} WHERE kind <> 'record'"
_WAITS: Final = ("token_b", "from_ms", "to_ms", "fit")
_BAD: Final = "SELECT g, offset, cause AS reason, payload, at_ms FROM {facts} WHERE kind = 'bad'"
_FAULTS: Final = "SELECT CAST(NULL AS STRING) AS g, at_ms, member, fault FROM {faults}"
_SHOWN: Final = tuple(table for table in schema.TABLES if table not in ("records", "sink_findings"))
_KEPT: Final = """
SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY {order}) AS place FROM {{table}}) WHERE place <= {rows}
"""


class Frames(MutableMapping[str, "DataFrame"]):
    """Frames by name; `held` has the rows of those that are here already.

    Of these a frame is made when it is asked for, and so are those that `later` is told of. [Spark takes seconds to plan what
    the audit of a short log never asks it for]
    """

    def __init__(self, spark: SparkSession, held: Mapping[str, pa.Table] | None = None) -> None:
        self.spark: Final = spark
        self.held: dict[str, pa.Table] = dict(held or {})
        self._made = dict[str, "DataFrame"]()
        self._known = dict[str, Sequence[Row]]()
        self._later: Mapping[str, Callable[[], DataFrame]] = {}
        self.sifted: Kept | None = None
        """All but beats, and runs, of a log whose facts are in files."""
        self.in_files: InFiles | None = None
        """What keeps their rows, if these are many: frames that are made of them need it (`session.needing`)."""
        self.by_oracles = False
        """Whether the rules are answered in plain Python."""
        self.of_rows = math.inf
        """Of how many rows the tables are made, however many records there are; infinite, where nobody knows."""

    def later(self, rows: Mapping[str, Sequence[Row]], make: Mapping[str, Callable[[], DataFrame]]) -> None:
        """What the rows of some are, and what makes the frames of these when they are asked for."""
        self._known |= rows
        self._later = make

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._made and name in self.held:
            # In one piece, so that nothing that stands on such tables alone has to be brought together first.
            self._made[name] = frame_of(self.spark, self.held[name]).coalesce(1)
        elif name not in self._made and name in self._later:
            return self._later[name]()
        return self._made[name]

    def __setitem__(self, name: str, frame: DataFrame) -> None:
        self._made[name] = frame

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._later, **self.held, **self._made})

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def rows(self, name: str) -> pa.Table:
        """The rows of a frame, fetched if they are not here."""
        if name not in self.held:
            self.held[name] = self[name].toArrow()
        return self.held[name]

    def lists(self, names: Iterable[str]) -> dict[str, list[Row]]:
        """The rows of several, as dictionaries of the caller's own."""
        known = self._known
        return {
            name: [{**row} for row in known[name]] if name in known else self.rows(name).to_pylist() for name in names
        }


_BY_QUERIES: Final[Mapping[str, Callable[[Frames, Allowed], DataFrame]]] = {
    "groups": lambda of, _: intervals.groups(of["facts"]),
    "members": lambda of, _: intervals.members(of["facts"]),
    "terms": lambda of, _: intervals.terms(of["facts"], of["groups"], of["members"], of["faults"]),
    "believed": lambda of, _: intervals.believed(of["terms"]),
    "moves": lambda of, _: intervals.moves(of["facts"]),
    "segments": lambda of, _: intervals.segments(of["believed"], intervals.windows(of["facts"], of["groups"])),
    "overlaps": lambda of, allowed: intervals.pairs(of["believed"], allowed.error_ms, allowed.slack_ms),
    "gaps": lambda of, _: intervals.gaps(of["segments"], of["believed"]),
    "takeovers": lambda of, _: intervals.takeovers(of["believed"]),
    "balance": lambda of, _: intervals.balance(of["members"], of["believed"]),
}
"""The tables that follow from the facts, each from those before it."""
_ASKED_ONCE: Final = ("balance",)
_LOOKED_UP: Final = ("groups", "members")
"""What other rows are joined with by their group, or by a member: each task is given all of it. [Spark takes what is settled
for endless, and brings all terms of a group together in one task, and all those without an heir]"""


def of_log(
    spark: SparkSession,
    facts: DataFrame | None,
    faults: DataFrame | pa.Table,
    allowed: Allowed,
    *,
    short: bool,
    engine: Engine,
    here: pa.Table | None = None,
    files: Files | None = None,
) -> Frames:
    """All frames that follow from the log: the inputs of the rules, and the tables of `schema` but the sink's.

    `short`: the log is, so that its tables are kept here; see `_Settle`. `engine`: see `Engine`. `here`: the rows of `facts`,
    which need not be given then; `files`: where they are, if that is known.
    """
    import pyarrow as pa

    frames = Frames(spark)
    if files is not None and here is None:
        frames.sifted = sifting.sifted(spark, files)
    frames.of_rows = 0 if short else math.inf if frames.sifted is None else sifting.size(frames.sifted)
    with Compiling(spark, rows=frames.of_rows) as how:
        if how.in_parts:
            frames.in_files = InFiles(spark)
        settled = _Settle(frames, short)
        if here is not None:
            frames.held |= divided(here)
        else:
            assert facts is not None
            frames["records"] = view(spark, _RECORDS, {"facts": facts})
            if files is None or frames.sifted is None:
                settled("facts", view(spark, _FACTS, {"facts": facts}))
            else:
                settled("facts", sifting.facts_of(frames.sifted.frame, files))
            frames["bad_records"] = view(spark, _BAD, frames)
        if isinstance(faults, pa.Table):
            frames.held["faults"] = faults
        else:
            frames["faults"] = faults
        by_oracles = frames.by_oracles = engine == "python" or (engine == "auto" and short)
        if here is not None and by_oracles:
            _here(frames, here, allowed, settled)
            return frames
        for name, query in _BY_QUERIES.items():
            if name in _ASKED_ONCE:
                frames[name] = query(frames, allowed)
            else:
                settled(name, query(frames, allowed))
            if name in _LOOKED_UP and how.compiles and not short and frames[name].count() <= FEW:
                frames[name] = frames[name].hint("broadcast")
        if by_oracles:
            _ruled(frames, plainly(frames.lists(INPUTS), allowed))
        else:
            sifted = None if frames.sifted is None else frames.sifted.frame
            by_sql.ask(spark, frames, frames.held.get("records"), sifted, allowed, settled, how)
    return frames


def _here(frames: Frames, here: pa.Table, allowed: Allowed, settled: _Settle) -> None:
    """All rows in plain Python; the frames by Spark, as they are asked for."""

    def made(name: str, query: Callable[[Frames, Allowed], DataFrame]) -> DataFrame:
        with Compiling(frames.spark, rows=0):
            return settled(name, query(frames, allowed))

    rows = plain_tables(here, frames.lists(["faults"])["faults"], allowed)
    _ruled(frames, rows)
    make = {name: partial(made, name, query) for name, query in _BY_QUERIES.items()}
    frames.later({name: rows[name] for name in make}, make)


def _ruled(frames: Frames, found: Mapping[str, Sequence[Row]]) -> None:
    """What the oracles have found."""
    import pyarrow as pa

    waits = pa.schema(
        [(n, pa.string()) for n in ("g", "role")] + [("seat", pa.int32())] + [(n, pa.int64()) for n in _WAITS]
    )
    schemas = {
        name: pa.schema([pa.field("g", pa.string()), *schema.arrow(name)]) for name in ("violations", "anomalies")
    }
    for name, named in {**schemas, "waits": waits}.items():
        frames.held[name] = pa.Table.from_pylist([*found[name]], schema=named)


def shown(frames: Frames, *, short: bool) -> Frames:
    """The tables of `schema` by name, with `g` before their columns; and their rows, if the log is short."""
    spark = frames.spark
    if short:
        return Frames(spark, shown_here(frames.lists({*_SHOWN, "believed", "waits"})))
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
    found = Frames(spark)
    found.in_files = frames.in_files
    for table in _SHOWN:
        found[table] = spark.sql(f"SELECT g, {schema.select(table)} FROM {{frame}}", frame=made[table])
    return found


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


def kept(frames: Frames, name: str, *, one: bool) -> pa.Table:
    """Of a table at most `ROWS` rows of each group (`one`: there is only one), in the table's order, with `g`."""
    here = frames.held.get(name)
    if here is not None and here.num_rows <= ROWS:
        return ordered(here)
    frame = frames[name]
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


class _Settle:
    """Has the rows of a frame computed now, and puts them among the frames. A table of few rows is kept here, and becomes a
    part of the plans that use it, which makes joins with it cheap; of a long log that is not tried, as it may work the table
    out twice."""

    def __init__(self, frames: Frames, short: bool) -> None:
        self._frames, self._short = frames, short

    def __call__(self, name: str, frame: DataFrame) -> DataFrame:
        self._settle(name, frame)
        return self._frames[name]

    def _settle(self, name: str, frame: DataFrame) -> None:
        if self._short:
            rows = frame.limit(ROWS + 1).toArrow()
            if rows.num_rows <= ROWS:
                self._frames.held[name] = rows
                return
        files = self._frames.in_files
        self._frames[name] = settled(frame) if files is None else files.settled(frame)
