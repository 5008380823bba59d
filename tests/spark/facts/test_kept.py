"""What Spark's tasks have worked out is kept for as long as somebody needs it, and no longer: in files, or by executors."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from full_disk import files_of_at_most
from scribe import story

from pares.core.errors import CapabilityError
from pares.spark import reading
from pares.spark.audit import audit
from pares.spark.host import compiling
from pares.spark.host import kept as kept_
from pares.spark.host.kept import InFiles, kept
from pares.spark.session import needing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "number bigint, at bigint, nothing string"
pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def three(said: str | None = None) -> Callable[[int], Iterator[pa.RecordBatch]]:
    """A function that a worker can be sent, which has none of these modules. It notes each call in the file `said`."""

    def rows(number: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        if said is not None:
            with open(said, "a") as file:
                file.write(f"{number} ")
        for at in range(3):
            yield pa.RecordBatch.from_pydict({"number": [number], "at": [at], "nothing": pa.nulls(1, pa.string())})

    return rows


@pytest.fixture
def places(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files would be."""
    monkeypatch.setattr(kept_, "_place", lambda spark: str(tmp_path))
    return tmp_path


def found(of: Any) -> list[tuple[int, ...]]:
    return sorted((row["number"], row["at"]) for row in of.frame.where("nothing IS NULL").collect())


