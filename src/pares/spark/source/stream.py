"""A ledger as a stream of Spark's.

The position of a stream is `{"log": identity, "offsets": {partition: offset}}`: where it goes on, and in which log. Spark keeps
it in the checkpoint. Rules, each with what breaks without it:

* A position is held against the log before anything is read: see `ranges`. [after a restart a week later, the trimmed
  records would be missing in silence, or the records of another log be read as if they followed]
* A log that ends before the position has lost its tail, and that is said when it is seen; a stream that marks what is lost
  goes on from that end. [once the log has grown past the position, what took the tail's place is never read]
* A trigger takes at most `maxRecordsPerTrigger` offsets, shared out among the partitions, and each that has something gets at
  least one. [a partition behind a busy one would never be read]
* With the trigger available-now the ends are fixed when the query begins. [on a log that is written to it would never end]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pares.spark.logs import open_to_read
from pares.spark.source import ranges
from pares.spark.source.options import Options
from pares.spark.source.ranges import Look, Missing, OffsetRange
from pares.spark.source.reads import batches_of

if TYPE_CHECKING:
    import pyarrow as pa

LOG: Final = "log"
OFFSETS: Final = "offsets"
Position = dict[str, Any]


class LedgerStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a log."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._target: Position | None = None

    def initialOffset(self) -> Position:
        seen = self._look()
        offsets: dict[str, int] = {}
        if self._options.identity not in (None, seen.identity):
            for number in seen.places:
                self._refuse(ranges.replaced(seen, self._options.identity or "", number, 0))
        for place, (number, (first, _)) in enumerate(seen.places.items()):
            start = self._options.bound(self._options.start, place)
            offsets[str(number)] = first if start is None else start
        return {LOG: self._options.identity or seen.identity, OFFSETS: offsets}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._options.most is None else ReadMaxRows(self._options.most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends(self._look())

    def reportLatestOffset(self) -> Position:
        return self._ends(self._look())

    def latestOffset(self, start: Position, limit: ReadLimit) -> Position:
        seen = self._look()
        ends = self._ends(seen)
        if self._target is not None:
            if self._target[LOG] != ends[LOG]:
                # It became another log after the query began, of which nothing is wanted yet.
                return start
            ends = self._target
        # One that the position does not have is new, or another log's: it is begun at its origin.
        from_ = start[OFFSETS] if start[LOG] == ends[LOG] else {}
        begins = {number: from_.get(number, 0) for number in ends[OFFSETS]}
        offsets = {number: max(end, begins[number]) for number, end in ends[OFFSETS].items()}
        if isinstance(limit, ReadMaxRows):
            # What is lost is no record: it does not count.
            lows = {number: max(low, seen.places[int(number)].first) for number, low in begins.items()}
            offsets = ranges.share(lows, offsets, limit.max_rows)
        for number, low in begins.items():
            end = seen.places[int(number)].end
            if low > end and start[LOG] == seen.identity:
                # Said now: once the log has grown again, nobody could tell.
                self._refuse(ranges.lost(seen, int(number), low))
                offsets[number] = end
        return {LOG: ends[LOG], OFFSETS: offsets}

    def partitions(self, start: Position, end: Position) -> Sequence[InputPartition]:
        seen = self._look()
        found: list[InputPartition] = []
        before: Mapping[str, int] = start[OFFSETS]
        if start[LOG] != end[LOG]:
            for number, low in before.items():
                self._missing(seen, ranges.replaced(seen, start[LOG], int(number), low), found)
            before = {}
        for number, high in end[OFFSETS].items():
            low = before.get(number, 0)
            if end[LOG] != seen.identity:
                self._missing(seen, ranges.replaced(seen, end[LOG], int(number), low), found)
                continue
            missing = ranges.lost(seen, int(number), low)
            if missing is not None:
                first = high
                if missing.kind == ranges.LOST_RANGE:
                    # What else is lost is told of by the batches that come to it.
                    first = min(seen.places[int(number)].first, high)
                    missing = ranges.Anomaly.gap(seen.url, int(number), low, first)
                self._missing(seen, missing, found)
                low = first
            elif high > seen.places[int(number)].end:
                self._missing(seen, ranges.lost(seen, int(number), high), found)
            if low < high:
                found.append(OffsetRange(int(number), low, high, seen.places[int(number)].first, seen.identity))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from batches_of(partition, self._options, ends=False)

    def _look(self) -> Look:
        with open_to_read(self._options.url, self._options.client) as (log, named):
            return ranges.look(log, self._options.numbers(log.partitions, named))

    def _ends(self, seen: Look) -> Position:
        return {LOG: seen.identity, OFFSETS: {str(number): end for number, (_, end) in seen.places.items()}}

    def _missing(self, seen: Look, anomaly: ranges.Anomaly | None, found: list[InputPartition]) -> None:
        self._refuse(anomaly)
        if anomaly is not None:
            found.append(Missing(seen.identity, anomaly))

    def _refuse(self, anomaly: ranges.Anomaly | None) -> None:
        if anomaly is not None and not self._options.marks:
            ranges.raise_for(anomaly)
