"""The columns that a read brings, and how entries become rows of them.

`entries` are what stands in the log; `records` the same as the history tables have them, read and named; `facts` is what the
fold says. A read that marks what is lost has one column more, `anomaly`, which is NULL in every row but those that stand for
something lost: there everything else is NULL but the log, the partition and the offset from which on it is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pares.core.allcall.messages import Call
from pares.core.allcall.messages import decode as decode_call
from pares.core.wire import neli_records as neli
from pares.core.wire.records import AnyRecord, BadRecord, Unknown
from pares.spark import schema
from pares.spark.facts.base import SCHEMA as FACTS
from pares.spark.facts.base import Fact
from pares.spark.facts.raw import said

if TYPE_CHECKING:
    import pyarrow as pa

    from pares.ledger.base import Entry
    from pares.spark.source.options import Options
    from pares.spark.source.ranges import Anomaly

PLAIN: Final = "offset bigint, partition int, timestamp_ms bigint, payload binary"
ENVELOPE: Final = "v bigint, k string, g string, m string, n bigint, b bigint, s bigint"
WHERE: Final = "log string, partition int, `group` string"
"""Whose row it is: the log by its identity, its partition, and the group (NULL: of none that is known)."""
ANOMALY: Final = "anomaly struct<kind: string, from_offset: bigint, to_offset: bigint, detail: string>"
RECORDS: Final = f"{WHERE}, {schema.TABLES['records']}"
FOLDED: Final = f"{WHERE}, {FACTS.removeprefix('g string, ')}"

Row = dict[str, Any]
_FIELDS: Final = {"string": "string", "bigint": "int64", "int": "int32", "double": "float64", "boolean": "bool_"}
_envelope = msgspec.json.Decoder(Unknown)


def ddl(options: Options) -> str:
    """The columns of a read, in the words of Spark's SQL."""
    entries = f"{PLAIN}, {ENVELOPE}" if options.envelope else PLAIN
    columns = {"entries": entries, "records": RECORDS, "facts": FOLDED}[options.table]
    return f"{columns}, {ANOMALY}" if options.marks else columns


def arrow(columns: str) -> pa.Schema:
    """The same columns in Arrow's words."""
    import pyarrow as pa

    fields: list[Any] = []
    for part in columns.removesuffix(f", {ANOMALY}").split(", "):
        name, kind = part.split()
        made = pa.binary() if kind == "binary" else getattr(pa, _FIELDS[kind])()
        fields.append(pa.field(name.strip("`"), made))
    if columns.endswith(ANOMALY):
        parts = [("kind", pa.string()), ("from_offset", pa.int64()), ("to_offset", pa.int64()), ("detail", pa.string())]
        fields.append(pa.field("anomaly", pa.struct(parts)))
    return pa.schema(fields)


def entry_batch(entries: list[Entry], partition: int, options: Options) -> pa.RecordBatch | None:
    """Entries as they stand in the log; with `groups`, those whose envelope names one of them."""
    import pyarrow as pa

    named = arrow(ddl(options))
    heads = [_head(payload) for _, _, payload in entries] if options.envelope or options.groups is not None else []
    if options.groups is not None:
        kept = [at for at, head in enumerate(heads) if head[2] in options.groups]
        entries, heads = [entries[at] for at in kept], [heads[at] for at in kept]
    if not entries:
        return None
    offsets, times, payloads = zip(*entries, strict=True)
    values: list[Iterable[Any]] = [offsets, [partition] * len(entries), times, payloads]
    if options.envelope:
        values += zip(*heads, strict=True)
    if options.marks:
        values.append([None] * len(entries))
    columns = [pa.array(list(column), field.type) for column, field in zip(values, named, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=named)


def row_batches(rows: list[Row], named: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows by the names of their columns; what a row does not have is NULL."""
    import pyarrow as pa

    if rows:
        columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in named]
        yield pa.RecordBatch.from_arrays(columns, schema=named)


def record_rows(log: str, partition: int, entries: Iterable[Entry], *, bus: bool) -> Iterator[Row]:
    """Entries as rows of `records`. One that is no record has the reason, and no kind."""
    read = _call if bus else _record
    for offset, at_ms, payload in entries:
        row: Row = {"log": log, "partition": partition, "offset": offset, "ts_ms": at_ms}
        row |= {"bytes": len(payload), "payload": payload}
        try:
            row |= read(payload, offset)
        except BadRecord as bad:
            row["reason"] = str(bad)
        yield row


def fact_rows(log: str, partition: int, group: str | None, facts: Iterable[Fact]) -> Iterator[Row]:
    """Facts as rows of `facts`."""
    where = {"log": log, "partition": partition, "group": group}
    return ({**where, **fact._asdict()} for fact in facts)


def anomaly_row(log: str, anomaly: Anomaly) -> Row:
    """The row that stands for what is lost, in any table."""
    told = {"kind": anomaly.kind, "from_offset": anomaly.low, "to_offset": anomaly.high, "detail": anomaly.detail}
    return {"log": log, "partition": anomaly.partition, "offset": anomaly.low, "kind": None, "anomaly": told}


_NONE: Final = (None,) * 7


def _head(payload: bytes) -> tuple[Any, ...]:
    try:
        record = _envelope.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _NONE
    return (record.v, record.k, record.g, record.m, record.n, record.b, record.s)


def _record(payload: bytes, offset: int) -> Row:
    record = neli.decode(payload)
    if isinstance(record, neli.Foreign):
        row = _enveloped(record.record)
        told = said(record.record)
        return row | {name: told[name] for name in ("role", "seat", "token") if name in told}
    row = _enveloped(record)
    if isinstance(record, neli.Announce):
        row["token"] = record.b + offset
    elif isinstance(record, neli.Pulse | neli.Beacon | neli.Yield):
        row["token"] = record.term or None
    return row


def _enveloped(record: AnyRecord | Unknown | neli.InductionRecord) -> Row:
    kind = record.k if isinstance(record, Unknown) else str(type(record).__struct_config__.tag)
    row: Row = {"group": record.g, "kind": kind, "member": record.m}
    return row | {"n": record.n, "base": record.b, "due_ms": record.s}


def _call(payload: bytes, offset: int) -> Row:
    subject, _, body = payload.partition(b"\n")
    call = decode_call(body)
    if not isinstance(call, Call):
        raise BadRecord(call.reason)
    row: Row = {"group": subject.decode("utf-8", "backslashreplace"), "kind": call.k, "member": call.m}
    return row | {"n": call.n, "base": 0}
