"""Claimed work: ranges of topics as DataFrames, published once, whoever dies."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import pares
from pares.core.errors import ConfigError, LeadershipLost, ParesError, Stale
from pares.ledger import open as open_ledger
from pares.spark.driving.once import check_once, once
from pares.spark.driving.ranges import RangedSource
from pares.spark.driving.work import Claimed, work
from pares.spark.sinks.base import Seat, deliver
from pares.spark.sinks.extents import OffsetExtent
from pares.spark.sinks.sqlite import SqliteSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
RECORDS = 23
SESSION = 20.0
"""Seconds: nothing here waits for the end of one."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A ledger with the topic `orders`, of one partition, with RECORDS records."""
    url = f"sqlite:///{tmp_path}/work.db"
    with contextlib.closing(open_ledger(url)) as ledger:
        ledger.topic("orders", partitions=1).append_many([b"%d" % number for number in range(RECORDS)])
    return url


@pytest.fixture
def sink(tmp_path: Path) -> SqliteSink:
    file = tmp_path / "sink.db"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE orders (number INTEGER, token INTEGER)")
    return SqliteSink(file, "orders")


def numbers(sink: SqliteSink) -> list[int]:
    with contextlib.closing(sqlite3.connect(sink.file)) as connection:
        return [row[0] for row in connection.execute("SELECT number FROM orders ORDER BY number")]


def parsed(df: DataFrame) -> DataFrame:
    return df.selectExpr("CAST(CAST(payload AS string) AS bigint) AS number", "0L AS token")


@contextlib.contextmanager
def consumer(url: str, *, rows: int | None = None, **settings: Any) -> Iterator[pares.Consumer]:
    """By the topic's name, or with `rows` by ranges that executors read."""
    with contextlib.ExitStack() as stack:
        topics: list[Any] = ["orders"]
        if rows is not None:
            topics = [stack.enter_context(contextlib.closing(RangedSource(url, "orders", rows=rows)))]
        yield stack.enter_context(pares.Consumer(url, group="g", topics=topics, session=SESSION, **settings))


def taken(claims: Iterator[Claimed], upto: int) -> Iterator[Claimed]:
    """Until the range that ends there, which is the last one."""
    for claimed in claims:
        yield claimed
        if claimed.last + 1 == upto:
            return


@pytest.mark.parametrize("rows", [None, 10])
def test_ranges_come_in_order_with_exact_offsets_and_are_published_once(
    spark: SparkSession, url: str, sink: SqliteSink, rows: int | None
) -> None:
    with consumer(url, rows=rows, batch=10) as me:
        seen = list[tuple[int, int]]()
        for claimed in taken(work(me, spark=spark, tasks=3), RECORDS):
            topic, partition, first, last, token, df = claimed
            assert (topic, partition) == ("orders", 0)
            assert token == claimed.token >= 0
            offsets = [row["offset"] for row in df.select("offset").collect()]
            assert sorted(offsets) == list(range(first, last + 1)), "exactly these, however often they are read"
            assert claimed.publish(sink, parsed)
            assert not claimed.publish(sink, parsed), "again: nothing"
            seen.append((first, last))
        assert seen == [(0, 9), (10, 19), (20, 22)]
        me.flush()
        assert [claim.position for claim in me.claims()] == [RECORDS]
    assert numbers(sink) == list(range(RECORDS))


def test_what_was_published_and_not_noted_is_cut_off_when_it_is_given_out_again(
    spark: SparkSession, url: str, sink: SqliteSink
) -> None:
    with consumer(url, rows=7) as me:
        claimed = next(work(me, spark=spark))
        held = Seat(claimed.term.role, 0, claimed.token)
        sink.open(held)
        assert deliver(sink, parsed(claimed.df), held, OffsetExtent(0, 7))  # and it dies before it is done
    with consumer(url, rows=10) as me:
        for again in taken(work(me, spark=spark), RECORDS):
            assert again.publish(sink, parsed)
        with pytest.raises((Stale, LeadershipLost)):
            claimed.publish(sink, parsed)
    assert numbers(sink) == list(range(RECORDS))


def test_a_staged_range_of_an_earlier_term_is_refused(spark: SparkSession, url: str, sink: SqliteSink) -> None:
    with consumer(url, rows=30) as me:
        old = next(work(me, spark=spark))
        held, extent = Seat(old.term.role, 0, old.token), OffsetExtent(0, RECORDS)
        sink.open(held)
        staged = sink.stage(parsed(old.df), held, extent)
    with consumer(url, rows=30) as me:
        new = next(work(me, spark=spark))
        assert new.token > old.token
        assert new.publish(sink, parsed)
        with pytest.raises(Stale):
            sink.publish(staged)
    assert numbers(sink) == list(range(RECORDS))


