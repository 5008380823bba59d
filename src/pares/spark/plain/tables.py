"""All tables of an audit out of the facts of a log, in plain Python: what `spark.tables` makes by queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from pares.spark.plain import spans, terms
from pares.spark.rules import beliefs
from pares.spark.rules.base import Allowed, Row
from pares.spark.rules.registry import INPUTS, plainly

if TYPE_CHECKING:
    import pyarrow as pa

MOST: Final = 100_000
"""Records of a log that are judged without Spark; all that is known of them is held in memory, some kilobytes for each term."""

_SAID: Final = "cause, why, n, base, ref, counted, hash, due_ms"
RAW: Final = f"g, kind, offset, at_ms, role, seat, token, member, other, clock_ms, {_SAID}"
"""What is known of a record."""


def of_log(here: pa.Table, faults: Sequence[Row], allowed: Allowed) -> dict[str, list[Row]]:
    """The rows of all frames that follow from the log, by name; `here`: its facts; `faults`: at_ms, member, fault."""
    rows: dict[str, list[Row]] = {name: table.to_pylist() for name, table in divided(here).items()}
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


def divided(here: pa.Table) -> dict[str, pa.Table]:
    """Of the rows of a fold: `records`, `facts` and `bad_records`."""
    import pyarrow as pa

    kinds = here.column("kind").to_pylist()

    def of(kind: Callable[[str], bool]) -> pa.Table:
        return here.filter(pa.array([kind(one) for one in kinds], pa.bool_()))

    bad = of(lambda kind: kind == "bad").select(["g", "offset", "cause", "payload", "at_ms"])
    return {
        "records": of(lambda kind: kind == "record").select(RAW.split(", ")),
        "facts": of(lambda kind: kind != "record"),
        "bad_records": bad.rename_columns(["g", "offset", "reason", "payload", "at_ms"]),
    }
