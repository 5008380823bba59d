"""Rows that did not come from the log: what a sink has, and what was done to the members.

They are read where they are, as Parquet, CSV, JSON lines or a table of a SQLite file, and brought to one form. A file's kind
is read off its first bytes where those tell, else off its name.

The order in which a sink took its rows matters (see `writes`), and only some forms keep it: a SQLite table (its rowid) and
a single file (the order of its rows). Of a folder of files nothing says which row came first; there the writers' clocks
must do, and equal times are held against nobody.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median_low
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pares.core.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Faults: TypeAlias = Iterable[tuple[int, str, str]]
"""What was done to whom: (wall-clock ms, member id or name, fault)."""

WRITES: Final = {
    "role": "string",
    "token": "bigint",
    "at_ms": "bigint",
    "key": "string",
    "seq": "bigint",
    "seat": "int",
    "member": "string",
}
"""A sink's columns; the first three are needed."""
NEEDED: Final = ("role", "token", "at_ms")
FAULTS: Final = {"at_ms": "bigint", "member": "string", "fault": "string"}

DATABASE: Final = "sqlite"
"""What a file of rows is that no reader of Spark's own reads."""
_OWN: Final = ("_rowid", "_order")
"""Columns that reading adds."""
_BATCH: Final = 10_000
_ORDER: Final = "struct<a: bigint, b: string, c: bigint, d: bigint>"

_MIDDLE: Final = "SELECT percentile_approx(at_ms, 0.5) AS middle FROM {rows}"
_UNITS: Final = {"seconds": (10**9, 10**11), "microseconds": (10**14, 10**17), "nanoseconds": (10**17, 2**63)}
"""From 2001 on, what a time of these days is in another unit."""

_CALLED: Final = {
    "crash": "crash|kill|sigkill|die|died|power",
    "freeze": "freeze|frozen|froze|sigstop|suspend|hang",
    "thaw": "thaw|sigcont|wake|unfreeze",
    "cut": "cut|partition|isolate|deaf",
    "join": "add|join|start|new",
    "drain": "drain",
    "leave": "leave|left|close|quit",
}
"""What people and tools call each fault, by how it begins."""
_WHEN: Final = (f"WHEN lower(fault) RLIKE '^({words})' THEN '{fault}'" for fault, words in _CALLED.items())
_FAULT_WORDS: Final = f"CASE {' '.join(_WHEN)} ELSE lower(fault) END"


def fault_named(told: str) -> str:
    """The audit's word for a fault, where there is one."""
    told = told.lower()
    return next((fault for fault, words in _CALLED.items() if re.match(words, told)), told)


class SqliteRows(DataSource):
    """The Spark source `pares_rows`: a table of a SQLite file, opened read-only, in Spark partitions by rowid.

    Options: `path`, `table`, `splits` (how many Spark partitions at most, default 2). Columns are strings, as SQLite's have no
    types of their own, besides `_rowid` bigint; the caller casts.
    """

    @classmethod
    def name(cls) -> str:
        return "pares_rows"

    def schema(self) -> str:
        names = table_columns(Path(self.options["path"]), self.options["table"])
        return ", ".join(["_rowid bigint", *(f"{_quoted(name, '`')} string" for name in names)])

    def reader(self, schema: Any) -> DataSourceReader:
        return _SqliteReader(dict(self.options), [field.name for field in schema.fields])


class _Range(InputPartition):
    def __init__(self, low: int, high: int) -> None:
        super().__init__((low, high))
        self.low, self.high = low, high


