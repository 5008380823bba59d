"""All tables of an audit out of the facts of a log, in plain Python: what `spark.tables` makes by queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pares.spark import tables
from pares.spark.plain import spans, terms
from pares.spark.rules import beliefs
from pares.spark.rules.base import Allowed, Row
from pares.spark.rules.registry import INPUTS, plainly

if TYPE_CHECKING:
    import pyarrow as pa

MOST: Final = 100_000
"""Records of a log that are judged without Spark; all that is known of them is held in memory, some kilobytes for each term."""


def of_log(here: pa.Table, faults: Sequence[Row], allowed: Allowed) -> dict[str, list[Row]]:
    """The rows of all frames that follow from the log, by name; `here`: its facts; `faults`: at_ms, member, fault."""
    rows: dict[str, list[Row]] = {name: table.to_pylist() for name, table in tables.divided(here).items()}
    facts, rows["faults"] = rows["facts"], [*faults]
    groups, members = terms.groups(facts), terms.members(facts)
    rows["groups"], rows["members"] = groups, members
    rows["terms"] = terms.terms(facts, groups, members, faults)
    believed = rows["believed"] = terms.believed(rows["terms"])
    rows["moves"] = spans.moves(facts)
    rows["segments"] = spans.segments(believed, spans.windows(facts, groups))
    rows["overlaps"] = beliefs.overlapping(rows, allowed)
    rows["gaps"] = spans.gaps(rows["segments"], believed)
    rows["takeovers"] = spans.takeovers(believed)
    rows["balance"] = spans.balance(members, believed)
    return rows | plainly({name: rows[name] for name in INPUTS}, allowed)