def test_what_is_looked_up_in_a_long_file_is_found(spark: SparkSession, places: Path) -> None:
    """Spark looks into the dictionary of a column's group of rows before it reads the rows."""

    def many(number: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        at = range(120_000)
        yield pa.RecordBatch.from_pydict(
            {"number": [number] * len(at), "at": at, "nothing": pa.nulls(len(at), pa.string())}
        )

    rows = kept(spark, 1, many, COLUMNS)
    assert rows.frame.where("at BETWEEN 5 AND 9 OR at BETWEEN 777 AND 779").count() == 8


def test_in_files_that_go_when_nobody_needs_the_rows(spark: SparkSession, places: Path) -> None:
    rows = kept(spark, 4, three(), COLUMNS)
    assert found(rows) == [(number, at) for number in range(4) for at in range(3)]
    assert len(list(places.glob("*/*.parquet"))) == 4
    del rows
    gc.collect()
    assert list(places.iterdir()) == []


@pytest.mark.parametrize("name", ["x[1]", "x{a,b}*?", "x y%20z", "a=1"])
def test_whatever_the_folder_is_called(
    spark: SparkSession, places: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (places / name).mkdir()
    monkeypatch.setattr(kept_, "_place", lambda spark: str(places / name))
    spark.conf.set("fs.defaultFS", "hdfs://127.0.0.1:1")
    try:
        assert len(found(kept(spark, 2, three(), COLUMNS))) == 6
    finally:
        spark.conf.unset("fs.defaultFS")


def test_tasks_without_a_row(spark: SparkSession, places: Path) -> None:
    def none(number: int) -> Iterator[pa.RecordBatch]:
        return iter(())

    def some(number: int) -> Iterator[pa.RecordBatch]:
        return straight(number) if number == 1 else iter(())

    straight = three()
    assert found(kept(spark, 2, none, COLUMNS)) == []
    assert found(kept(spark, 2, some, COLUMNS)) == [(1, 0), (1, 1), (1, 2)]


def test_by_executors_until_nobody_needs_the_rows(
    spark: SparkSession, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_, "is_here", lambda spark: False)
    said = places / "said"
    rows = kept(spark, 4, three(str(said)), COLUMNS)
    other = kept(spark, 4, three(str(said)), COLUMNS)
    assert found(rows) == found(rows) == [(number, at) for number in range(4) for at in range(3)]
    assert sorted(said.read_text().split()) == ["0", "1", "2", "3"], "once each"
    frame = rows.frame
    assert frame.storageLevel.useMemory
    del rows
    gc.collect()
    assert not frame.storageLevel.useMemory
    assert other.frame.storageLevel.useMemory, "equal rows of another one are its own"
    assert list(places.iterdir()) == [said]


def test_the_tables_of_an_audit_need_them(
    spark: SparkSession, places: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = story(5, roles=5, steps=60).save(tmp_path_factory.mktemp("log") / "l.db")
    monkeypatch.setattr(reading, "SMALL", 0)
    result = audit(url, "g", spark=spark)
    bad, many = result.frames["bad_records"], len(result.rows("terms"))
    terms = result.frames["terms"]
    del result
    gc.collect()
    assert terms.count() == many
    assert bad.count() == 0
    assert len(list(places.iterdir())) == 1
    del terms, bad
    gc.collect()
    assert list(places.iterdir()) == []


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    """By a worker, from which the driver has it (`as_raised`)."""
    wide = pa.RecordBatch.from_pydict({"number": [number**5 % 1_000_003 for number in range(10_000)]})
    said = r"there is no room left at .*: make some, and audit again"
    with files_of_at_most(1000), pytest.raises(CapabilityError, match=said) as raised:
        kept_._written([wide], str(tmp_path))  # pyright: ignore[reportPrivateUsage]
    of_spark = RuntimeError(f"pares.core.errors.CapabilityError: {raised.value}")
    assert isinstance(reading.as_raised(of_spark), CapabilityError)


def test_many_rows_of_a_query_are_in_files_while_they_are_needed(spark: SparkSession, places: Path) -> None:
    rows = InFiles(spark)
    many = spark.range(10_000).selectExpr("id AS number", "id % 7 AS at", "array(struct(id, 'x' AS what)) AS pairs")
    frame, none = rows.settled(many), rows.settled(many.where("number < 0"))
    assert [(field.name, field.dataType.typeName()) for field in frame.schema] == [
        (field.name, field.dataType.typeName()) for field in many.schema
    ]
    assert sorted(frame.where("at = 3").collect()) == sorted(many.where("at = 3").collect())
    assert none.count() == 0
    made = needing(frame.selectExpr("sum(number) AS sum"), rows)
    assert len(list(places.iterdir())) == 1
    del rows, frame, none
    gc.collect()
    assert made.collect()[0].sum == sum(range(10_000))
    del made
    gc.collect()
    assert list(places.iterdir()) == []


def test_a_full_disk_is_said_of_what_spark_writes(spark: SparkSession, places: Path) -> None:
    gateway: Any = type(spark.sparkContext)._gateway  # pyright: ignore[reportPrivateUsage]
    pid, rows = gateway.proc.pid, InFiles(spark)
    with (
        files_of_at_most(1000, pid),
        pytest.raises(CapabilityError, match=r"no room left at \S+ \(File too large\): make some"),
    ):
        rows.settled(spark.range(100_000).selectExpr("hash(id) AS number"))
    assert rows.settled(spark.range(3).toDF("number")).count() == 3


def test_the_tables_of_many_rows_are_in_files_and_say_the_same(
    spark: SparkSession, places: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = story(6, roles=5, steps=60).save(tmp_path_factory.mktemp("log") / "l.db")
    said = audit(url, "g", spark=spark, engine="python")
    monkeypatch.setattr(reading, "SMALL", 0)
    monkeypatch.setattr(compiling, "FEW", 0)
    monkeypatch.setattr(compiling, "A_TASK", 50)
    # Without the compiler, which takes a minute for these few rows.
    quick = {**compiling._INTERPRETED, **compiling._OF_MANY}  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(compiling, "_OF_MANY", quick)
    result = audit(url, "g", spark=spark, engine="spark")
    assert (result.summary, result.promises) == (said.summary, said.promises)
    for name, rows in said.tables.items():
        assert result.tables[name].to_pylist() == rows.to_pylist()
    terms, many = result.frames["terms"], len(said.rows("terms"))
    del result, said
    gc.collect()
    assert terms.count() == many
    assert {place.name for place in places.glob("*/*") if place.is_dir()} != set(), "in files"
    del terms
    gc.collect()
    assert list(places.iterdir()) == []


def test_files_go_where_sparks_own_do(tmp_path: Path) -> None:
    def place(of: dict[str, str]) -> str | None:
        return kept_._place(SimpleNamespace(conf=of))  # type: ignore[arg-type]  # pyright: ignore[reportPrivateUsage]

    assert place({}) is None
    assert place({"spark.local.dir": f"/is/not/there, {tmp_path}"}) == str(tmp_path)
    assert place({"spark.local.dir": "/is/not/there"}) is None
