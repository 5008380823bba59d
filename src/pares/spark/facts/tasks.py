"""What one task of Spark's does for the fold of a log: reads its range, folds all groups of it in one pass, and gives the facts
and the state that it comes to.

A task reads from the ledger itself, so nothing is moved between workers, and the ranges of one log partition are read and
folded at once. One of its rows is the state (`STATE`), for the driver, which joins the ranges (`joined`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from pares.ledger.address import shown
from pares.ledger.base import Log
from pares.spark.facts.base import SCHEMA, EntryLike, Fact
from pares.spark.facts.folding import Partition
from pares.spark.facts.frozen import freeze, thaw
from pares.spark.facts.joined import Range
from pares.spark.facts.rows import PART, Rows
from pares.spark.host.garbage import seldom_collected
from pares.spark.host.kept import Kept, kept
from pares.spark.logs import entries_of, open_to_read
from pares.spark.rules.sifting import STATE
from pares.spark.source.ranges import Look, raise_for, replaced

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


EACH: Final = 25
"""Entries that are fed at once for each group, more or less."""
MOST: Final = 50_000
"""Entries that are fed at once. [all that a task has, of ten thousand groups]"""


class Task(Struct, frozen=True, kw_only=True):
    """A range of one log partition: from `low` to before `high`."""

    part: int
    url: str
    client: Mapping[str, str]
    identity: str
    partition: int
    origin: int
    """Where the log partition begins."""
    since: int
    """Where the lead-in begins; `low`: there is none, and the log begins with this range."""
    low: int
    high: int
    group: str | frozenset[str] | None
    claims: bool
    error_ms: int
    bus: bool
    state: bytes = b""
    """The fold to go on with, if some groups of the range are to be folded again: these alone are."""


def perform(task: Task) -> Iterator[pa.RecordBatch]:
    """The facts of the range. Raises `LedgerRewound` if the URL leads to another log now, and `LedgerGap` if the range is
    gone."""
    with open_to_read(task.url, task.client) as (log, _), seldom_collected():
        seen = log.identity()
        if seen != task.identity:
            raise_for(replaced(Look(shown(log.url), seen, {}), task.identity, task.partition, task.low))
        fold, rows = begun(task, log), Rows(task.part)
        for entries in portions(entries_of(log, task.partition, task.low, task.high), fold):
            for group, facts in fold.feed(entries, rows):
                if group is not None or not task.state:
                    rows.add(group, facts)
            yield from rows.batches()
        rows.add(None, [Fact(STATE, payload=freeze(fold))])
        yield from rows.batches(least=1)


def portions(reads: Iterable[Sequence[EntryLike]], fold: Partition) -> Iterator[list[EntryLike]]:
    """The same entries, in portions of some dozens for each group that the fold has met. [of a group's fold that is
    fed five at once each record costs a third more]"""
    waiting: list[EntryLike] = []
    for entries in reads:
        waiting += entries
        if len(waiting) >= min(EACH * len(fold.folds), MOST):
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def begun(task: Task, log: Log) -> Partition:
    """The fold as it is at the first offset."""
    if task.state:
        return thaw(task.state)
    if task.since == task.low:
        return Partition(
            task.group, task.partition, task.origin, claims=task.claims, error_ms=task.error_ms, bus=task.bus
        )
    part = Range(task.group, task.partition, task.since, origin=task.origin, claims=task.claims, error_ms=task.error_ms)
    for entries in portions(entries_of(log, task.partition, task.since, task.low), part):
        part.lead_in(entries)
    part.cut()
    return part


def run(spark: SparkSession, tasks: Sequence[Task]) -> Kept:
    """The tasks' rows, each of them done by a task of Spark's."""
    given, do = msgspec.msgpack.encode(tasks), perform

    def work(at: int) -> Iterator[pa.RecordBatch]:
        known: Any = msgspec.msgpack.decode(given, type=list[Task])
        return do(known[at])

    return kept(spark, len(tasks), work, f"{SCHEMA}, {PART} int")
