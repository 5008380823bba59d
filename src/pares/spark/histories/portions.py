"""What a portion of the log gives to the tables: its rows, in the order in which files have them.

The order follows from the portion alone: of facts those that are of no group come first, then each group's, in the order in
which groups begin there. So rows of some groups can be told anew, and put where they belong (`pieces`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pares.core.wire.records import Beat
from pares.core.wire.said import said
from pares.ledger.base import Entry
from pares.spark.facts.base import Fact
from pares.spark.facts.folding import Share
from pares.spark.histories.columns import Row, at_once, fitting
from pares.spark.histories.plans import Plan
from pares.spark.source.columns import fact_rows, record_rows

if TYPE_CHECKING:
    import pyarrow as pa

OF_RECORDS: Final = -2
"""Where rows of the quarantine stand that the table of records has refused: before those that the table of facts has."""


class Counted(NamedTuple):
    """What the fold says of a record."""

    group: str | None
    counts: bool | None


_UNKNOWN: Final = Counted(None, None)


class Portion(NamedTuple):
    """The rows of a portion."""

    records: pa.RecordBatch
    facts: pa.RecordBatch
    at: list[int]
    """Where the group of each row of `facts` begins in the portion."""
    refused: list[Row]
    """For the quarantine."""
    refused_at: list[int]
    """The same of these, or `OF_RECORDS`."""
    counted: dict[int, Counted]
    """By offset, of records of groups that were folded."""


def portion(plan: Plan, entries: Sequence[Entry], shares: Sequence[Share], *, bus: bool = False) -> Portion:
    """The rows of these entries, from the plan's first offset on, and of the facts that follow from them."""
    counted = {
        fact.offset: Counted(share.group, fact.counted)
        for share in shares
        for fact in share.facts
        if fact.kind == "record" and fact.offset is not None
    }
    kept, refused = _records(plan, entries, counted, bus=bus)
    facts, at, more, more_at = _facts(plan, shares)
    return Portion(kept, facts, at, refused + more, [OF_RECORDS] * len(refused) + more_at, counted)


def _records(
    plan: Plan, entries: Sequence[Entry], counted: Mapping[int, Counted], *, bus: bool
) -> tuple[pa.RecordBatch, list[Row]]:
    """The rows of records that fit, and those of others. Beats, nineteen of twenty, are put into columns at once. [as rows of
    names and values a record takes five times as long]"""
    import pyarrow as pa

    if entries and entries[0].offset < plan.low:
        entries = [entry for entry in entries if entry.offset >= plan.low]
    beats, others = list[tuple[Entry, Beat]](), list[Entry]()
    for entry, record in zip(entries, [None] * len(entries) if bus else said(entries), strict=True):
        if type(record) is not Beat:
            others.append(entry)
        elif plan.groups is None or record.g in plan.groups:
            beats.append((entry, record))
    columns = _of_beats(plan, beats, counted)
    rows = [
        {**row, "batch": plan.batch, "counted": counted.get(row["offset"], _UNKNOWN).counts}
        for row in record_rows(plan.log, plan.partition, entries if columns is None else others, bus=bus)
        if plan.groups is None or row.get("group") in (None, *plan.groups)
    ]
    batch, refused = fitting("records", rows)
    if columns is None or not columns.num_rows:
        return batch, refused
    return pa.Table.from_batches([columns, batch]).sort_by("offset").combine_chunks().to_batches()[0], refused


def _of_beats(plan: Plan, beats: Sequence[tuple[Entry, Beat]], counted: Mapping[int, Counted]) -> pa.RecordBatch | None:
    """Their rows; None if one does not fit."""
    told = {
        "group": [beat.g for _, beat in beats],
        "offset": [entry.offset for entry, _ in beats],
        "ts_ms": [entry.timestamp_ms for entry, _ in beats],
        "member": [beat.m for _, beat in beats],
        "n": [beat.n for _, beat in beats],
        "base": [beat.b for _, beat in beats],
        "due_ms": [beat.s for _, beat in beats],
        "counted": [counted.get(entry.offset, _UNKNOWN).counts for entry, _ in beats],
        "bytes": [len(entry.payload) for entry, _ in beats],
        "payload": [entry.payload for entry, _ in beats],
    }
    same = {"log": plan.log, "partition": plan.partition, "batch": plan.batch, "kind": "beat"}
    return at_once("records", len(beats), told, same)


def _facts(plan: Plan, shares: Sequence[Share]) -> tuple[pa.RecordBatch, list[int], list[Row], list[int]]:
    import pyarrow as pa

    found = [fact for share in shares for fact in share.facts]
    told = {"group": [share.group for share in shares for _ in share.facts]}
    told |= dict(zip(Fact._fields, zip(*found, strict=True), strict=True)) if found else {}
    whole = at_once("facts", len(found), told, {"log": plan.log, "partition": plan.partition, "batch": plan.batch})
    if whole is not None:
        return whole, [share.first for share in shares for _ in share.facts], [], []
    batch, refused = fitting("facts", [row for share in shares for row in _rows(plan, share)])
    if not refused:
        return batch, [share.first for share in shares for _ in share.facts], [], []
    # Which rows are left is known group by group.
    batches, at, more, more_at = [batch.slice(0, 0)], list[int](), list[Row](), list[int]()
    for share in shares:
        fit, misfits = fitting("facts", _rows(plan, share))
        batches.append(fit)
        at += [share.first] * fit.num_rows
        more += misfits
        more_at += [share.first] * len(misfits)
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return (whole[0] if whole else batches[0]), at, more, more_at


def _rows(plan: Plan, share: Share) -> list[Row]:
    rows = fact_rows(plan.log, plan.partition, share.group, share.facts)
    return [{**row, "batch": plan.batch} for row in rows]
