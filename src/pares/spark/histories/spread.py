"""A batch by Spark's tasks: a log partition is one of them, and a long one is cut into ranges, each of which is one.

    ranges      are folded at once, from snapshots (`facts.ranged`); each leaves its rows in a folder of the batch (`pieces`)
    states      come to the driver, which joins them (`facts.joined`); what does not fit is folded again, in that range
    tables      a task each writes the rows of all ranges, in order, as the one file that a single task would have written

So a batch has the same bytes whether it was cut or not, and wherever it was. One thing alone only ranges can find: a false
snapshot that the fold itself does not come upon, since nobody of its world wrote it. It is a row `defect` more among the facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pares.ledger.bus import BUS_TOPIC
from pares.spark.facts import tasks
from pares.spark.facts.base import Fact
from pares.spark.facts.claims import STEPS, History
from pares.spark.facts.cuts import cuts
from pares.spark.facts.folding import HOLES, Partition
from pares.spark.facts.frozen import freeze
from pares.spark.facts.joined import Joined, join
from pares.spark.facts.tasks import Task
from pares.spark.histories import disk
from pares.spark.histories.files import Sheet
from pares.spark.histories.manifest import File
from pares.spark.histories.pieces import TABLES, Most, Piece, Writer, rows
from pares.spark.histories.plans import Plan, Result
from pares.spark.histories.portions import portion
from pares.spark.histories.task import AGAIN, begun, ended, perform, same_log, still_there
from pares.spark.host.garbage import seldom_collected
from pares.spark.host.room import room
from pares.spark.logs import open_to_read
from pares.spark.reading import MOST_RANGES, PER_RANGE, as_raised
from pares.spark.source.columns import fact_rows
from pares.spark.source.reads import PORTION, fold_from

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

TASKS: Final = 256
"""In so many tasks at the most: a log of more partitions has several of them in one. Each task tells the driver one row."""


class Span(Struct, frozen=True):
    """A range of a plan. `piece`: where its rows go; `first`: it goes on from where the plan does."""

    plan: Plan
    task: Task
    piece: Piece
    first: bool = False


class Table(Struct, frozen=True):
    """A table's file that is to be made of the rows of a plan's ranges."""

    plan: Plan
    name: str
    pieces: list[Piece]
    most: list[Most]
    defects: list[tuple[str, int | None, str | None]]
    """(group, offset, author) of snapshots: what the ranges alone have come upon."""


class Order(Struct, frozen=True):
    """What a task of Spark's is to do: one of these."""

    plan: Plan | None = None
    span: Span | None = None
    table: Table | None = None


def done(spark: SparkSession, plans: Sequence[Plan]) -> list[Result]:
    """Has the plans done."""
    with disk.scratch(Path(plans[0].root)) as folder:
        spans = dict[int, list[Span]]()
        for plan in plans:
            found = _spans(plan, str(folder), sum(map(len, spans.values())))
            if found:
                spans[plan.partition] = found
        alone = [plan for plan in plans if plan.partition not in spans]
        all_ = [span for some in spans.values() for span in some]
        answers = _each(spark, [*(Order(span=span) for span in all_), *(Order(plan=plan) for plan in alone)])
        states = {span.task.part: state for span, state in zip(all_, answers, strict=False)}
        results = [msgspec.msgpack.decode(one, type=Result) for one in answers[len(all_) :]]
        joined = [_joined(spark, some, states) for some in spans.values()]
        results += _written(spark, joined)
    return sorted(results, key=lambda result: result.partition)


def _each(spark: SparkSession, orders: Sequence[Order]) -> list[bytes]:
    """What became of each, in order."""
    many = min(len(orders), TASKS)
    shares, do = [msgspec.msgpack.encode(orders[at::many]) for at in range(many)], _do

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as arrow

        for batch in batches:
            for at in batch.column(0).to_pylist():
                given = msgspec.msgpack.decode(shares[at], type=list[Order])
                told = msgspec.msgpack.encode([do(order) for order in given])
                columns = {"at": arrow.array([at], arrow.int64()), "told": arrow.array([told], arrow.binary())}
                yield arrow.RecordBatch.from_pydict(columns)

    # One row a partition of Spark's, so one task each: no shuffle decides who does what.
    try:
        rows = spark.range(0, many, 1, many).mapInArrow(work, "at long, told binary").toArrow().to_pylist()  # type: ignore[arg-type]
    except Exception as error:
        raised = as_raised(error)
        if raised is None:
            raise
        raise raised from None
    found = {at: iter(msgspec.msgpack.decode(row["told"], type=list[bytes])) for row in rows for at in [row["at"]]}
    return [next(found[number % many]) for number in range(len(orders))]


def _do(order: Order) -> bytes:
    with seldom_collected():
        if order.span is not None:
            return _fold(order.span)
        if order.table is not None:
            return msgspec.msgpack.encode(_bound(order.table))
        assert order.plan is not None
        return msgspec.msgpack.encode(perform(order.plan))


# Ranges ---------------------------------------------------------------------------------------------------------------


