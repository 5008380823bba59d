"""Claimed ranges as DataFrames: what `pares.Consumer` gives out, worked on by Spark, published behind a fence.

A range is claimed in the group's log, by one consumer at a time; its rows are the records at exactly those offsets, however
often Spark reads them. With "at-least-once" the range of a driver that dies is given out again, and the sink knows by the
position that it keeps beside its rows what of it is there already. With "at-most-once" the range stands in the log as taken
before the driver hears of it, and nobody is ever given it again; so nothing in Spark may repeat a task either.

Ranges of one partition are published, or done, in the order in which they were claimed. [published out of order, a later
range would raise the position past an earlier one, which would be dropped as a duplicate when it is given out again]
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from pares.core.errors import ConfigError
from pares.runtime.config.numbers import whole
from pares.runtime.consume.batch import Batch
from pares.runtime.consume.consumer import Consumer
from pares.runtime.term import Term
from pares.spark.driving import ranges
from pares.spark.driving.claims import Portion
from pares.spark.driving.once import check_once, once
from pares.spark.session import frame_of
from pares.spark.sinks.base import Seat, Sink, deliver
from pares.spark.sinks.extents import OffsetExtent

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MOST_TASKS: Final = 10_000


class _Fields(NamedTuple):
    topic: str
    partition: int
    first: int
    last: int
    token: int
    df: DataFrame


class Claimed(_Fields):
    """A range that this process has claimed: `(topic, partition, first, last, token, df)`.

    `first`, `last`: offsets of its first record and of its last one (of a `RangedSource` or a `dataset`: the last offset of the
    range); `token`: of the term in which it was claimed, for a fence; `df`: its records, with the columns topic, partition,
    offset, timestamp_ms, key, payload, or those of the `dataset`. Each action on `df` reads them again.
    """

    _batch: Batch
    _work: _Work

    def __bool__(self) -> bool:
        """Whether the term lasts in which it was claimed."""
        return bool(self._batch)

    @property
    def term(self) -> Term:
        """The term in which it was claimed, for a fence."""
        return self._batch.term

    def publish(self, sink: Sink, transform: Callable[[DataFrame], DataFrame] | None = None) -> bool:
        """Publishes what `transform` makes of the records (None: the records themselves), then the range is `done`. `sink`: one
        object for all ranges.

        Of a range that was given out again, `transform` is given only those records that are not published yet. False: all of
        them were. It is called once, in this process, and may be called for a part of the range.

        Promised with "at-least-once": of each record's rows, those of one driver are in the sink, and once, whichever of them
        die or freeze. Raises `Stale` and `LeadershipLost` when the partition is another consumer's by now, `ConfigError` before
        an earlier range of the partition is done ("at-most-once": after a later one was published), and what the sink raises;
        the range is not done then.
        """
        work, batch = self._work, self._batch
        work.check_turn(batch)
        held = Seat.of(batch.term)
        work.open(sink, held)
        last = sink.last(held)
        start, upto = batch.span.first, batch.span.next
        if last is not None and isinstance(last.extent, OffsetExtent):
            work.check_not_passed(batch, last.extent)
            start = max(start, last.extent.next)
        published = False
        if start < upto:
            df = self.df if start == batch.span.first else work.frame(batch, start)
            df = df if transform is None else transform(df)
            published = deliver(sink, df, held, OffsetExtent(start, upto))
        self.done()
        return published

    def done(self) -> bool:
        """As `pares.runtime.consume.batch.Batch.done`, for work whose effects are elsewhere; with "at-least-once" in the order
        of the partition, or it raises `ConfigError`."""
        self._work.check_turn(self._batch)
        self._work.finish(self._batch)
        return self._batch.done()


def work(
    consumer: Consumer, *, spark: SparkSession | None = None, timeout: float | None = None, tasks: int | None = None
) -> Generator[Claimed, None, None]:
    """What `consumer` claims, as DataFrames, each with the range that it covers.

        for claimed in pares.spark.work(consumer):
            claimed.publish(sink, lambda df: df.selectExpr("cast(payload as string) as line"))

    Ends as `Consumer.batches` does. Several threads may iterate. `spark`: the session (None: the one that is there, or one that
    is started here); `timeout`: seconds to wait for a range; `tasks`: in how many parts executors read one (None: two for each
    core that Spark says it has). What was claimed by a topic's name comes through this process, in batches of the consumer's
    size; ranges of a `RangedSource`, and parts of a `dataset`, are read by the executors.

    Raises `ConfigError` for "at-most-once" in a session that may repeat tasks; what `Consumer.batches` raises.
    """
    if tasks is not None:
        whole("tasks", tasks, 1, MOST_TASKS)
    if spark is None:
        from pares.spark.session import session

        spark = session()
    if consumer.delivery == "at-most-once":
        check_once(spark)
    with _lock:
        shared = _works.setdefault(consumer, _Shared())
    shop = _Work(shared, spark, consumer.delivery == "at-least-once", tasks)
    while (claimed := shop.next(consumer, timeout)) is not None:
        yield claimed


_lock: Final = threading.Lock()


class _Shared:
    """Of one consumer, whichever threads iterate."""

    def __init__(self) -> None:
        self.taking: Final = threading.Lock()
        self.lock: Final = threading.Lock()
        self.out: dict[str, list[Batch]] = {}
        """By role, in the order of their offsets: what was given out and is not done."""
        self.opened: dict[str, tuple[Seat, list[Sink]]] = {}
        """By role: the sinks that were opened in its newest term."""
        self.opening: Final = threading.Lock()


_works: WeakKeyDictionary[Consumer, _Shared] = WeakKeyDictionary()


class _Work:
    def __init__(self, shared: _Shared, spark: SparkSession, in_order: bool, tasks: int | None) -> None:
        self._shared, self._spark, self._in_order, self._tasks = shared, spark, in_order, tasks

    def next(self, consumer: Consumer, timeout: float | None) -> Claimed | None:
        # Under a lock, so that what another thread is given next stands behind this, and not before it.
        with self._shared.taking:
            batch = consumer.next_batch(timeout)
            if batch is None:
                return None
            with self._shared.lock:
                same = [other for other in self._shared.out.get(batch.term.role, ()) if other.token == batch.token]
                self._shared.out[batch.term.role] = [*same, batch]
        claimed = Claimed(
            batch.topic, batch.partition, batch.first, _last(batch), batch.token, self.frame(batch, batch.span.first)
        )
        claimed._batch, claimed._work = batch, self
        return claimed

    def check_turn(self, batch: Batch) -> None:
        """Raises unless all ranges before it are done, where the sink is to know what was published by one position."""
        if batch.lost:
            batch.term.check()
        with self._shared.lock:
            before = self._shared.out.get(batch.term.role, [])
        if self._in_order and before and batch in before and before[0] is not batch:
            raise ConfigError(
                f"{batch!r} can't be done before {before[0]!r}: ranges of a partition are done in their order"
            )

    def check_not_passed(self, batch: Batch, last: OffsetExtent) -> None:
        """Where ranges may be published out of order, one whose turn has passed is not taken for one that is there already."""
        span = batch.span
        if self._in_order or last.next <= span.first or last == OffsetExtent(span.first, span.next):
            return
        with self._shared.lock:
            out = batch in self._shared.out.get(batch.term.role, ())
        if out:
            raise ConfigError(
                f"{batch!r} can't be published: the sink is at {last.next}, by a later range or from before a rewind; publish "
                "ranges of a partition in their order"
            )

    def finish(self, batch: Batch) -> None:
        with self._shared.lock:
            left = [other for other in self._shared.out.get(batch.term.role, ()) if other is not batch]
            self._shared.out[batch.term.role] = left

    def open(self, sink: Sink, held: Seat) -> None:
        """Once for each term and sink, before anything of that term is staged."""
        with self._shared.opening:
            seat, sinks = self._shared.opened.get(held.role, (held, []))
            sinks = sinks if seat == held else []
            if not any(one is sink for one in sinks):
                sink.open(held)
                self._shared.opened[held.role] = held, [*sinks, sink]

    def frame(self, batch: Batch, start: int) -> DataFrame:
        """The records of the batch from offset `start` on."""
        first, spark, number = batch.records[0], self._spark, batch.partition
        if isinstance(first, Portion):
            return self._once(first.dataset.frame(max(start, first.offset), batch.span.next))
        if not isinstance(first, ranges.Ranged):
            import pyarrow as pa

            records = [record for record in batch.records if record.offset >= start]
            rows = ranges.table_of(batch.topic, number, records)
            return self._once(frame_of(spark, pa.Table.from_batches([rows])))
        cuts = _cut(max(start, first.offset), batch.span.next, self._tasks or _tasks_of(spark))

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for rows in batches:
                for place in rows.column(0).to_pylist():
                    yield from ranges.read(first, number, *cuts[place])

        return self._once(spark.range(0, len(cuts), 1, len(cuts))).mapInArrow(run, ranges.COLUMNS)

    def _once(self, df: DataFrame) -> DataFrame:
        return df if self._in_order else df.mapInArrow(once, df.schema)


def _last(batch: Batch) -> int:
    return batch.span.next - 1 if isinstance(batch.records[0], ranges.Ranged | Portion) else batch.last


def _cut(first: int, upto: int, parts: int) -> list[tuple[int, int]]:
    step = max(1, -(-(upto - first) // parts))
    return [(low, min(low + step, upto)) for low in range(first, upto, step)]


def _tasks_of(spark: Any) -> int:
    try:
        return 2 * int(spark.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context, and says so in errors of several kinds
        return 8
