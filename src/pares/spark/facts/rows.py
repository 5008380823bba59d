"""The rows of a task, collected into large batches for Spark.

Nineteen of twenty records are beats, and of a beat most columns are empty. So beats are collected column by column, and the
empty columns are made at once. [a value a row and a list a column cost more than reading and folding the record]
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from pares.spark.facts.base import EntryLike, Fact, arrow_schema, in_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from pares.core.wire.records import AnyRecord, Unknown

ROWS: Final = 20_000
"""A batch goes out when there are so many rows."""
PART: Final = "part"
"""The column that says which task a row is of."""
_OF_BEATS: Final = ("g", "offset", "at_ms", "member", "n", "base", "due_ms", "counted", "hash", "bytes")


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


class Rows:
    """The rows of one task, with the number of the task as a last column."""

    def __init__(self, part: int) -> None:
        self._part = part
        self._groups: list[str | None] = []
        self._facts: list[Fact] = []
        self._columns: dict[str, list[Any]] = {name: [] for name in _OF_BEATS}

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
        columns = self._columns
        columns["g"] += [group] * len(entries)
        columns["offset"] += [entry[0] for entry in entries]
        columns["at_ms"] += [entry[1] for entry in entries]
        columns["member"] += [record.m for record in records]
        columns["n"] += [record.n for record in records]
        columns["base"] += [record.b for record in records]
        columns["due_ms"] += [record.s for record in records]
        columns["counted"] += counts
        columns["hash"] += [zlib.crc32(entry[2]) for entry in entries]
        columns["bytes"] += [len(entry[2]) for entry in entries]

    def batches(self, least: int = ROWS) -> Iterator[pa.RecordBatch]:
        """What there is, if there are so many rows of either sort."""
        if len(self._facts) >= least:
            yield self._of_facts()
        if len(self._columns["g"]) >= least:
            yield self._of_beats()

    def _of_facts(self) -> pa.RecordBatch:
        import pyarrow as pa

        values: list[Any] = [self._groups, *zip(*self._facts, strict=True)]
        self._groups, self._facts = [], []
        return self._batch([pa.array(list(v), of.type) for v, of in zip(values, arrow_schema(), strict=True)])

    def _of_beats(self) -> pa.RecordBatch:
        known, many = self._columns, len(self._columns["g"])
        self._columns = {name: [] for name in _OF_BEATS}
        return self._batch(in_columns(arrow_schema(), many, known, {"kind": "record", "cause": "beat"}).columns)

    def _batch(self, columns: list[Any]) -> pa.RecordBatch:
        import pyarrow as pa

        schema = arrow_schema().append(pa.field(PART, pa.int32()))
        part = pa.repeat(pa.scalar(self._part, pa.int32()), len(columns[0]))
        return pa.RecordBatch.from_arrays([*columns, part], schema=schema)