def _spans(plan: Plan, folder: str, part: int) -> list[Span]:
    """The ranges of a plan; none if it is to be done in one go: it is short, or nothing in it can be begun with."""
    ranges = min(MOST_RANGES, (plan.high - plan.low) // PER_RANGE)
    if ranges < 2 or plan.partition != plan.claims_in:
        return []
    with open_to_read(plan.url, plan.client) as (log, _):
        if log.url.endswith(f"#{BUS_TOPIC}"):
            return []
        same_log(plan, log)
        fold, position = begun(plan, log, bus=False)
        if position != plan.low:
            return []  # it is folded anew from before the range
        found = [(plan.low, plan.low)]
        for cut in cuts(log, plan.partition, plan.low, plan.high, ranges, plan.groups):
            # Where portions end, or their rows would stand in another order.
            at = plan.low + -(-(cut.at - plan.low) // PORTION) * PORTION
            if found[-1][1] < at < plan.high:
                found.append((cut.since, at))
    if len(found) < 2:
        return []
    ends = [*(at for _, at in found[1:]), plan.high]
    spans: list[Span] = []
    for number, ((since, low), high) in enumerate(zip(found, ends, strict=True), part):
        task = Task(
            part=number,
            url=plan.url,
            client=plan.client,
            identity=plan.log,
            partition=plan.partition,
            origin=fold.origin,
            since=since,
            low=low,
            high=high,
            group=None if plan.groups is None else frozenset(plan.groups),
            claims=True,
            error_ms=plan.error_ms,
            bus=False,
        )
        spans.append(Span(plan, task, Piece(folder, number), first=number == part))
    return spans


def _fold(span: Span) -> bytes:
    """Folds a range; returns the state that it comes to."""
    plan, task = span.plan, span.task
    again = bool(task.state)
    with room(plan.root, AGAIN), open_to_read(plan.url, plan.client) as (log, _):
        same_log(plan, log)
        fold = begun(plan, log, bus=False)[0] if span.first else tasks.begun(task, log)
        with Writer(span.piece, again=again) as pieces:
            for entries, shares in fold_from(log, fold, plan.partition, task.low, task.low, task.high):
                if again:
                    # What is of no group was told by the range itself, and so was what stands in the log.
                    pieces.add(portion(plan, (), [share for share in shares if share.group is not None]))
                else:
                    pieces.add(portion(plan, entries, shares))
            still_there(plan, log, task.high)
        return freeze(fold)


# Joined ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Whole:
    """The ranges of a plan as one fold."""

    plan: Plan
    joined: Joined
    pieces: list[Piece]
    most: list[Most]


def _joined(spark: SparkSession, spans: Sequence[Span], states: dict[int, bytes]) -> _Whole:
    by_part = {span.task.part: span for span in spans}
    pieces = {part: span.piece for part, span in by_part.items()}

    def again(part: int, groups: list[str], state: bytes) -> bytes:
        span = by_part[part]
        pieces[part] = replace(span.piece, again=groups)
        (found,) = _each(spark, [Order(span=replace(span, task=replace(span.task, state=state)))])
        return found

    joined = join(list(by_part), states.pop, again)
    return _Whole(spans[0].plan, joined, list(pieces.values()), _most(spans[0].plan, joined))


def _most(plan: Plan, joined: Joined) -> list[Most]:
    """Of what the ranges have told too much, and how many rows of it one fold would have told."""
    found: list[Most] = []
    if joined.over:
        with open_to_read(plan.url, plan.client) as (log, _):
            before, _ = begun(plan, log, bus=False)
        for kind, group in sorted(joined.over, key=repr):
            found.append(Most(kind, group, _left(before, group) if kind == "step" else HOLES - before.holes))
    return found


def _left(before: Partition, group: str | None) -> int:
    fold = before.folds.get(group or "")
    return STEPS - (fold.steps if isinstance(fold, History) else 0)


def _written(spark: SparkSession, wholes: Sequence[_Whole]) -> list[Result]:
    orders: list[Order] = []
    for whole in wholes:
        told = list(whole.joined.fold.finish())
        unseen = [(group, fact) for group, ends in told for fact in whole.joined.unseen(group, ends)]
        defects = [(group or "", fact.offset, fact.other) for group, fact in unseen]
        tables = [Table(whole.plan, name, whole.pieces, whole.most, defects) for name in TABLES]
        orders += [Order(table=table) for table in tables]
    if not orders:
        return []
    files = iter([msgspec.msgpack.decode(one, type=File | None) for one in _each(spark, orders)])
    results: list[Result] = []
    for whole in wholes:
        of = {name: [file] for name in TABLES if (file := next(files)) is not None}
        results.append(ended(whole.plan, whole.joined.fold, of))
    return results


def _bound(table: Table) -> File | None:
    """Writes a table's file; None if it has no row."""
    plan = table.plan
    with room(plan.root, AGAIN), Sheet(Path(plan.root), table.name, plan.batch, plan.partition) as sheet:
        for batch in rows(table.name, table.pieces, table.most):
            sheet.append(batch)
        if table.name == "facts":
            for group, offset, author in table.defects:
                fact = Fact("defect", offset, other=author)
                found = fact_rows(plan.log, plan.partition, group, [fact])
                sheet.add([{**row, "batch": plan.batch} for row in found])
        return sheet.close()
