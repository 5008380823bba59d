"""Files, days and numbers of a DataFrame as claims: a dataset that many processes work on, each part of it once.

A consumer claims offsets of partitions. So each value of a dataset is given an offset which it has in every process, without
one of them telling the others: a day its number in the calendar, an integer itself, a file its place among the sorted names.
Blocks of neighbouring offsets go to the partitions in turn, and a claim is one block.

| by | what may come later, and is worked on then |
|---|---|
| a column of dates | days after those that are done; not more rows of a day that is done |
| a column of integers | likewise |
| files | nothing: with other files it is another dataset, which is worked on from the beginning |
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Collection, Mapping
from datetime import date
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from pares.core.errors import ClosedError, ConfigError
from pares.ledger.source import check_fetch
from pares.ledger.sources import Fetched, Record
from pares.runtime.config.numbers import whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITIONS: Final = 16
MOST_PARTITIONS: Final = 1000
MOST_VALUES: Final = 100_000
"""In one dataset, if its caller does not say: the driver has a list of them."""
_FILE: Final = "_metadata.file_path"


class Portion(Record, frozen=True):
    """Stands for all rows of a block. Its own payload is empty."""

    dataset: Any  # a Dataset


def dataset(
    df: DataFrame, by: str | None, *, name: str, size: int = 1, partitions: int = PARTITIONS, most: int = MOST_VALUES
) -> Dataset:
    """Parts of `df` to claim, as a topic for a `pares.Consumer` whose claims are worked on by `pares.spark.work`.

        days = pares.spark.dataset(spark.read.parquet("orders"), by="day", name="orders by day")
        with pares.Consumer(url, group="billing", topics=[days]) as consumer:
            for claimed in pares.spark.work(consumer, timeout=5): ...

    `by`: a column of dates or of integers from 0 on; None: by files, for a `df` that is read from files and not changed.
    `name`: the same in all processes. `size`: how many days, numbers or files are claimed at once; `partitions`: how many
    processes find work at once, at most; both are part of what the dataset is, as `by` is: with others it is another one.
    `most`: how many values there may be. One job of Spark's finds out which values there are; what comes later is another
    call's.

    A claim's `first` and `last` are the days' `date.toordinal()`, the integers, or places in the sorted names of the files; its
    `df` has the columns of this one. Promised: as `work` says, for rows that stay as they are.

    Raises `ConfigError` for a column that is neither, has rows without a value or negative ones, too many values, or a `df` of
    which Spark does not say the files.
    """
    whole("size", size, 1, MOST_VALUES)
    whole("partitions", partitions, 1, MOST_PARTITIONS)
    whole("most", most, 1, 10 * MOST_VALUES)
    found, kind = _values(df, by, most)
    if kind == "files":
        names = sorted(found)
        identity = sha256("\n".join(names).encode()).hexdigest()
        return Dataset(df, None, names, range(len(names)), name, f"{identity}/{size}/{partitions}", size, partitions)
    offsets = sorted(value.toordinal() if kind == "dates" else value for value in found)
    return Dataset(df, by, None, offsets, name, f"{kind} {by}/{size}/{partitions}", size, partitions)


def _values(df: DataFrame, by: str | None, most: int) -> tuple[list[Any], str]:
    from pyspark.errors import AnalysisException
    from pyspark.sql.functions import col
    from pyspark.sql.types import DateType, IntegralType

    try:
        column = df.select(col(_FILE if by is None else f"`{by}`").alias("value"))
    except AnalysisException as error:
        what = "files" if by is None else f"column {by!r}"
        raise ConfigError(f"this DataFrame has no {what} to claim by: {str(error).splitlines()[0]}") from error
    dates = by is not None and isinstance(column.schema["value"].dataType, DateType)
    if by is not None and not dates and not isinstance(column.schema["value"].dataType, IntegralType):
        raise ConfigError(
            f"column {by!r} is {column.schema['value'].dataType.simpleString()}: claim by dates or integers; cast a timestamp "
            "to a date, say"
        )
    found = [row[0] for row in column.distinct().limit(most + 1).collect()]
    if len(found) > most:
        raise ConfigError(f"there are more than {most} values of {by or 'files'}: claim by something coarser")
    if any(value is None for value in found):
        raise ConfigError(f"some rows have no {by}, and would be nobody's: leave them out, or give them one")
    if not dates and by is not None and found and min(found) < 0:
        raise ConfigError(f"column {by!r} has {min(found)}: claim by integers from 0 on")
    return found, "files" if by is None else "dates" if dates else "integers"


class Dataset:
    """See `dataset`. A `pares.ledger.sources.Source`."""

    def __init__(
        self,
        df: DataFrame,
        by: str | None,
        names: list[str] | None,
        offsets: range | list[int],
        name: str,
        identity: str,
        size: int,
        partitions: int,
    ) -> None:
        self._df, self._by, self._names = df, by, names
        self._name, self._identity, self._size = name, identity, size
        self._dates = by is not None and df.schema[by].dataType.typeName() == "date"
        self._offsets: list[list[int]] = [[] for _ in range(partitions)]
        for offset in offsets:
            self._offsets[offset // size % partitions].append(offset)
        self._closed = threading.Event()

    @property
    def name(self) -> str:
        return self._name

    @property
    def identity(self) -> str:
        return self._identity

    def partitions(self) -> int:
        return len(self._offsets)

    def start(self, partition: int) -> int:
        return next(iter(self._of(partition)), 0)

    def end(self, partition: int) -> int:
        offsets = self._of(partition)
        return offsets[-1] + 1 if offsets else 0

    def ends(self, partitions: Collection[int]) -> dict[int, int]:
        return {partition: self.end(partition) for partition in partitions if 0 <= partition < len(self._offsets)}

    def changed(self, places: Mapping[int, int]) -> Collection[int]:
        return [partition for partition, offset in places.items() if offset < self.end(partition)]

    def fetch(self, partition: int, offset: int, *, max_records: int, max_bytes: int, timeout: float) -> Fetched:
        """One `Portion`: of the block in which the next offset lies. A position beyond the end, as of a process that has found
        later days, is none that is lost: there is nothing to do here."""
        check_fetch(offset, max_records, max_bytes)
        offsets = self._of(partition)
        at = bisect_left(offsets, offset)
        if at == len(offsets):
            self._closed.wait(timeout)
            return Fetched((), offset)
        first = offsets[at]
        block = (first // self._size + 1) * self._size
        upto = offsets[bisect_left(offsets, block) - 1] + 1
        return Fetched((Portion(first, 0, None, b"", self),), upto)

    def close(self) -> None:
        self._closed.set()

    def frame(self, first: int, upto: int) -> DataFrame:
        """The rows of these offsets, which are in one block."""
        from pyspark.sql.functions import col, lit

        if self._names is not None:
            return self._df.where(col(_FILE).isin(self._names[first:upto]))
        ends: list[Any] = [date.fromordinal(end) if self._dates else end for end in (first, upto - 1)]
        return self._df.where(col(f"`{self._by}`").between(*map(lit, ends)))

    def _of(self, partition: int) -> list[int]:
        if self._closed.is_set():
            raise ClosedError(f"the dataset {self._name!r} is closed")
        if not 0 <= partition < len(self._offsets):
            raise ConfigError(f"the dataset {self._name!r} has {len(self._offsets)} partitions, and no {partition}")
        return self._offsets[partition]
