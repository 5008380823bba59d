"""The tables of an audit: names and types of their columns, each said once. Times are in milliseconds, sizes in bytes.

Each table begins with what it is about (`log`, `partition`, `group`, `batch` of the stored history are added where it is
stored); a column that is not here is in no table. `arrow` gives the same for Arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

_SEAT: Final = "role string, seat int"

TABLES: Final[dict[str, str]] = {
    "records": "offset bigint, ts_ms bigint, kind string, member string, n bigint, base bigint, due_ms bigint, "
    f"{_SEAT}, token bigint, counted boolean, reason string, bytes bigint, payload binary",
    "terms": f"group string, {_SEAT}, token bigint, member string, name string, host string, from_offset bigint, "
    "to_offset bigint, from_ms bigint, to_ms bigint, why string, a_early_ms bigint, a_late_ms bigint, b_early_ms bigint, "
    "b_late_ms bigint, began string, cause string, measured boolean, truncated boolean, sure_ms bigint",
    "violations": f"rule string, verdict string, {_SEAT}, token_a bigint, token_b bigint, member_a string, member_b string, "
    "from_ms bigint, to_ms bigint, length_ms bigint, offsets array<bigint>, evidence string",
    "overlaps": f"{_SEAT}, token_a bigint, token_b bigint, from_ms bigint, to_ms bigint, certain boolean, member_a string, "
    "member_b string, expected boolean",
    "takeovers": f"{_SEAT}, from_member string, to_member string, cause string, ms bigint, limit_ms bigint, late_ms bigint, "
    "candidates bigint, measured boolean, token bigint, at_ms bigint",
    "gaps": f"{_SEAT}, from_ms bigint, to_ms bigint, cause string",
    "moves": "offset bigint, at_ms bigint, "
    f"{_SEAT}, from_member string, to_member string, token bigint, cause string, why string",
    "balance": "member string, name string, host string, from_ms bigint, to_ms bigint, terms bigint, led_ms bigint, "
    "most_seats bigint, share double, administrator boolean",
    "bad_records": "offset bigint, reason string, payload binary, at_ms bigint",
    "faults": "at_ms bigint, member string, fault string",
    "sink_findings": f"rule string, {_SEAT}, token bigint, seen bigint, member string, key string, seq bigint, at_ms bigint, "
    "position bigint, count bigint",
    "anomalies": "kind string, member string, from_offset bigint, to_offset bigint, count bigint, detail string",
}
"""Each table's columns in the words of Spark's SQL."""

ORDER: Final = (
    *(
        "offset",
        "from_offset",
        "from_ms",
        "at_ms",
        "rule",
        "kind",
        "role",
        "seat",
        "token",
        "token_a",
        "token_b",
        "member",
    ),
    *("key", "seq"),
)
"""In which order the rows of a table stand: by those of these columns that it has."""


def columns(table: str) -> dict[str, str]:
    """The columns of a table: name and type, in order."""
    pairs = [column.split() for column in TABLES[table].split(", ")]
    return {pair[0]: pair[1] for pair in pairs}


def select(table: str) -> str:
    """The columns for a SELECT over a frame that has them, and perhaps more: each by its type."""
    return ", ".join(f"CAST({_named(name)} AS {kind}) AS {_named(name)}" for name, kind in columns(table).items())


def arrow(table: str) -> pa.Schema:
    """The table's schema in Arrow's words."""
    import pyarrow as pa

    makers: dict[str, Any] = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "array<bigint>": pa.list_(pa.int64()),
    }
    return pa.schema([pa.field(name, makers[kind]) for name, kind in columns(table).items()])


def _named(name: str) -> str:
    return f"`{name}`"
