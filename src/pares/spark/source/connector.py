"""Rows that Spark's own Kafka connector has read, with the columns that `format("pares")` gives them.

For jobs that read Kafka by `spark-sql-kafka` anyway: its settings, its security, and a JVM that fetches. `format("pares")`
needs nothing of all that, and says what a log has lost; here that is the connector's part (`failOnDataLoss`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Literal

from pares.core.errors import ConfigError
from pares.ledger.base import Entry
from pares.spark.source import columns
from pares.spark.source.options import Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

NEEDED: Final = ("topic", "partition", "offset", "timestamp", "value")
"""Of the connector's columns."""
_AT: Final = "unix_millis(timestamp) AS timestamp"
_VALUE: Final = "coalesce(value, X'') AS value"


def from_kafka(
    frame: DataFrame,
    *,
    table: Literal["records", "entries"] = "records",
    groups: Iterable[str] | None = None,
    log: str | None = None,
    bus: bool = False,
    envelope: bool = True,
) -> DataFrame:
    """The rows of `spark.read.format("kafka")`, or of its `readStream`, with the columns of `format("pares")`.

    `table` and `envelope` are those of the source, `groups` the names of the groups that are wanted (None: all rows). `log` is
    what stands in that column: give the log's identity (`pares.open(URL).identity()`) where the rows are to be joined with
    what other ways bring. The connector does not know it, so by default the column names the topic, `kafka:TOPIC`. `bus`: the
    topic is that of ALLCALL's messages.

    Promised: rows are those that the source brings for the same offsets, in the order in which the connector brings them; a
    record without a value is an empty entry, and what is no record of pares has the reason. Facts are no table of this: a fold
    needs a partition in order, from its beginning.

    Raises `ConfigError` for a frame that lacks a column of the connector's, and for another table.
    """
    missing = [name for name in NEEDED if name not in frame.columns]
    if missing:
        raise ConfigError(f'the frame has no column {", ".join(missing)}: give what format("kafka") loads, as it comes')
    if table not in ("records", "entries"):
        raise ConfigError(f"table={table!r}: give records or entries; a fold reads the log itself (format('pares'))")
    wanted = None if groups is None else frozenset(groups)
    told = Options(url="", table=table, envelope=envelope, groups=wanted)
    narrow = frame.selectExpr("topic", "partition", "offset", _AT, _VALUE)
    return narrow.mapInArrow(partial(_named, told=told, log=log, bus=bus), columns.ddl(told))


def _named(found: Iterable[pa.RecordBatch], told: Options, log: str | None, *, bus: bool) -> Iterator[pa.RecordBatch]:
    for batch in found:
        rows = zip(*(batch.column(at).to_pylist() for at in range(len(NEEDED))), strict=True)
        for (topic, number), those in groupby(rows, key=lambda row: row[:2]):
            yield from _of_one(log or f"kafka:{topic}", number, [Entry(*row[2:]) for row in those], told, bus=bus)


def _of_one(log: str, number: int, entries: list[Entry], told: Options, *, bus: bool) -> Iterator[Any]:
    if told.table == "entries":
        batch = columns.entry_batch(entries, number, told)
        if batch is not None:
            yield batch
        return
    rows = columns.record_rows(log, number, entries, bus=bus)
    kept = [row for row in rows if told.groups is None or row.get("group") in told.groups]
    yield from columns.row_batches(kept, columns.arrow(columns.ddl(told)))
