"""Whether Spark compiles its queries, and in how many parts it goes through rows: a few thousand take less time than the
compiler, and of millions no task has room for half."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pares.spark.host.telling import SHUFFLE_PARTITIONS
from pares.spark.session import started_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTS: Final = "spark.sql.shuffle.partitions"
_BROADCAST: Final = "spark.sql.autoBroadcastJoinThreshold"
FEW: Final = 60_000
"""Rows of which an audit's tables are made, where compiling no longer pays. [of 45,000 they take three quarters of the time
without, of 65,000 as long either way, of 200,000 twice as long]"""
A_TASK: Final = 250_000
"""Rows of which one task is to have its share, more or less."""
_INTERPRETED: Final[Mapping[str, str]] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    _PARTS: "1",
    _BROADCAST: "-1",
}

_OF_MANY: Final[Mapping[str, str]] = {
    # Of rows in files Spark knows the bytes, and not that numbers' differences take a twentieth of what the numbers take.
    _BROADCAST: "-1",
    "spark.sql.files.maxPartitionBytes": "32m",
}


def _settings(rows: float) -> Mapping[str, str]:
    if rows <= FEW:
        return _INTERPRETED
    parts = SHUFFLE_PARTITIONS if math.isinf(rows) else int(rows) // A_TASK
    return {_PARTS: str(parts), **_OF_MANY} if parts > SHUFFLE_PARTITIONS else {}


_lock: Final = threading.Lock()
_within: Final = list["Compiling"]()
"""Those that have set something now: threads may audit at once in the one session that was started here."""
_before: Final = dict[str, str | None]()
"""What was set before the first of them came that has set it too."""


class Compiling:
    """For the queries of a `with` block. `rows`: of how many they are made, more or less; `math.inf`: nobody knows. Of few rows
    none is compiled, and each is done in one partition; of many, in the more partitions the more there are. [a million terms,
    in two partitions, end in a heap of 1.5 GB] Only in a session that was started here: a caller's settings are the caller's.

    For the sink's rows compiling pays: a million of them take four times as long without.
    """

    def __init__(self, spark: SparkSession, *, rows: float) -> None:
        self._spark = spark
        self._settings: Mapping[str, str] = _settings(rows) if started_here(spark) else {}

    @property
    def compiles(self) -> bool:
        """Whether rows are many, so that what is done for them pays."""
        return self._settings is not _INTERPRETED

    @property
    def in_parts(self) -> bool:
        """Whether rows are so many that they are gone through in more parts than usual, and fit into no memory."""
        return _OF_MANY.items() <= self._settings.items()

    def __enter__(self) -> Compiling:
        if self._settings:
            with _lock:
                for key in self._settings.keys() - _before.keys():
                    _before[key] = self._spark.conf.get(key, None)
                _within.append(self)
                self._set(self._settings)
        return self

    def __exit__(self, *_: object) -> None:
        if self._settings:
            with _lock:
                _within.remove(self)
                if not _within:
                    self._set(_before)
                    _before.clear()

    @contextmanager
    def many(self) -> Iterator[None]:
        """For those among them that go through many rows all the same."""
        if self.compiles:
            yield
            return
        self._set(_before)
        try:
            yield
        finally:
            self._set(self._settings)

    def _set(self, values: Mapping[str, str | None]) -> None:
        conf = self._spark.conf
        for key, value in values.items():
            conf.unset(key) if value is None else conf.set(key, value)
