"""Days, numbers and files of a DataFrame as claims."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pares
from pares.core.errors import ClosedError, ConfigError
from pares.spark.driving.claims import Dataset, dataset
from pares.spark.driving.work import work
from pares.spark.sinks.sqlite import SqliteSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
FIRST = date(2026, 11, 1)
DAYS, ROWS = 5, 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file of ROWS rows for each of DAYS days."""
    for day in range(DAYS):
        add(tmp_path / "orders", day)
    return tmp_path / "orders"


def add(folder: Path, day: int) -> None:
    folder.mkdir(exist_ok=True)
    rows = {"id": [day * ROWS + row for row in range(ROWS)], "day": [FIRST + timedelta(day)] * ROWS}
    pq.write_table(pa.table(rows), folder / f"day {day}.parquet")


@contextlib.contextmanager
def consumer(folder: Path, topic: Dataset, delivery: Any = "at-least-once") -> Iterator[pares.Consumer]:
    url = f"sqlite:///{folder.parent}/group.db"
    with (
        contextlib.closing(topic),
        pares.Consumer(url, group="g", topics=[topic], session=20.0, delivery=delivery) as me,
    ):
        yield me


def ids(sink: SqliteSink) -> list[int]:
    with contextlib.closing(sqlite3.connect(sink.file)) as connection:
        return sorted(row[0] for row in connection.execute("SELECT id FROM orders"))


@pytest.fixture
def sink(tmp_path: Path) -> SqliteSink:
    with contextlib.closing(sqlite3.connect(tmp_path / "sink.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER, day TEXT)")
    return SqliteSink(tmp_path / "sink.db", "orders")


def test_days_are_claimed_once_and_later_ones_when_they_are_there(
    spark: SparkSession, folder: Path, sink: SqliteSink
) -> None:
    def days() -> Dataset:
        return dataset(spark.read.parquet(str(folder)), by="day", name="orders", size=2, partitions=2)

    seen = list[date]()

    def go_on(me: pares.Consumer, upto: int) -> None:
        for claimed in work(me, spark=spark, timeout=60):
            first, last = date.fromordinal(claimed.first), date.fromordinal(claimed.last)
            assert {row["day"] for row in claimed.df.collect()} == {first, last}
            assert last - first <= timedelta(1)
            seen.extend({first, last})
            assert claimed.publish(sink)
            if len(seen) == upto:
                return

    with consumer(folder, days()) as me:
        go_on(me, DAYS)
    assert ids(sink) == list(range(DAYS * ROWS))
    add(folder, DAYS)
    with consumer(folder, days()) as me:
        go_on(me, DAYS + 1)
    assert ids(sink) == list(range((DAYS + 1) * ROWS))
    assert sorted(seen) == [FIRST + timedelta(day) for day in range(DAYS + 1)]


def test_files_are_claimed_and_other_files_are_another_dataset(
    spark: SparkSession, folder: Path, sink: SqliteSink
) -> None:
    files = dataset(spark.read.parquet(str(folder)), by=None, name="orders", size=3, partitions=1)
    with consumer(folder, files, "at-most-once") as me:
        claims = work(me, spark=spark, timeout=60)
        for first, last in ((0, 2), (3, 4)):
            claimed = next(claims)
            assert (claimed.first, claimed.last) == (first, last)
            assert claimed.publish(sink)
    assert ids(sink) == list(range(DAYS * ROWS))
    add(folder, DAYS)
    assert dataset(spark.read.parquet(str(folder)), by=None, name="orders").identity != files.identity


def test_integers_and_what_can_not_be_claimed_by(spark: SparkSession) -> None:
    df = spark.createDataFrame([(0, -1, "a", None), (4, 2, "b", 3), (5, 3, "c", 4)], "a int, b long, c string, d int")
    numbers = dataset(df, by="a", name="n", size=2, partitions=2)
    assert [numbers.start(number) for number in range(2)] == [0, 0]
    assert [numbers.end(number) for number in range(2)] == [6, 0]
    fetched = numbers.fetch(0, 1, max_records=1, max_bytes=1, timeout=0)
    assert (fetched.records[0].offset, fetched.next) == (4, 6)
    assert sorted(row["c"] for row in numbers.frame(4, 6).collect()) == ["b", "c"]
    assert numbers.fetch(0, 9, max_records=1, max_bytes=1, timeout=0).next == 9
    numbers.close()
    with pytest.raises(ClosedError):
        numbers.start(0)
    for by, said in (("b", "from 0 on"), ("c", "string"), ("d", "no d"), ("e", "no column"), (None, "no files")):
        with pytest.raises(ConfigError, match=said):
            dataset(df, by=by, name="n")
    with pytest.raises(ConfigError, match="more than 2"):
        dataset(df, by="a", name="n", most=2)
