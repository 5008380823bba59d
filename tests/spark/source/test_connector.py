"""Spark's own Kafka connector as the reader: the same rows as by `format("pares")`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from scribe import Scribe, story

from kafka_tools import new_topic, write
from pares.core.errors import ConfigError
from pares.dev import Kafka
from pares.ledger import open as open_ledger
from pares.spark.source.connector import NEEDED, from_kafka
from pares.spark.source.ledger import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
BOTH_WAYS = """
import json, sys
from pyspark.sql import SparkSession
from pares.spark import from_kafka, register
brokers, url, topic, log, connector, folder = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.jars.packages", connector)
spark = spark.config("spark.sql.shuffle.partitions", "2").config("spark.log.level", "ERROR").getOrCreate()
register(spark)
found = {}
for table in ("records", "entries"):
    ours = spark.read.format("pares").option("url", url).option("table", table).load()
    theirs = spark.read.format("kafka").option("kafka.bootstrap.servers", brokers).option("subscribe", topic).load()
    found[table] = [sorted(map(repr, f.toArrow().to_pylist())) for f in (ours, from_kafka(theirs, table=table, log=log))]
stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers).option("subscribe", topic)
rows = from_kafka(stream.option("startingOffsets", "earliest").load(), log=log, groups=["g"])
query = rows.writeStream.format("parquet").option("path", folder + "/rows").option("checkpointLocation", folder + "/at")
query = query.trigger(availableNow=True).start()
assert query.awaitTermination(120)
streamed = sorted(map(repr, spark.read.parquet(folder + "/rows").toArrow().to_pylist()))
wanted = spark.read.format("pares").option("url", url).option("table", "records").option("groups", "g").load()
found["streamed"] = [sorted(map(repr, wanted.toArrow().to_pylist())), streamed]
json.dump(found, open(folder + "/found.json", "w"))
"""


@pytest.fixture(scope="module")
def log() -> Scribe:
    log = story(3, roles=3, steps=40)
    log.raw(b"\xff no record")
    log.raw(b"")
    for _, _, payload in Scribe("other").entries:
        log.raw(payload)
    return log


def as_loaded(spark: SparkSession, log: Scribe) -> DataFrame:
    """What the connector's columns are made of; a record without a value has NULL there."""
    named = spark.createDataFrame(
        [("work", 0, offset, ms, payload or None, None) for offset, ms, payload in log.entries],
        "topic string, partition int, offset bigint, ms bigint, value binary, key binary",
    )
    return named.selectExpr("topic", "partition", "offset", "timestamp_millis(ms) AS timestamp", "value", "key")


@pytest.mark.parametrize(
    "given", [{}, {"table": "entries"}, {"groups": ["other"]}, {"table": "entries", "groups": ["g"]}]
)
def test_rows_are_those_of_the_source(spark: SparkSession, log: Scribe, tmp_path: Path, given: dict[str, Any]) -> None:
    url = log.save(tmp_path / "work.db")
    register(spark)
    ours = spark.read.format("pares").option("url", url).option("table", given.get("table", "records"))
    if "groups" in given:
        ours = ours.option("groups", ",".join(given["groups"]))
    known = ours.load().toArrow()
    ledger = open_ledger(url)
    found = from_kafka(as_loaded(spark, log), log=ledger.identity(), **given).toArrow()
    ledger.close()
    assert found.schema == known.schema
    assert found.num_rows > 1
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, known.to_pylist()))


def test_without_an_identity_the_topic_is_named(spark: SparkSession, log: Scribe) -> None:
    rows = from_kafka(as_loaded(spark, log)).select("log").distinct().toArrow().to_pylist()
    assert rows == [{"log": "kafka:work"}]


@pytest.mark.parametrize("lost", NEEDED)
def test_a_frame_that_is_none_of_the_connectors_is_refused(spark: SparkSession, log: Scribe, lost: str) -> None:
    with pytest.raises(ConfigError, match=rf"no column {lost}: give what format\(\"kafka\"\) loads"):
        from_kafka(as_loaded(spark, log).drop(lost))


def test_facts_are_no_table_of_it(spark: SparkSession, log: Scribe) -> None:
    with pytest.raises(ConfigError, match="records or entries"):
        from_kafka(as_loaded(spark, log), table="facts")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.brokers
def test_on_a_real_kafka_by_the_real_connector(kafka: Kafka, log: Scribe, tmp_path: Path) -> None:
    """In a process of its own: a session takes jars when it starts."""
    topic = new_topic(kafka)
    write(kafka, topic, [payload or None for _, _, payload in log.entries])
    url = f"kafka://{kafka.bootstrap}/{topic}"
    ledger = open_ledger(url, readonly=True)
    told = [kafka.bootstrap, url, topic, ledger.identity(), CONNECTOR, str(tmp_path)]
    ledger.close()
    mine = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    subprocess.run([sys.executable, "-c", BOTH_WAYS, *told], check=True, timeout=400, env=mine)
    found = json.loads((tmp_path / "found.json").read_text())
    for ours, theirs in found.values():
        assert len(ours) > 10
        assert theirs == ours
