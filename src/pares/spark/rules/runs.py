"""Runs: records of one member that follow each other with numbers that go on one by one, put together.

Nineteen of twenty records are beats, and of a beat the rules ask where it stands and whether its number is higher than those
before it. So all records are walked through once, as they come, and a member's beats become a row wherever its numbers go on.
Rules ask these rows; what is out of order in them is looked up among the records. [sorted by member and place, the records of a
long log take longer than all else that an audit does]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

NEEDED: Final = ("g", "member", "base", "counted", "offset", "n", "at_ms", "due_ms")
COLUMNS: Final = "g string, member string, base bigint, counted boolean, " + ", ".join(
    f"{name} bigint" for name in ("low", "high", "first", "last", "many", "from_ms", "to_ms", "due_ms")
)
_OPEN: Final = 50_000
"""Runs after which a task looks which of them belong together, at the earliest."""
_MOST: Final = 200_000
"""Runs that a task has in memory, at the most."""

_NONE: Final = -(1 << 62)
"""No number."""

Series: TypeAlias = tuple[str | None, str | None, int | None]
"""Group, member and base: what a member's numbers belong to."""


@dataclass(slots=True)
class Run:
    """From `low` to `high`, which are offsets, all records of the series have the numbers from `first` to `last`, one by one;
    all of them counted or none did; and each came before the one before it was overdue. A record without a number is a run of
    its own, with NULL for both. `from_ms`, `to_ms`: the stamps of the first and the last one; `due_ms`: by when, from then on,
    the last one announced another."""

    counted: bool
    low: int
    high: int
    first: int | None
    last: int | None
    many: int
    from_ms: int
    to_ms: int
    due_ms: int | None

    def goes_on(self, other: Run) -> bool:
        """Whether the other one is the rest of this one."""
        return (
            self.last is not None
            and other.first == self.last + 1
            and other.low > self.high
            and other.counted == self.counted
            and (self.due_ms is None or other.from_ms - self.to_ms <= self.due_ms)
        )

    def go_on(self, other: Run) -> None:
        """Takes the other one for the rest."""
        self.high, self.last, self.many = other.high, other.last, self.many + other.many
        self.to_ms, self.due_ms = other.to_ms, other.due_ms


def of_frame(records: DataFrame) -> DataFrame:
    """The runs of all records. Where the records of a series come from several tasks, or not in the order of their offsets,
    it has more of them; they may lie one within the other then, and that shows."""
    return records.select(*NEEDED).mapInArrow(runs, COLUMNS)


def of_table(records: pa.Table) -> pa.Table:
    """The runs of records that are here."""
    import pyarrow as pa

    found = list(runs(records.select(list(NEEDED)).combine_chunks().to_batches()))
    return pa.Table.from_batches(found, schema())


def runs(found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of batches with the columns `NEEDED`."""
    collected = Collected()
    for batch in found:
        yield from collected.add(batch)
    yield from collected.rest()


class Collected:
    """The runs of a task's records, which come in the order of their offsets, or a few of them somewhat late."""

    def __init__(self) -> None:
        self._kept = dict[Series, list[Run]]()
        self._many, self._most = 0, _OPEN

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes the records of a batch with the columns `NEEDED`; gives what is not to be kept any longer."""
        for series, run in _of_batch(batch):
            of_series = self._kept.setdefault(series, [])
            if of_series and of_series[-1].goes_on(run):
                of_series[-1].go_on(run)
            else:
                of_series.append(run)
                self._many += 1
        if self._many > self._most:
            self._join()
            self._most = max(_OPEN, 2 * self._many)
        if self._many > _MOST:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Gives all that was kept."""
        self._join()
        kept, self._kept = self._kept, {}
        self._many, self._most = 0, _OPEN
        if kept:
            yield _batch((*series, *astuple(run)) for series, of_series in kept.items() for run in of_series)

    def _join(self) -> None:
        """Puts together what belongs together, in the order of the places."""
        for series, of_series in self._kept.items():
            of_series.sort(key=lambda run: run.low)
            whole = of_series[:1]
            for run in of_series[1:]:
                if whole[-1].goes_on(run):
                    whole[-1].go_on(run)
                else:
                    whole.append(run)
            self._kept[series] = whole
        self._many = sum(map(len, self._kept.values()))


def _of_batch(batch: pa.RecordBatch) -> Iterator[tuple[Series, Run]]:
    """The runs of one batch; those of a series in the order of their offsets."""
    import numpy as np
    import pyarrow as pa

    if batch.num_rows == 0:
        return
    code = np.zeros(batch.num_rows, np.int64)
    for at in range(3):
        words: Any = batch.column(at).dictionary_encode(null_encoding="encode")
        code = code * len(words.dictionary) + words.indices.to_numpy()
    order = np.lexsort((batch.column(4).to_numpy(), code))
    code = code[order]

    def column(at: int, null: int) -> Any:
        return batch.column(at).fill_null(null).to_numpy(zero_copy_only=False)[order]

    counted, offset, at_ms = column(3, False), column(4, 0), column(6, 0)
    n, due = column(5, _NONE), column(7, _NONE)
    on = (code[1:] == code[:-1]) & (counted[1:] == counted[:-1]) & (offset[1:] > offset[:-1])
    on &= (n[:-1] != _NONE) & (n[1:] == n[:-1] + 1)
    on &= (due[:-1] == _NONE) | (at_ms[1:] - at_ms[:-1] <= due[:-1])
    begins = np.flatnonzero(np.concatenate(([True], ~on)))
    ends = np.append(begins[1:], batch.num_rows) - 1
    named = batch.select([0, 1, 2]).take(pa.array(order[begins])).to_pydict()
    firsts = (column[begins].tolist() for column in (counted, offset, n, at_ms))
    lasts = (column[ends].tolist() for column in (offset, n, at_ms, due))
    for *series, says, low, first, from_ms, high, last, to_ms, due_ms, many in zip(
        *named.values(), *firsts, *lasts, (ends - begins + 1).tolist(), strict=True
    ):
        numbers = (None, None) if first == _NONE else (first, last)
        yield tuple(series), Run(says, low, high, *numbers, many, from_ms, to_ms, None if due_ms == _NONE else due_ms)  # type: ignore[misc]


def _batch(rows: Iterable[tuple[Any, ...]]) -> pa.RecordBatch:
    import pyarrow as pa

    named = schema()
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), named, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=named)


def schema() -> pa.Schema:
    """`COLUMNS` in Arrow's words."""
    from pares.spark.source.columns import arrow

    return arrow(COLUMNS)
