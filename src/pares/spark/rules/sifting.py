"""What rules look at of a fold's files: all rows but those of beats, and the runs of all records, in one pass.

Tasks read the files themselves, column by column. [through the JVM to a worker, row by row, a record takes ten times as long]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pares.spark.facts.base import SCHEMA, arrow_schema
from pares.spark.host.kept import Kept, kept
from pares.spark.rules import runs
from pares.spark.session import frame_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

RUN: Final = "run"
"""The kind of a row that is a run: see `runs.Run`."""
STATE: Final = "state"
"""The kind of a row of a fold's file that is no fact: it has the state of the fold in its payload."""
_FACTS: Final = [column.split()[0] for column in SCHEMA.split(", ")]
_OF_RUNS: Final = [column for column in runs.COLUMNS.split(", ") if column.split()[0] not in _FACTS]
_COLUMNS: Final = ", ".join([SCHEMA, *_OF_RUNS])
_A_TASK: Final = 1_000_000
"""Rows of a file that are worth a task of their own."""
_A_READ: Final = 100_000
"""Rows that are read at once."""


class Files(NamedTuple):
    """Parquet files, where Spark's workers are as well, that have the facts of a log."""

    paths: Sequence[str]
    group: str | None = None
    """Only facts of this group, and of none, are wanted (None: all)."""
    ends: pa.Table | None = None
    """Facts that are in none of them."""


class _Piece(NamedTuple):
    path: str
    groups: Sequence[int]
    """Groups of rows, by number."""


def sifted(spark: SparkSession, files: Files) -> Kept:
    """The rows of the files in the columns of the fold, but for beats, with a row of the kind `RUN` for each run; kept."""
    pieces, group = [piece for path in files.paths for piece in _pieces(path)], files.group

    def sift(at: int) -> Iterator[pa.RecordBatch]:
        return _sift(pieces[at], group) if pieces else iter(())

    return kept(spark, max(1, len(pieces)), sift, _COLUMNS)


def size(sifted: Kept) -> float:
    """How many rows it has, if they are in files; else there is no saying."""
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).num_rows for path in sifted.files) if sifted.files is not None else math.inf


def facts_of(frame: DataFrame, files: Files) -> DataFrame:
    """What is no record, of `sifted`."""
    found = frame.where(f"kind NOT IN ('record', '{RUN}')").select(*_FACTS)
    return found if files.ends is None else found.unionAll(frame_of(frame.sparkSession, files.ends))


def words_of(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """What is a record and no beat."""
    return frame.where("kind = 'record'").select(*columns)


def runs_of(frame: DataFrame) -> DataFrame:
    """The runs."""
    return frame.where(f"kind = '{RUN}'").select(*(column.split()[0] for column in runs.COLUMNS.split(", ")))


def _pieces(path: str) -> Iterator[_Piece]:
    """A file in pieces that are each worth a task."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    groups, rows = list[int](), 0
    for number, size in enumerate(sizes):
        groups.append(number)
        rows += size
        if rows >= _A_TASK or number + 1 == len(sizes):
            yield _Piece(path, tuple(groups))
            groups, rows = [], 0


def _sift(piece: _Piece, group: str | None) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pc: Any = import_module("pyarrow.compute")  # its functions are made when it is imported, and no stub names them
    collected = runs.Collected()
    with pq.ParquetFile(piece.path) as file:
        named = "g" if "g" in file.schema_arrow.names else "group"
        columns = [named, *_FACTS[1:]]
        for batch in file.iter_batches(_A_READ, row_groups=list(piece.groups), columns=columns, use_threads=False):
            rows = pa.RecordBatch.from_arrays(batch.select(columns).columns, schema=arrow_schema())
            if group is not None:
                rows = rows.filter(pc.fill_null(pc.equal(rows["g"], group), True))
            record = pc.equal(rows["kind"], "record")
            for found in collected.add(rows.filter(record).select(list(runs.NEEDED))):
                yield _whole(found, kind=RUN)
            beat = pc.and_(record, pc.fill_null(pc.equal(rows["cause"], "beat"), False))
            few = rows.filter(pc.invert(pc.or_(beat, pc.equal(rows["kind"], STATE))))
            if few.num_rows:
                yield _whole(few)
    for found in collected.rest():
        yield _whole(found, kind=RUN)


def _whole(batch: pa.RecordBatch, kind: str | None = None) -> pa.RecordBatch:
    """With all columns; what it lacks is NULL, but for the kind if that is said."""
    import pyarrow as pa

    from pares.spark.source.columns import arrow

    schema, many = arrow(_COLUMNS), batch.num_rows
    has = dict(zip(batch.schema.names, batch.columns, strict=True))
    if kind is not None:
        has["kind"] = pa.repeat(pa.scalar(kind, pa.string()), many)
    return pa.RecordBatch.from_arrays([has.get(f.name, pa.nulls(many, f.type)) for f in schema], schema=schema)
