"""Batch reads of a ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pares.spark.logs import open_to_read
from pares.spark.source import ranges
from pares.spark.source.filters import Wanted, wanted
from pares.spark.source.options import Options
from pares.spark.source.ranges import Missing, OffsetRange
from pares.spark.source.reads import batches_of

if TYPE_CHECKING:
    import pyarrow as pa


class LedgerReader(DataSourceReader):
    """Reads what there is when the read is planned."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._wanted = Wanted()

    def partitions(self) -> Sequence[InputPartition]:
        options, wanted = self._options, self._wanted
        found: list[InputPartition] = []
        with open_to_read(options.url, options.client) as (log, named):
            numbers = options.numbers(log.partitions, named)
            seen = ranges.look(log, numbers)
        if options.identity not in (None, seen.identity):
            numbers = self._another(seen, numbers, found)
        for place, number in enumerate(numbers):
            if wanted.partitions is not None and number not in wanted.partitions:
                continue
            first, end = seen.places[number]
            low, high = options.bound(options.start, place), options.bound(options.end, place)
            low = first if low is None else low
            high = end if high is None else min(high, end)
            missing = ranges.lost(seen, number, low) if low < min(first, high) else None
            if missing is not None:
                self._missing(seen, missing, found)
                low = first
            if options.table != "facts":
                # A fold needs what comes before, and says things that have no offset. A log partition is one task: ranges of
                # it are held against each other once all are folded, and here their rows are gone by then (docs/history.md).
                low, high = wanted.cut(low, high)
            step = max(1, -(-(high - low) // options.splits))
            found += [
                OffsetRange(number, at, min(at + step, high), first, seen.identity) for at in range(low, high, step)
            ]
        return found or [OffsetRange(0, 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from batches_of(partition, self._options, ends=self._options.ends)

    def _another(self, seen: ranges.Look, numbers: list[int], found: list[InputPartition]) -> list[int]:
        """The log is not the one that is asked for: nothing of it is what was meant."""
        assert self._options.identity is not None
        for place, number in enumerate(numbers):
            low = self._options.bound(self._options.start, place) or 0
            self._missing(seen, ranges.replaced(seen, self._options.identity, number, low), found)
        return []

    def _missing(self, seen: ranges.Look, anomaly: ranges.Anomaly, found: list[InputPartition]) -> None:
        if not self._options.marks:
            ranges.raise_for(anomaly)
        found.append(Missing(seen.identity, anomaly))


class PushingReader(LedgerReader):
    """The same, for a session that pushes conditions down to sources in Python (`spark.sql.python.filterPushdown.enabled`); in
    another one Spark refuses a reader that takes any."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        self._wanted = wanted(filters)
        if self._wanted.groups is not None:
            both = self._wanted.groups & (self._options.groups or self._wanted.groups)
            self._options = replace(self._options, groups=both)
        return filters
