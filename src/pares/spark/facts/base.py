"""The facts that an audit stands on: what the log says, one thing a row, in the form in which Spark gets it.

Every row that concerns a term carries role, seat and token. So a term is a plain GROUP BY, and a record that came late belongs
to the term that it names; attributed by order instead, it would end up in the member's next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_A_BATCH: Final = 5000

EntryLike = tuple[int, int, bytes]
"""Offset, time in milliseconds, payload."""

ADMINISTRATOR: Final = "administrator"
"""A member that may lead nothing: it has asked for something (`pares handover`, `Admin`), and is not counted as a member."""

COPIES: Final = 256
"""How many of a member's words of its beliefs are remembered, to know a late copy."""
SIGNS: Final = 64
"""How many of a member's last signs of life are remembered, to know on which of them a belief rested."""
SCHEMA: Final = (
    "g string, kind string, offset bigint, at_ms bigint, role string, seat int, token bigint, member string, other string, "
    "clock_ms bigint, cause string, why string, name string, host string, session_ms bigint, drift double, "
    "overlap_ms bigint, payload binary, until_ms bigint, sign_ms bigint, n bigint, base bigint, ref bigint, "
    "counted boolean, hash bigint, due_ms bigint, bytes bigint, eligible string"
)
"""The columns of the facts: the group, then the fields of `Fact`."""


class Fact(NamedTuple):
    """One thing that the log says. `kind` says which fields are set:

    gained, lost    a seat got or lost its holder: role, seat, token, member; `other` is the record's sender;
                    lost: `clock_ms` is the time of the member's last sign of life before the loss, `name` the id of
                    who got the seat by the same record
    lead, stop      a member's belief began or ended: role, seat, token, member, `clock_ms` by its own wall clock;
                    cause: `uncounted` where the record did not count: it is evidence all the same. stop: `sign_ms` is
                    when the last record entered the log on which the belief can have rested when it ended
    member, gone    a member joined or left: member, name, host, session_ms, drift, overlap_ms, eligible (its roles as
                    JSON, None: all); cause (of a member: `ADMINISTRATOR`, or None)
    seen            when a member is gone, or at the end: the offset and, in `clock_ms`, the time of its last counted record
    opened, shut    a seat came to be, or is no more: role, seat
    paused, resumed role, or None for the whole group
    held            NELI, at the end: nothing was said of this term's end: role, seat, token, member, `clock_ms`
                    lost, held: `clock_ms` is when the member last said that it leads, `until_ms` by when that was over at
                    the latest, by the broker's clock
    bad             a record that can't be read: cause, payload
    defect          two readers of one prefix differ: `other` wrote the snapshot
    first, last     the first and the last record of the group that was folded, with the earliest and the latest stamp of
                    any; `token` of the first: terms with a lower one began before anything that is known; `sign_ms` of the
                    last: by how much stamps went back at the most; `cause`: the protocol is of NELI's family
    record          a record as it stands in the log, before any fold: see `facts.raw`
    step            stamps went back here, from `clock_ms` to `at_ms`
    hole            offsets from `offset` to before `ref` have no entry
    newer           the group writes records that this version can't read: `cause` says so
    adrift          the log does not begin at its origin and has no snapshot: nothing of it can be known
    """

    kind: str
    offset: int | None = None
    at_ms: int | None = None
    role: str | None = None
    seat: int | None = None
    token: int | None = None
    member: str | None = None
    other: str | None = None
    clock_ms: int | None = None
    cause: str | None = None
    why: str | None = None
    name: str | None = None
    host: str | None = None
    session_ms: int | None = None
    drift: float | None = None
    overlap_ms: int | None = None
    payload: bytes | None = None
    until_ms: int | None = None
    sign_ms: int | None = None
    n: int | None = None
    base: int | None = None
    ref: int | None = None
    counted: bool | None = None
    hash: int | None = None
    due_ms: int | None = None
    bytes: int | None = None
    eligible: str | None = None


def arrow_schema() -> pa.Schema:
    """`SCHEMA` in Arrow's words."""
    import pyarrow as pa

    types: dict[str, Any] = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "double": pa.float64(),
        "binary": pa.binary(),
        "boolean": pa.bool_(),
    }
    fields = (field.split() for field in SCHEMA.split(", "))
    return pa.schema([pa.field(name, types[kind]) for name, kind in fields])


def in_columns(
    schema: pa.Schema, many: int, told: Mapping[str, Sequence[Any]], same: Mapping[str, Any]
) -> pa.RecordBatch:
    """So many rows, of which `told` has columns, and `same` what is the same in all of them; the other columns are NULL."""
    import pyarrow as pa

    columns: list[Any] = []
    for field in schema:
        if field.name in told:
            columns.append(pa.array(list(told[field.name]), field.type))
        elif field.name in same:
            columns.append(pa.repeat(pa.scalar(same[field.name], field.type), many))
        else:
            columns.append(pa.nulls(many, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def batches(group: str | None, rows: list[Fact]) -> Iterator[pa.RecordBatch]:
    """Facts of one group (None: of nobody known) as Arrow, for Spark."""
    import pyarrow as pa

    schema = arrow_schema()
    for at in range(0, len(rows), _ROWS_A_BATCH):
        part = rows[at : at + _ROWS_A_BATCH]
        columns = [pa.array([group] * len(part), pa.string())]
        for values, field in zip(zip(*part, strict=True), list(schema)[1:], strict=True):
            columns.append(pa.array(list(values), field.type))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
