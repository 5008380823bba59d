"""The source `pares` over real ledgers."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scribe import Scribe, story

from pares.ledger import open as open_ledger
from pares.spark.source import LedgerSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def log() -> Scribe:
    log = story(2, roles=5, steps=100)
    for payload in (
        b"",
        b"\xff\xfe",
        b'{"v":1,"k":"beat"}',
        b'{"v":9,"k":"new","g":"g","m":"x","n":7,"b":1,"s":2,"more":[1]}',
    ):
        log.raw(payload)
    return log


@pytest.fixture(scope="module")
def url(log: Scribe, tmp_path_factory: pytest.TempPathFactory) -> str:
    return log.save(tmp_path_factory.mktemp("source") / "work.db")


@pytest.fixture
def read(spark: SparkSession, url: str) -> Any:
    spark.dataSource.register(LedgerSource)

    def load(**options: Any) -> DataFrame:
        reader = spark.read.format("pares")
        for key, value in {"url": url, **options}.items():
            reader = reader.option(key, str(value))
        return reader.load()

    return load


def test_rows_are_the_entries_in_one_partition_in_order(read: Any, log: Scribe) -> None:
    frame = read()
    assert frame.rdd.getNumPartitions() == 1
    rows = frame.toArrow().to_pylist()
    assert [(row["offset"], row["timestamp_ms"], row["payload"]) for row in rows] == log.entries
    assert {row["partition"] for row in rows} == {0}


def test_the_envelope_is_decoded_where_there_is_one(read: Any, log: Scribe) -> None:
    rows = read().toArrow().to_pylist()
    assert [row["k"] for row in rows[:3]] == ["genesis", "join", "role"]
    assert [row["k"] for row in rows[-4:]] == [None, None, None, "new"]
    assert [rows[-1][name] for name in "vkgmnbs"] == [9, "new", "g", "x", 7, 1, 2]
    assert read(envelope="false").columns == ["offset", "partition", "timestamp_ms", "payload"]


def test_ranges_split_and_bound(read: Any, log: Scribe) -> None:
    frame = read(splits=3)
    assert frame.rdd.getNumPartitions() == 3
    assert sorted(row["offset"] for row in frame.select("offset").collect()) == [offset for offset, _, _ in log.entries]
    part = read(start=10, end=20).select("offset").collect()
    assert [row["offset"] for row in part] == list(range(10, 20))
    assert read(start=10**6).count() == 0


def test_all_partitions_each_in_its_order(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/p.db?partitions=3"
    with closing(open_ledger(url)) as ledger:
        for partition in (0, 2):
            ledger.append_many([b"%d" % i for i in range(4)], partition)
    spark.dataSource.register(LedgerSource)
    plain = url.partition("?")[0]
    rows = spark.read.format("pares").option("partition", "all").load(plain).toArrow().to_pylist()
    assert sorted((row["partition"], row["offset"], row["payload"]) for row in rows) == [
        (p, i, b"%d" % i) for p in (0, 2) for i in range(4)
    ]
    assert spark.read.format("pares").load(f"{plain}?partition=2").count() == 4
    assert spark.read.format("pares").load(f"{plain}?partition=1").count() == 0


def test_a_topic_of_the_ledger(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/t.db"
    with closing(open_ledger(url)) as ledger:
        topic = ledger.topic("or ders", partitions=2)
        topic.append_many([b"a", b"b"], 1)
        name = topic.url
    spark.dataSource.register(LedgerSource)
    rows = spark.read.format("pares").option("partition", "1").load(name).toArrow().to_pylist()
    assert [row["payload"] for row in rows] == [b"a", b"b"]


def test_reading_leaves_the_ledger_as_it_is(read: Any, url: str) -> None:
    path = Path(url.removeprefix("sqlite:///"))
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    assert read().count() > 0
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": ""}, "needs the ledger's URL"),
        ({"url": "memory://x"}, "inside one process"),
        ({"url": "sqlite:////nowhere/at/all.db"}, "not there"),
        ({"start": "-1"}, "no offset or number"),
        ({"partition": "7"}, "no partition 7"),
    ],
)
def test_what_can_not_be_read_says_why(read: Any, options: dict[str, str], said: str) -> None:
    with pytest.raises(Exception, match=said):
        read(**options).count()
