"""What the ranges of a partition say, until they are joined and written as one file: a file for each range and table.

A file has a batch of rows for each portion, in order. Where some groups of a range were folded again, a second file has what
these say, portion by portion, and takes the place of their rows in the first. So the rows that come out, and their order, are
those of one fold over the whole partition, however it was cut.

Each file is there whole or not at all, and a task that is done twice writes the same one again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pyarrow as pa
from msgspec import Struct

from pares.spark.histories import disk
from pares.spark.histories.columns import fitting, named
from pares.spark.histories.portions import OF_RECORDS, Portion

TABLES: Final = ("records", "facts", "quarantine")
_BY: Final = pa.field("by", pa.string())
"""Of a row of records: the group whose fold says whether it counts."""
_AT: Final = pa.field("at", pa.int64())
"""Of other rows: where they belong within the portion."""
_COUNTS: Final = pa.schema([("offset", pa.int64()), ("counted", pa.bool_())])
_COMPRESSION: Final = "lz4"
pc: Final[Any] = import_module("pyarrow.compute")  # its functions are made when it is imported, and no stub names them


class Piece(Struct, frozen=True):
    """The rows of one range."""

    folder: str
    part: int
    again: list[str] = []
    """The groups that were folded again."""

    def place(self, table: str, *, again: bool = False) -> Path:
        return Path(self.folder) / f"{self.part:05d}-{table}{'-again' if again else ''}.arrow"


class Most(Struct, frozen=True):
    """Of how many facts of a kind, of a group or of none, a fold tells one by one."""

    kind: str
    group: str | None
    many: int


class Writer:
    """Writes the rows of a range; `again`: of groups that are folded again. They are in place once it is left without an
    error."""

    def __init__(self, piece: Piece, *, again: bool) -> None:
        self._piece, self._again = piece, again
        self._open = ExitStack()
        self._drafts: dict[str, Path] = {}
        self._writers: dict[str, Any] = {}

    def __enter__(self) -> Writer:
        for table in TABLES:
            draft = self._open.enter_context(disk.draft(Path(self._piece.folder)))
            options = pa.ipc.IpcWriteOptions(compression=_COMPRESSION)
            self._drafts[table] = draft
            self._writers[table] = pa.ipc.new_stream(draft, _schema(table, again=self._again), options=options)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._open:
            for table in TABLES:
                self._writers[table].close()
                if kind is None:
                    # Not synced: what is half written when the power goes is no part of any history.
                    os.replace(self._drafts[table], self._piece.place(table, again=self._again))

    def add(self, of: Portion) -> None:
        columns = [*of.facts.columns, pa.array(of.at, pa.int64())]
        self._write("facts", columns)
        refused, _ = fitting("quarantine", of.refused)
        self._write("quarantine", [*refused.columns, pa.array(of.refused_at, pa.int64())])
        if self._again:
            counts = [counted.counts for counted in of.counted.values()]
            self._write("records", [pa.array(list(of.counted), pa.int64()), pa.array(counts, pa.bool_())])
            return
        offsets: list[Any] = of.records.column("offset").to_pylist()
        by = [counted.group if (counted := of.counted.get(offset)) is not None else None for offset in offsets]
        self._write("records", [*of.records.columns, pa.array(by, pa.string())])

    def _write(self, table: str, columns: list[Any]) -> None:
        schema = _schema(table, again=self._again)
        self._writers[table].write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))


def rows(table: str, pieces: Sequence[Piece], most: Sequence[Most]) -> Iterator[pa.RecordBatch]:
    """The rows of a table as one fold over all of the ranges would have told them, in its order."""
    left = {limit: limit.many for limit in most}
    for piece in pieces:
        for batch in _merged(table, piece):
            found = batch
            for limit in left if table == "facts" else ():
                found, left[limit] = _up_to(found, limit, left[limit])
            yield found


def _merged(table: str, piece: Piece) -> Iterator[pa.RecordBatch]:
    columns = named(table).names
    with pa.ipc.open_stream(piece.place(table)) as first:
        if not piece.again:
            yield from (batch.select(columns) for batch in first)
            return
        merge = _with_counts if table == "records" else _with_rows
        with pa.ipc.open_stream(piece.place(table, again=True)) as again:
            # Both have read the same entries, so both have the same portions.
            for batch, anew in zip(first, again, strict=True):
                yield merge(batch, anew, piece.again).select(columns)


def _with_counts(batch: pa.RecordBatch, anew: pa.RecordBatch, groups: Sequence[str]) -> pa.RecordBatch:
    by, offsets, counted = (batch.column(name).to_pylist() for name in ("by", "offset", "counted"))
    known = dict(zip(anew.column("offset").to_pylist(), anew.column("counted").to_pylist(), strict=True))
    again = frozenset(groups)
    for at, (group, offset) in enumerate(zip(by, offsets, strict=True)):
        if group in again or offset in known:
            counted[at] = known.get(offset)
    where = batch.schema.get_field_index("counted")
    return batch.set_column(where, batch.schema.field(where), pa.array(counted, pa.bool_()))


def _with_rows(batch: pa.RecordBatch, anew: pa.RecordBatch, groups: Sequence[str]) -> pa.RecordBatch:
    mine = pc.and_(pc.is_in(batch.column("group"), pa.array(groups)), pc.not_equal(batch.column("at"), OF_RECORDS))
    both = pa.Table.from_batches([batch.filter(pc.invert(mine)), anew])
    # Sorting is stable, and each group's rows stand in the order of its fold.
    found = both.take(pc.sort_indices(both.column("at"))).combine_chunks().to_batches()
    return found[0] if found else batch.slice(0, 0)


def _up_to(batch: pa.RecordBatch, limit: Most, left: int) -> tuple[pa.RecordBatch, int]:
    """The rows without those that are too many, and how many more there may be."""
    group = batch.column("group")
    same = pc.is_null(group) if limit.group is None else pc.equal(group, limit.group)
    told = pc.indices_nonzero(pc.and_(pc.equal(batch.column("kind"), limit.kind), same)).to_pylist()
    if len(told) <= left:
        return batch, left - len(told)
    too_many = frozenset(told[left:])
    return batch.take(pa.array([at for at in range(batch.num_rows) if at not in too_many], pa.int64())), 0


@cache
def _schema(table: str, *, again: bool) -> pa.Schema:
    if table == "records":
        return _COUNTS if again else named(table).append(_BY)
    return named(table).append(_AT)
