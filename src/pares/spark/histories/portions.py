"""What a portion of the log gives to the tables: its rows, in the order in which files have them.

The order follows from the portion alone: of facts those that are of no group come first, then each group's, in the order in
which groups begin there. So rows of some groups can be told anew, and put where they belong (`pieces`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pares.ledger.base import Entry
from pares.spark.facts.folding import Share
from pares.spark.histories.columns import Row, fitting
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
    unknown = Counted(None, None)
    records = [
        {**row, "batch": plan.batch, "counted": counted.get(row["offset"], unknown).counts}
        for row in record_rows(plan.log, plan.partition, entries, bus=bus)
        if row["offset"] >= plan.low and (plan.groups is None or row.get("group") in (None, *plan.groups))
    ]
    kept, refused = fitting("records", records)
    facts, at, more, more_at = _facts(plan, shares)
    return Portion(kept, facts, at, refused + more, [OF_RECORDS] * len(refused) + more_at, counted)


def _facts(plan: Plan, shares: Sequence[Share]) -> tuple[pa.RecordBatch, list[int], list[Row], list[int]]:
    import pyarrow as pa

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
