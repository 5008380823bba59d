"""What a task does: reads its range of one log partition, and makes rows of it. The same for a batch and for a stream."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from pares.ledger.address import shown
from pares.ledger.base import Entry, Log
from pares.ledger.bus import BUS_TOPIC
from pares.spark.facts.base import Fact
from pares.spark.facts.folding import Partition, Share
from pares.spark.logs import entries_of, open_to_read
from pares.spark.source import columns
from pares.spark.source.options import Options
from pares.spark.source.ranges import Anomaly, Look, Missing, OffsetRange, raise_for, replaced
from pares.spark.source.worlds import Worlds

if TYPE_CHECKING:
    import pyarrow as pa

PORTION: Final = 5000
"""Entries that are folded and written at once."""


def batches_of(task: InputPartition, options: Options, *, ends: bool) -> Iterator[pa.RecordBatch]:
    """The rows of a task; `ends`: of facts also those that are said at the end of a log only."""
    named = columns.arrow(columns.ddl(options))
    if isinstance(task, Missing):
        yield from columns.row_batches([columns.anomaly_row(task.identity, task.anomaly)], named)
        return
    assert isinstance(task, OffsetRange)
    if task.low >= task.high:
        return
    with open_to_read(options.url, options.client) as (log, claims_in):
        _same(log, task)
        bus = log.url.endswith(f"#{BUS_TOPIC}")
        if options.table == "facts":
            for group, facts in _facts(log, task, options, claims_in, bus=bus, ends=ends):
                rows = list(columns.fact_rows(task.identity, task.partition, group, facts))
                yield from columns.row_batches(rows, named)
            return
        for entries in entries_of(log, task.partition, task.low, task.high):
            if options.table == "entries":
                batch = columns.entry_batch(entries, task.partition, options)
                if batch is not None:
                    yield batch
                continue
            rows = list(columns.record_rows(task.identity, task.partition, entries, bus=bus))
            if options.groups is not None:
                rows = [row for row in rows if row.get("group") in options.groups]
            yield from columns.row_batches(rows, named)


def fold_from(
    log: Log, fold: Partition, partition: int, position: int, low: int, high: int
) -> Iterator[tuple[list[Entry], list[Share]]]:
    """Folds what stands from `position` to before `high`, and gives what stands from `low` on, with the facts that follow from
    it. What comes before `low` is folded in silence."""
    for entries in entries_of(log, partition, position, low):
        for _ in fold.feed(entries):
            pass
    for entries in in_portions(entries_of(log, partition, low, high), low, PORTION):
        yield entries, list(fold.shares(entries))


def in_portions(found: Iterable[list[Entry]], low: int, size: int) -> Iterator[list[Entry]]:
    """The same entries, those of `size` offsets at once, counted from `low`. [the rows of two groups would stand in another
    order each time: how much a broker gives at once is chance. Counted by entries, a fold that begins in the middle would not
    know where a portion ends: offsets may have holes]"""
    waiting: list[Entry] = []
    end = low + size
    for entries in found:
        at = 0
        while at < len(entries):
            if entries[at].offset >= end:
                if waiting:
                    yield waiting
                    waiting = []
                end += ((entries[at].offset - end) // size + 1) * size
            upto = bisect_left(entries, end, lo=at, key=attrgetter("offset"))
            waiting += entries[at:upto]
            at = upto
    if waiting:
        yield waiting


def _same(log: Log, task: OffsetRange) -> None:
    """Raises `LedgerRewound` if the log is not the one that the read was planned for."""
    seen = log.identity()
    if task.identity not in ("", seen):
        raise_for(replaced(Look(shown(log.url), seen, {}), task.identity, task.partition, task.low))


def _facts(
    log: Log, task: OffsetRange, options: Options, claims_in: int, *, bus: bool, ends: bool
) -> Iterator[tuple[str | None, list[Fact]]]:
    worlds = None
    if options.state is not None:
        groups = None if options.groups is None else sorted(options.groups)
        worlds = Worlds(options.state, repr((task.identity, task.partition, groups, options.error_ms, claims_in)))
    known = None if worlds is None else worlds.before(task.low)
    origin = log.start(task.partition)
    if origin > task.low:
        raise_for(Anomaly.gap(shown(log.url), task.partition, task.low, origin))
    if known is None or known[1] < origin:
        # Nothing is known of what was trimmed behind a state, so the fold begins anew.
        claims = task.partition == claims_in
        made = Partition(options.groups, task.partition, origin, claims=claims, error_ms=options.error_ms, bus=bus)
        known = made, origin
    fold, position = known
    for _, found in fold_from(log, fold, task.partition, position, task.low, task.high):
        yield from ((group, facts) for group, _, facts in found)
    if worlds is not None:
        worlds.keep(fold, task.high)
    if ends:
        yield from fold.finish()