class _SqliteReader(DataSourceReader):
    def __init__(self, options: dict[str, str], names: list[str]) -> None:
        self._path, self._table = Path(options["path"]), options["table"]
        self._splits = int(options.get("splits", "2"))
        self._names = names

    def partitions(self) -> Sequence[InputPartition]:
        with closing(open_read_only(self._path)) as connection:
            low, high = connection.execute(f"SELECT min(rowid), max(rowid) FROM {_quoted(self._table)}").fetchone()
        if low is None:
            return [_Range(0, 0)]
        step = max(_BATCH, -(-(high + 1 - low) // self._splits))
        return [_Range(at, min(at + step, high + 1)) for at in range(low, high + 1, step)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Range)
        names = self._names[1:]
        columns = ", ".join(f"CAST({_quoted(name)} AS TEXT)" for name in names)
        schema = pa.schema([("_rowid", pa.int64()), *((name, pa.string()) for name in names)])
        query = f"SELECT rowid, {columns} FROM {_quoted(self._table)} WHERE rowid >= ? AND rowid < ? ORDER BY rowid"
        with closing(open_read_only(self._path)) as connection:
            rows = connection.execute(query, (partition.low, partition.high))
            while part := rows.fetchmany(_BATCH):
                columns_ = [
                    pa.array(list(v), field.type) for v, field in zip(zip(*part, strict=True), schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns_, schema=schema)


def load_writes(spark: SparkSession, source: str | Path | DataFrame) -> DataFrame:
    """A sink's rows with the columns of `WRITES` and `ord`, the order in which the sink took them.

    `source` is a path (``file.db#table`` names a table; else it is the one table that has the columns), a folder of Parquet,
    CSV or JSON files, or a DataFrame, whose column `ord`, if it has one, says the order. Columns that are not there are
    NULL, and so is a value that is no number where one is needed. Raises `ConfigError` if a needed column is missing.
    """
    rows, order = _load(spark, source, NEEDED, without=("seen",))
    return _shape(rows, WRITES, NEEDED, order, told(source))


def repeatable(faults: str | Path | DataFrame | Faults | None) -> str | Path | DataFrame | Faults | None:
    """The same, to be loaded more than once: an iterable may be read but once."""
    return list(faults) if isinstance(faults, Iterable) and not isinstance(faults, str) else faults


def faults_of(spark: SparkSession, source: str | Path | DataFrame | Faults | None) -> DataFrame | pa.Table:
    """What was done to the members: (at_ms, member, fault), the fault in one of the audit's words where there is one. What is
    not in Spark stays here."""
    if isinstance(source, str | Path) or hasattr(source, "sparkSession"):
        given: Any = source
        loaded, order = _load(spark, given, tuple(FAULTS), without=())
        rows = _shape(loaded, FAULTS, tuple(FAULTS), order, told(source)).drop("ord")
        return spark.sql(f"SELECT at_ms, member, {_FAULT_WORDS} AS fault FROM {{rows}}", rows=rows)
    faults: Any = source or ()
    columns = [[*values] for values in zip(*faults, strict=True)] or [[], [], []]
    columns[2] = [None if fault is None else fault_named(fault) for fault in columns[2]]
    types = (pa.int64(), pa.string(), pa.string())
    return pa.table({name: pa.array(v, t) for name, v, t in zip(FAULTS, columns, types, strict=True)})


def open_read_only(path: Path) -> sqlite3.Connection:
    """A connection that can't write. Raises `ConfigError` if there is no such file, or it can't be read."""
    if not path.is_file():
        raise ConfigError(f"there is no file {path}: name the file that the rows are in")
    uri = path.resolve().as_uri()
    try:
        return _tried(sqlite3.connect(f"{uri}?mode=ro", uri=True, timeout=30.0))
    except sqlite3.OperationalError as error:
        # Of a file with a write-ahead log, in a folder that can't be written, SQLite reads nothing unless it is told that
        # nobody writes; and as long as there is no such log beside it, nobody does.
        if Path(f"{path}-wal").exists():
            raise ConfigError(f"{path} can't be read here: {error}; copy it and what stands beside it") from error
    return sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True)


def _tried(connection: sqlite3.Connection) -> sqlite3.Connection:
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def table_columns(path: Path, table: str) -> list[str]:
    with closing(open_read_only(path)) as connection:
        return [row[1] for row in connection.execute(f"PRAGMA table_info({_quoted(table)})")]


def told(source: Any) -> str:
    """How to call these rows."""
    return str(source) if isinstance(source, str | Path) else "the rows given"


def _load(
    spark: SparkSession, source: str | Path | DataFrame, needed: Sequence[str], without: Sequence[str]
) -> tuple[DataFrame, str]:
    """The rows as they are, and the SQL expression of their order."""
    if not isinstance(source, str | Path):
        return source, _own_order(source)
    path, _, table = str(source).partition("#") if not Path(source).exists() else (str(source), "", "")
    place = Path(path)
    if not place.exists():
        raise ConfigError(f"there is no file or folder {path}: name the file that the rows are in")
    kind = _kind(place)
    if kind == DATABASE:
        spark.dataSource.register(SqliteRows)
        table = table or _find_table(place, needed, without)
        rows = spark.read.format("pares_rows").option("path", str(place.resolve())).option("table", table).load()
        return rows, _own_order(rows) or "named_struct('a', 0L, 'b', '', 'c', _rowid, 'd', 0L)"
    reader = spark.read.option("header", "true") if kind == "csv" else spark.read
    rows = reader.format(kind).load(str(place.resolve()))
    if place.is_dir() or "ord" in rows.columns:
        return rows, _own_order(rows)
    # A file is read in blocks, the largest first: the block's place in the file comes before the row's in the block.
    block = "_metadata.file_block_start"
    return rows.selectExpr(
        "*", f"named_struct('a', 0L, 'b', '', 'c', {block}, 'd', monotonically_increasing_id()) AS _order"
    ), ("_order")


def _own_order(rows: DataFrame) -> str:
    """The order that the rows say themselves, in a column `ord`."""
    return f"named_struct('a', 0L, 'b', '', 'c', {_number(rows, 'ord')}, 'd', 0L)" if "ord" in rows.columns else ""


def _kind(path: Path) -> str:
    if path.is_dir():
        suffixes = {p.suffix for p in path.rglob("*") if p.is_file() and not p.name.startswith((".", "_"))}
        for kind, endings in (("parquet", {".parquet"}), ("csv", {".csv"}), ("json", {".json", ".jsonl", ".ndjson"})):
            if suffixes and suffixes <= endings:
                return kind
        raise ConfigError(f"{path} is a folder of {sorted(suffixes)}: give one of Parquet, CSV or JSON lines only")
    with path.open("rb") as file:
        head = file.read(16)
    if head.startswith(b"SQLite format 3\0"):
        return DATABASE
    if head.startswith(b"PAR1"):
        return "parquet"
    if path.suffix == ".csv":
        return "csv"
    if path.suffix in (".json", ".jsonl", ".ndjson") or head.lstrip().startswith(b"{"):
        return "json"
    raise ConfigError(f"{path} is neither SQLite nor Parquet, and its name does not end in .csv or .jsonl: rename it")


def _find_table(path: Path, needed: Sequence[str], without: Sequence[str]) -> str:
    with closing(open_read_only(path)) as connection:
        tables = [
            row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
        ]
    fit = [
        table
        for table in tables
        if set(needed) <= set(columns := table_columns(path, table)) and not set(without) & set(columns)
    ]
    if len(fit) == 1:
        return fit[0]
    found = f"several do: {', '.join(fit)}" if fit else f"its tables are {', '.join(tables) or 'none'}"
    raise ConfigError(
        f"{path} must have one table with the columns {', '.join(needed)}, but {found}; write {path}#TABLE"
    )


def _shape(rows: DataFrame, columns: dict[str, str], needed: Sequence[str], order: str, name: str) -> DataFrame:
    absent = [column for column in needed if column not in rows.columns]
    if absent:
        raise ConfigError(
            f"{name} has no column {', '.join(absent)} (it has {', '.join(c for c in rows.columns if c not in _OWN)}); "
            f"needed are {', '.join(needed)}, used if there are {', '.join(c for c in columns if c not in needed)}"
        )
    wanted = [
        f"{_cast(rows, column, kind)} AS {column}" if column in rows.columns else f"CAST(NULL AS {kind}) AS {column}"
        for column, kind in columns.items()
    ]
    by_clock = f"named_struct('a', {_number(rows, 'at_ms')}, 'b', '', 'c', {_last(rows)}, 'd', 0L)"
    return rows.selectExpr(*wanted, f"CAST({order or by_clock} AS {_ORDER}) AS ord")


def _last(rows: DataFrame) -> str:
    """Among equal times the lower token goes first."""
    return _number(rows, "token") if "token" in rows.columns else "0L"


def _number(rows: DataFrame, name: str) -> str:
    return _cast(rows, name, "bigint")


def _cast(rows: DataFrame, name: str, kind: str) -> str:
    column = _quoted(name, "`")
    given = dict(rows.dtypes)[name]
    if kind == "bigint" and given == "timestamp_ntz":
        # Without a zone it is UTC's, as nothing else says which.
        return f"timestampdiff(MILLISECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', {column})"
    if kind == "bigint" and given.startswith("timestamp"):
        return f"unix_millis({column})"
    if kind in ("bigint", "int") and given in ("double", "float"):
        return f"try_cast(round({column}) AS {kind})"
    if kind in ("bigint", "int") and given in ("date", "boolean"):
        raise ConfigError(
            f"the column {name} is of type {given}: give whole numbers, of milliseconds where it is a time"
        )
    return f"try_cast({column} AS {kind})"


def check_unit(rows: DataFrame, name: str) -> None:
    """Raises `ConfigError` for times that are no milliseconds, in a column that would make all rows early or late."""
    (row,) = rows.sparkSession.sql(_MIDDLE, rows=rows).toArrow().to_pylist()
    _check_middle(row["middle"], name)


def check_faults(faults: DataFrame | pa.Table, name: str) -> None:
    """The same of faults; those that are here need no query for it."""
    if isinstance(faults, pa.Table):
        here: Any = faults
        times = [at_ms for at_ms in here.column("at_ms").to_pylist() if at_ms is not None]
        _check_middle(median_low(times) if times else None, name)
    else:
        check_unit(faults, name)


def _check_middle(middle: int | None, name: str) -> None:
    for unit, (low, high) in _UNITS.items():
        if middle is not None and low <= middle < high:
            raise ConfigError(
                f"the column at_ms of {name} holds {unit}, as it seems (half of them are up to {middle}): "
                "give milliseconds since 1970"
            )


def _quoted(name: str, mark: str = '"') -> str:
    return mark + name.replace(mark, mark * 2) + mark