def test_a_later_range_waits_for_an_earlier_one(spark: SparkSession, url: str, sink: SqliteSink) -> None:
    with consumer(url, rows=10) as me:
        claims = work(me, spark=spark)
        first, second = next(claims), next(claims)
        with pytest.raises(ConfigError, match="in their order"):
            second.publish(sink, parsed)
        with pytest.raises(ConfigError, match="in their order"):
            second.done()
        assert first.publish(sink, parsed)
        assert second.publish(sink, parsed)
    assert numbers(sink) == list(range(20))


def test_a_worker_that_dies_leaves_nothing_that_is_seen(
    spark: SparkSession, url: str, sink: SqliteSink, tmp_path: Path
) -> None:
    died = str(tmp_path / "died")

    def fatal(df: DataFrame) -> DataFrame:
        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number, batch in enumerate(batches):
                yield batch
                if number == 0 and not os.path.exists(died):
                    open(died, "w").close()
                    os.kill(os.getpid(), signal.SIGKILL)

        return parsed(df).mapInArrow(run, "number bigint, token bigint")

    with consumer(url, rows=30) as me:
        claimed = next(work(me, spark=spark))
        with pytest.raises(Exception, match=r"crashed|exited"):
            claimed.publish(sink, fatal)
        assert numbers(sink) == []
        assert claimed.publish(sink, fatal)
    assert numbers(sink) == list(range(RECORDS))


def test_at_most_once_is_taken_before_it_is_seen(spark: SparkSession, url: str, sink: SqliteSink) -> None:
    with consumer(url, rows=10, delivery="at-most-once") as me:
        claimed = next(work(me, spark=spark))
        assert claimed[2:4] == (0, 9)  # and nothing is done with it
    with consumer(url, rows=10, delivery="at-most-once") as me:
        for claimed in taken(work(me, spark=spark), RECORDS):
            assert claimed.publish(sink, parsed)
    assert numbers(sink) == list(range(10, RECORDS)), "the first range was taken, and is nobody's any more"


def test_at_most_once_a_range_whose_turn_has_passed_is_refused_and_not_taken_for_published(
    spark: SparkSession, url: str, sink: SqliteSink
) -> None:
    with consumer(url, rows=10, delivery="at-most-once") as me:
        claims = work(me, spark=spark)
        first, second = next(claims), next(claims)
        assert second.publish(sink, parsed)
        with pytest.raises(ConfigError, match="in their order"):
            first.publish(sink, parsed)
        assert not second.publish(sink, parsed), "again: nothing"
    assert numbers(sink) == list(range(10, 20))


def test_a_path_that_executors_would_look_for_elsewhere_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="absolute path"):
        RangedSource("sqlite:///work.db", "orders")
    with contextlib.closing(RangedSource(url, "orders")) as source:
        assert source.end(0) == RECORDS


class Attempt:
    def __init__(self, number: int) -> None:
        self.number = number

    def attemptNumber(self) -> int:
        return self.number


def test_a_task_that_is_repeated_sees_no_record_at_most_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import TaskContext

    batches = [pa.RecordBatch.from_pydict({"id": pa.array([1])})]
    for number, said in ((0, contextlib.nullcontext()), (1, pytest.raises(ParesError, match="attempt 1"))):
        monkeypatch.setattr(TaskContext, "get", lambda number=number: Attempt(number))
        with said:
            assert list(once(iter(batches))) == batches


class Conf:
    """A session's settings."""

    def __init__(self, **settings: str) -> None:
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.conf = self

    def get(self, name: str, default: str) -> str:
        return self.settings.get(name, default)


GOOD = {"spark_task_maxFailures": "1", "spark_stage_maxConsecutiveAttempts": "1"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (GOOD, ""),
        ({**GOOD, "spark_task_maxFailures": "4"}, "spark.task.maxFailures=1"),
        ({**GOOD, "spark_speculation": "true"}, "spark.speculation=false"),
        ({**GOOD, "spark_task_maxFailures": "4", "spark_master": "local[2]"}, ""),
        ({**GOOD, "spark_master": "local[2, 3]"}, "spark.task.maxFailures=1 .it is 3"),
        ({**GOOD, "spark_master": "local-cluster[2, 1, 1024]"}, ""),
        ({}, "spark.task.maxFailures=1 .it is 4., spark.stage"),
    ],
)
def test_a_session_that_may_repeat_a_task_is_refused_at_most_once(settings: dict[str, str], said: str) -> None:
    given: Any = Conf(**settings)
    with pytest.raises(ConfigError, match=said) if said else contextlib.nullcontext():
        check_once(given)
