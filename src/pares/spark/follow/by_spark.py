"""Portions of a log read and folded by Spark's tasks: one task for each partition that has something new, each time.

Why micro-batches that this process plans, and not a streaming query: what is told, up to where was read, and the state of the
fold stand in one checkpoint, so that a restart tells nothing twice; and an alarm need not wait for the commit of a trigger. The
rules are asked by this process, of what is kept: to plan their queries takes Spark longer than an alarm may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from pares.ledger.base import Log
from pares.ledger.bus import BUS_TOPIC
from pares.spark.facts.base import SCHEMA, Fact, batches
from pares.spark.facts.folding import Partition
from pares.spark.follow.feeds import LogFeed, Portion, Shares
from pares.spark.logs import entries_of, open_to_read
from pares.spark.reading import as_raised
from pares.spark.source.worlds import Worlds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

MOST: Final = 50_000
"""Entries of a partition that one task folds."""
_PLACE: Final = "partition int, upto bigint, entries bigint, stamp_ms bigint, at_end boolean, "
_SCHEMA: Final = _PLACE + SCHEMA


class Task(Struct, frozen=True, kw_only=True):
    """What a task is to do: offsets `low` to before `high` of one partition."""

    url: str
    worlds: str
    about: str
    partition: int
    low: int
    high: int
    groups: list[str] | None
    claims_in: int
    error_ms: int


class SparkFeed(LogFeed):
    """See the module. `url` and the folder `worlds`, which has the state of the fold, must be what all workers see."""

    def __init__(
        self,
        spark: SparkSession,
        log: Log,
        worlds: str | Path,
        claims_in: int,
        groups: frozenset[str] | None,
        error_ms: int,
    ) -> None:
        super().__init__(log, claims_in, groups, error_ms)
        self._spark, self._worlds = spark, str(worlds)

    def resume(self, identity: str, positions: Mapping[int, int], folds: Mapping[int, Partition]) -> None:
        super().resume(identity, positions, folds)
        for number, fold in folds.items():
            Worlds(self._worlds, self._about(number)).keep(fold, positions[number])

    def states(self) -> dict[int, Partition]:
        found = {number: Worlds(self._worlds, self._about(number)).before(at) for number, at in self.positions.items()}
        return {number: known[0] for number, known in found.items() if known is not None}

    def read(self, until: Mapping[int, int] | None = None) -> list[Portion]:
        tasks: list[Task] = []
        for number in range(self._log.partitions) if until is None else until:
            if number not in self.positions:
                self.positions[number] = self._log.start(number)
            low, high = self.positions[number], self._log.end(number) if until is None else until[number]
            if high > low:
                tasks.append(self._task(number, low, min(high, low + MOST)))
        return self._done(tasks) if tasks else []

    def _task(self, number: int, low: int, high: int) -> Task:
        return Task(
            url=self._log.url,
            worlds=self._worlds,
            about=self._about(number),
            partition=number,
            low=low,
            high=high,
            groups=None if self._groups is None else sorted(self._groups),
            claims_in=self._claims_in,
            error_ms=self._error_ms,
        )

    def _about(self, number: int) -> str:
        groups = None if self._groups is None else sorted(self._groups)
        return repr(("follow", self.identity, number, groups, self._error_ms, self._claims_in))

    def _done(self, tasks: list[Task]) -> list[Portion]:
        many, told = len(tasks), [msgspec.msgpack.encode(task) for task in tasks]

        def work(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in rows:
                for at in batch.column(0).to_pylist():
                    yield from perform(msgspec.msgpack.decode(told[at], type=Task))

        # One row a partition of Spark's, so one task each.
        try:
            answer = self._spark.range(0, many, 1, many).mapInArrow(work, _SCHEMA).toArrow()  # type: ignore[arg-type]
        except Exception as error:
            raised = as_raised(error)
            if raised is None:
                raise
            raise raised from None
        found = portions_of(answer)
        for portion in found:
            self.positions[portion.partition] = portion.upto
        return found


def perform(task: Task) -> Iterator[pa.RecordBatch]:
    """A task's rows: facts, and where they are from. Done twice, it says the same."""
    import pyarrow as pa

    worlds = Worlds(task.worlds, task.about)
    with open_to_read(task.url) as (log, _):
        known = worlds.before(task.low)
        if known is None:
            groups = None if task.groups is None else frozenset(task.groups)
            claims, bus = task.partition == task.claims_in, log.url.endswith(f"#{BUS_TOPIC}")
            start = log.start(task.partition)
            known = Partition(groups, task.partition, start, claims=claims, error_ms=task.error_ms, bus=bus), start
        fold, position = known
        for entries in entries_of(log, task.partition, position, task.low):
            for _ in fold.feed(entries):
                pass
        shares: Shares = []
        count, stamp_ms = 0, 0
        for entries in entries_of(log, task.partition, task.low, task.high):
            shares += list(fold.feed(entries))
            count += len(entries)
            stamp_ms = max(stamp_ms, *(entry.timestamp_ms for entry in entries))
    worlds.keep(fold, task.high)
    place: list[Any] = [task.partition, task.high, count, stamp_ms]
    types = [pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.bool_()]
    names = [part.split()[0] for part in _PLACE.strip(", ").split(", ")]
    nothing = [(None, [Fact("none")])]  # so that a portion without a fact is told of, too
    for at_end, of in ((False, [*shares, *nothing]), (True, list(fold.ends()))):
        for group, facts in of:
            for batch in batches(group, facts):
                told = zip(names, types, [*place, at_end], strict=True)
                columns = [pa.array([value] * batch.num_rows, type_) for _, type_, value in told]
                fields = [*(pa.field(name, type_) for name, type_ in zip(names, types, strict=True)), *batch.schema]
                yield pa.RecordBatch.from_arrays([*columns, *batch.columns], schema=pa.schema(fields))


def portions_of(answer: pa.Table) -> list[Portion]:
    """The rows of all tasks as portions."""
    found: dict[int, Portion] = {}
    for batch in answer.to_batches():
        columns = [column.to_pylist() for column in batch.columns]
        for partition, upto, entries, stamp_ms, at_end, group, *fact in zip(*columns, strict=True):
            portion = found.setdefault(partition, Portion(partition, upto, entries, [], [], stamp_ms))
            if fact[0] == "none":
                continue
            shares = portion.ends if at_end else portion.shares
            if not shares or shares[-1][0] != group:
                shares.append((group, []))
            shares[-1][1].append(Fact(*fact))
    return list(found.values())
