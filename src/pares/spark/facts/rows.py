"""The rows of a task, collected into large batches for Spark.

Nineteen of twenty records are beats, and of a beat most columns are empty. So beats are collected column by column, and the
empty columns are made at once. [a value a row and a list a column cost more than reading and folding the record]
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from pares.spark.facts.base import EntryLike, Fact, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from pares.core.wire.records import AnyRecord, Unknown

ROWS: Final = 20_000
"""A batch goes out when there are so many rows."""
PART: Final = "part"
"""The column that says which task a row is of."""
_OF_BEATS: Final = ("g", "offset", "at_ms", "member", "n", "base", "due_ms", "counted", "hash", "bytes")
"""Columns that are neither empty nor the same in all rows."""


class Beats(Protocol):
    """What takes the rows of beats."""

    def add_beats(
        self,
        group: str,
        entries: Sequence[EntryLike],
        records: Sequence[AnyRecord | Unknown],
        counts: Sequence[bool | None],
    ) -> None:
        """Each as `raw.raw` says it."""
        ...


class _Beats:
    """Beats that wait to be rows: those of a portion as they came, and those before them as values by columns. [kept as they
    came, twenty thousand beats with the marks of many partitions take hundreds of megabytes]"""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {name: [] for name in _OF_BEATS}
        self._groups: list[str] = []
        self._entries: list[EntryLike] = []
        self._records: list[AnyRecord | Unknown] = []
        self._counts: list[bool | None] = []

    def add(
        self,
        group: str,
        entries: Sequence[EntryLike],
        records: Sequence[AnyRecord | Unknown],
        counts: Sequence[bool | None],
    ) -> None:
        self._groups += [group] * len(entries)
        self._entries += entries
        self._records += records
        self._counts += counts

    def settle(self) -> int:
        """The portion is over. Returns how many beats there are."""
        if self._entries:
            offsets, stamps, payloads = zip(*self._entries, strict=True)
            records, columns = self._records, self.columns
            columns["g"] += self._groups
            columns["offset"] += offsets
            columns["at_ms"] += stamps
            columns["member"] += [record.m for record in records]
            columns["n"] += [record.n for record in records]
            columns["base"] += [record.b for record in records]
            columns["due_ms"] += [record.s for record in records]
            columns["counted"] += self._counts
            columns["hash"] += map(zlib.crc32, payloads)
            columns["bytes"] += map(len, payloads)
            self._groups, self._entries, self._records, self._counts = [], [], [], []
        return len(self.columns["g"])


class Rows:
    """The rows of one task, with the number of the task as a last column."""

    def __init__(self, part: int) -> None:
        self._part = part
        self._groups: list[str | None] = []
        self._facts: list[Fact] = []
        self._beats = _Beats()

    def add(self, group: str | None, facts: Sequence[Fact]) -> None:
        self._groups += [group] * len(facts)
        self._facts += facts

    def add_beats(
        self,
        group: str,
        entries: Sequence[EntryLike],
        records: Sequence[AnyRecord | Unknown],
        counts: Sequence[bool | None],
    ) -> None:
        self._beats.add(group, entries, records, counts)

    def batches(self, least: int = ROWS) -> Iterator[pa.RecordBatch]:
        """A portion is over: what there is, if there are so many rows of either sort."""
        if len(self._facts) >= least:
            yield self._of_facts()
        if self._beats.settle() >= least:
            yield self._of_beats()

    def _of_facts(self) -> pa.RecordBatch:
        import pyarrow as pa

        values: list[Any] = [self._groups, *zip(*self._facts, strict=True)]
        self._groups, self._facts = [], []
        return self._batch([pa.array(list(v), of.type) for v, of in zip(values, arrow_schema(), strict=True)])

    def _of_beats(self) -> pa.RecordBatch:
        import pyarrow as pa

        known, self._beats = self._beats.columns, _Beats()
        many = len(known["g"])
        same = {"kind": "record", "cause": "beat"}
        columns: list[Any] = []
        for of in arrow_schema():
            if of.name in known:
                columns.append(pa.array(known[of.name], of.type))
            elif of.name in same:
                columns.append(pa.repeat(pa.scalar(same[of.name], of.type), many))
            else:
                columns.append(pa.nulls(many, of.type))
        return self._batch(columns)

    def _batch(self, columns: list[Any]) -> pa.RecordBatch:
        import pyarrow as pa

        schema = arrow_schema().append(pa.field(PART, pa.int32()))
        part = pa.repeat(pa.scalar(self._part, pa.int32()), len(columns[0]))
        return pa.RecordBatch.from_arrays([*columns, part], schema=schema)
