"""The worst moments of a history: what a reader of the report looks at first, with the records around each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pares.spark.rules.base import Row

MOST: Final = 10
AROUND: Final = 4
"""Offsets before and behind each that a moment names."""
RECORDS: Final = 400
"""Records that are kept around all moments together."""
VIOLATIONS: Final = ("from_ms", "rule", "role", "seat", "token_a", "token_b", "member_a", "member_b", "evidence")
TAKEOVERS: Final = ("at_ms", "role", "seat", "token", "to_member")
"""In which order those stand that are equally bad."""
COLUMNS: Final = ("offset", "at_ms", "cause", "member", "role", "seat", "token", "other", "counted")


def worst(violations: Sequence[Row], takeovers: Sequence[Row], terms: Sequence[Row]) -> list[Row]:
    """Certain violations, the longest first; then possible ones; then the longest takeovers. Each with what, verdict, role,
    seat, from_ms, to_ms, why, and the offsets of the records that show it.

    The rows may stand in any order, and may be any that hold the `MOST` worst of each table.
    """
    found = [_of_violation(row) for row in sorted(violations, key=_by_verdict)[:MOST]]
    slow = sorted((row for row in takeovers if row["ms"] is not None), key=_by_length)[: MOST - len(found)]
    wanted = {_token(row) for row in slow}
    begun: dict[Any, int] = {}
    for row in terms:
        if row.get("from_offset") is not None and _token(row) in wanted:
            begun[_token(row)] = min(row["from_offset"], begun.get(_token(row), row["from_offset"]))
    return [*found, *(_of_takeover(row, begun.get(_token(row))) for row in slow)]


def _by_verdict(row: Row) -> tuple[Any, ...]:
    return (row["verdict"] != "certain", -(row["length_ms"] or 0), *_last(row, VIOLATIONS))


def _by_length(row: Row) -> tuple[Any, ...]:
    return (-row["ms"], *_last(row, TAKEOVERS))


def _last(row: Row, names: Iterable[str]) -> Iterable[tuple[bool, Any]]:
    """What decides where all else is equal, so that Spark and Python name the same ones."""
    return ((row.get(name) is None, row.get(name)) for name in names)


def _token(row: Row) -> tuple[Any, ...]:
    return row["role"], row["seat"], row["token"]


def spans(moments: Iterable[Row]) -> list[tuple[int, int]]:
    """The ranges of offsets around what the moments name, first and last."""
    named = sorted({offset for moment in moments for offset in moment["offsets"]})
    return [(offset - AROUND, offset + AROUND) for offset in named]


def near(records: Iterable[Mapping[str, Any]], spans: Sequence[tuple[int, int]]) -> list[Row]:
    """The records in the ranges, in order."""
    found = [
        {name: row[name] for name in COLUMNS}
        for row in records
        if row["offset"] is not None and any(low <= row["offset"] <= high for low, high in spans)
    ]
    return sorted(found, key=lambda row: row["offset"])[:RECORDS]


def _of_violation(row: Row) -> Row:
    names = ("verdict", "role", "seat", "from_ms", "to_ms")
    offsets = [offset for offset in row["offsets"] or () if offset is not None]
    return {**{name: row[name] for name in names}, "what": row["rule"], "why": row["evidence"], "offsets": offsets}


def _of_takeover(row: Row, offset: int | None) -> Row:
    before, after = row["from_member"] or "nobody", row["to_member"]
    why = f"{row['ms']} ms from {before} to {after}, by {row['cause']}"
    if row["limit_ms"] is not None:
        why += f"; {row['limit_ms']} ms promised"
    return {
        "what": "takeover",
        "verdict": "",
        "role": row["role"],
        "seat": row["seat"],
        "from_ms": row["at_ms"] - row["ms"],
        "to_ms": row["at_ms"],
        "why": why,
        "offsets": [] if offset is None else [offset],
    }
