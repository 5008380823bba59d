"""Rows of Spark's tasks, and of its queries, that are worked out once, may be many, and are read by many queries.

Spark's own way, `session.settled`, keeps them row by row: of ten million records that is more than twice the heap, and most of
the time goes into writing them to its disk and reading them back. So they are kept in columns, of which a query reads those
that it needs. Where Spark works in one JVM on this machine, they are in Parquet files, and no row of a task passes through the
JVM before a query asks for it; elsewhere executors keep them, in memory and on their disks, and work out again what is lost
with one.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pares.spark.host.folder import Folder, sweep
from pares.spark.host.room import room

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_FOLDER: Final = "pares-facts-"
_HERE: Final = re.compile(r"local(\[.*)?")
"""How the master of a session is called whose executor is the driver itself."""
_THEN: Final = "audit again; rows go to TMPDIR, or to spark.local.dir"
_COMPRESSION: Final = "snappy"
"""[lz4: of a dictionary longer than 8 KiB Spark's reader asks for no more than its beginning, and fails, unless it has read
another long page before]"""
_ROWS: Final = 100_000
"""In a group of rows of a file, at least, but the last one."""


class Kept(Protocol):
    """The rows, for as long as this object is there."""

    @property
    def frame(self) -> DataFrame:
        """The rows. What is made of it does not keep them: see `session.needing`."""
        ...

    @property
    def files(self) -> Sequence[str] | None:
        """The Parquet files on this machine that have them, if they are in files."""
        ...


def kept(spark: SparkSession, many: int, do: Callable[[int], Iterator[pa.RecordBatch]], columns: str) -> Kept:
    """What `do` gives of 0, 1 and so on to before `many`, each by a task of Spark's. `columns`: as Spark has them."""
    if is_here(spark) and _is_classic(spark):
        return _OnDisk(spark, many, do, columns)
    return _ByExecutors(spark, many, do, columns)


def is_here(spark: SparkSession) -> bool:
    """Whether its executors are its driver's JVM."""
    return _HERE.fullmatch(spark.conf.get("spark.master", None) or "") is not None


def _is_classic(spark: SparkSession) -> bool:
    """Whether its driver is in this process, and no server of Spark Connect."""
    from pyspark.sql.pandas.conversion import SparkConversionMixin

    return isinstance(spark, SparkConversionMixin)


def _numbers(spark: SparkSession, many: int) -> DataFrame:
    """One row a partition of Spark's, so one task each: no shuffle decides who does what."""
    return spark.range(0, many, 1, many)


class _OnDisk:
    def __init__(
        self, spark: SparkSession, many: int, do: Callable[[int], Iterator[pa.RecordBatch]], columns: str
    ) -> None:
        folder = str(_held(self, spark))

        def work(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            for batch in rows:
                for at in batch.column(0).to_pylist():
                    yield pa.RecordBatch.from_pydict({"file": pa.array([_written(do(at), folder)], pa.string())})

        files: Any = _numbers(spark, many).mapInArrow(work, "file string").toArrow()  # type: ignore[arg-type]
        self.files: Final = [file for file in files.column(0).to_pylist() if file is not None]
        there = [_for_spark(file) for file in self.files]
        self.frame: Final = spark.read.schema(columns).parquet(*there) if there else spark.createDataFrame([], columns)


class InFiles:
    """The rows of frames, for as long as this object is there: see `session.needing`. For many rows; it takes a tenth of a
    second however few they are."""

    def __init__(self, spark: SparkSession) -> None:
        self._folder: Final = _held(self, spark)

    def settled(self, frame: DataFrame) -> DataFrame:
        """The frame with its rows worked out now, once. Raises `CapabilityError` for a disk that is full."""
        place = str(self._folder / uuid.uuid4().hex)
        with room(place, _THEN):
            frame.write.parquet(_for_spark(place))
        return frame.sparkSession.read.schema(frame.schema).parquet(_for_spark(place))


def _held(by: object, spark: SparkSession) -> Path:
    """A new folder that goes with `by`."""
    place = _place(spark)
    sweep(_FOLDER, place)
    folder = Folder(_FOLDER, place)
    weakref.finalize(by, folder.remove)
    return folder.path


def _for_spark(path: str) -> str:
    """On this machine, whatever file system is Spark's default; and no pattern, whatever characters are in it."""
    return "file:" + re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def _place(spark: SparkSession) -> str | None:
    """Where Spark puts what does not fit into memory; None: where all programs do. It may be told of several places, and makes
    what is not there."""
    places = (spark.conf.get("spark.local.dir", None) or "").split(",")
    return next((place for place in map(str.strip, places) if os.path.isdir(place)), None)


def _written(batches: Iterable[pa.RecordBatch], folder: str) -> str | None:
    """The file of a task's rows; None if there are none. A task that is tried again writes another one, and names that."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(folder) / f"{uuid.uuid4().hex}.parquet"
    with room(folder, _THEN), contextlib.ExitStack() as stack:
        writer: Any = None
        waiting, rows = list[Any](), 0

        def write() -> None:
            nonlocal writer, waiting, rows
            table = pa.Table.from_batches(waiting)
            waiting, rows = [], 0
            if writer is None:
                writer = stack.enter_context(pq.ParquetWriter(path, table.schema, **_how(table.schema)))
            writer.write_table(table)

        for batch in batches:
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= _ROWS:
                write()
        if waiting:
            write()
    return None if writer is None else str(path)


def _how(schema: pa.Schema) -> dict[str, Any]:
    """Numbers by their differences: of a fold's rows that is a third of the bytes, and takes two thirds of the time, both to
    write and to read, of what looking each of them up in a dictionary takes."""
    import pyarrow as pa

    numbers = [column.name for column in schema if pa.types.is_int64(column.type) or pa.types.is_int32(column.type)]
    return {
        "compression": _COMPRESSION,
        "use_dictionary": [column.name for column in schema if column.name not in numbers],
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    }


class _ByExecutors:
    def __init__(
        self, spark: SparkSession, many: int, do: Callable[[int], Iterator[pa.RecordBatch]], columns: str
    ) -> None:
        from pyspark import StorageLevel

        self.files: Final = None
        # Spark takes equal plans for one, and gives up what it has kept of both when one is not needed any more: no two are.
        name = uuid.uuid4().hex

        def work(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            assert name
            for batch in rows:
                for at in batch.column(0).to_pylist():
                    yield from do(at)

        frame = _numbers(spark, many).mapInArrow(work, columns)  # type: ignore[arg-type]
        # By two of them, if they are processes of their own: it is read again less often.
        self.frame: Final = frame.persist(StorageLevel(True, True, False, True, 1 if is_here(spark) else 2))

    def __del__(self) -> None:
        # The session may be gone by now.
        with contextlib.suppress(Exception):
            self.frame.unpersist()
