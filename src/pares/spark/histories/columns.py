"""The stored tables: names and types of their columns, each said once; and what becomes of a row that does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pares.spark import schema
from pares.spark.facts.base import SCHEMA as FACTS
from pares.spark.facts.base import in_columns
from pares.spark.source.columns import arrow

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]

WHERE: Final = "log string, partition int, `group` string, batch bigint"
"""What every table begins with: the log by its identity, its partition, the group (NULL: none that is known), the batch."""
_FACTS: Final = f"{WHERE}, {FACTS.removeprefix('g string, ')}"
TABLES: Final[Mapping[str, str]] = {
    "records": f"{WHERE}, {schema.TABLES['records']}",
    "facts": _FACTS,
    "ends": _FACTS,
    "quarantine": f"{WHERE}, table string, offset bigint, ts_ms bigint, reason string, payload binary",
    "anomalies": f"{WHERE}, {schema.TABLES['anomalies']}",
    "worlds": f"{WHERE}, offset bigint, state binary",
}
"""records     what members wrote, as it stands in the log
facts       what the fold says of it, one thing a row: the audit stands on these
ends        the facts that are said of the end of a log; only the newest of a partition hold
quarantine  what is no record, or does not fit its table's columns: where, and why
anomalies   what the log no longer had when it was to be read
worlds      the state of the fold at the end of each batch"""
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "records": ("offset", "ts_ms", "group", "kind", "member"),
    "facts": ("kind",),
    "ends": ("kind",),
}
"""Columns that are never NULL, besides log, partition and batch."""
KEPT_PAYLOAD: Final = 1 << 16
"""How much of what does not fit is kept, in bytes."""


@cache
def named(table: str) -> pa.Schema:
    """The columns of a table, in Arrow's words."""
    return arrow(TABLES[table])


def at_once(table: str, many: int, told: Mapping[str, Sequence[Any]], same: Mapping[str, Any]) -> pa.RecordBatch | None:
    """The rows of a table by its columns: see `in_columns`. None if a value does not fit: `fitting` says which."""
    try:
        return in_columns(named(table), many, told, same)
    except (ValueError, TypeError, OverflowError, UnicodeError):
        return None


def fitting(table: str, rows: Sequence[Row]) -> tuple[pa.RecordBatch, list[Row]]:
    """The rows that fit the table's columns, and for each that does not a row for the quarantine."""
    refused: list[Row] = []
    kept = [row for row in rows if not _refused(row, _lacking(table, row), table, refused)]
    try:
        return _batch(table, kept), refused
    except (ValueError, TypeError, OverflowError, UnicodeError):
        kept = [row for row in kept if not _refused(row, _misfit(table, row), table, refused)]
        return _batch(table, kept), refused


def _refused(row: Row, reason: str | None, table: str, refused: list[Row]) -> bool:
    if reason is None:
        return False
    payload = row.get("payload")
    where = {name: row.get(name) for name in ("log", "partition", "group", "batch")}
    what = {"table": table, "offset": row.get("offset"), "ts_ms": row.get("ts_ms", row.get("at_ms")), "reason": reason}
    refused.append({**where, **what, "payload": None if payload is None else bytes(payload[:KEPT_PAYLOAD])})
    return True


def _lacking(table: str, row: Row) -> str | None:
    if table == "records" and row.get("reason") is not None and row.get("kind") is None:
        return str(row["reason"])
    lacking = [name for name in NEEDED.get(table, ()) if row.get(name) is None]
    return f"no {lacking[0]}" if lacking else None


def _misfit(table: str, row: Row) -> str | None:
    for field in named(table):
        try:
            _array([row.get(field.name)], field)
        except (ValueError, TypeError, OverflowError, UnicodeError) as error:
            return f"{field.name} is no {field.type}: {error}"
    return None


def _batch(table: str, rows: Sequence[Row]) -> pa.RecordBatch:
    import pyarrow as pa

    fields = named(table)
    return pa.RecordBatch.from_arrays([_array([row.get(f.name) for row in rows], f) for f in fields], schema=fields)


def _array(values: list[Any], field: Any) -> Any:
    import pyarrow as pa

    return pa.array(values, field.type)
