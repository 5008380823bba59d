"""The programs of docs/spark-jobs.md run, as they stand there."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import pares
import pares.spark
from pares.spark.sinks.base import Seat, deliver
from pares.spark.sinks.extents import StreamExtent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
PAGE = Path(__file__).parents[3] / "docs" / "spark-jobs.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("block", "table", "rows"),
    [(0, "shop.db orders", ["apples", "pears"]), (2, "lines.db lines", ["apples", "pears", "plums"])],
)
def test_a_program_of_the_page(
    spark: SparkSession, block: int, table: str, rows: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCKS[block], f"{PAGE.name}, program {block + 1}", "exec"), {"__name__": "__main__"})
    file, name = table.split()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert sorted(row[0] for row in connection.execute(f"SELECT line FROM {name}")) == rows


def test_days_of_a_dataset(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").mkdir()
    pq.write_table(pa.table({"day": [date(2026, 11, day) for day in (1, 1, 2, 30)]}), tmp_path / "orders" / "1.parquet")
    with contextlib.closing(sqlite3.connect("days.db")) as connection:
        connection.execute("CREATE TABLE days (day TEXT, count INTEGER)")
    names = {"pares": pares, "spark": spark, "folder": tmp_path, "sink": pares.spark.SqliteSink("days.db", "days")}
    exec(compile(BLOCKS[3], f"{PAGE.name}, program 4", "exec"), names)
    with contextlib.closing(sqlite3.connect("days.db")) as connection:
        found = connection.execute("SELECT day, count FROM days ORDER BY day").fetchall()
    assert found == [("2026-11-01", 2), ("2026-11-02", 1), ("2026-11-30", 1)]


def test_a_sink_of_a_delta_table(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"pares": pares}
    for _ in range(2):
        exec(compile(BLOCKS[1], f"{PAGE.name}, program 2", "exec"), names)
    sink, held = names["sink"], Seat("orders", 0, 1)
    sink.open(held)
    assert deliver(sink, spark.createDataFrame([("apples",)], "line string"), held, StreamExtent("q", 0, None, "1"))
    assert DeltaTable("orders-table").to_pyarrow_table().to_pylist() == [{"line": "apples"}]
