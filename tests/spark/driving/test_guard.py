"""A guarded query in one process: what it does when leadership comes and goes, and when something fails."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pares.core.errors import ConfigError
from pares.spark.driving.guard import guard
from pares.spark.sinks.base import Seat, Staged
from pares.spark.sinks.extents import NotContiguous
from pares.spark.sinks.sqlite import SqliteSink
from pares.testing import FakeMember

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
PATIENCE = 120.0


class Place:
    """A source of text files, a checkpoint, and a table to publish to."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        (folder / "source").mkdir()
        self.file = folder / "sink.db"
        with contextlib.closing(sqlite3.connect(self.file)) as connection:
            connection.execute("CREATE TABLE lines (line TEXT)")
        self.lines: list[str] = []

    def add(self, *lines: str) -> None:
        self.lines += lines
        (self.folder / "source" / f"{len(self.lines)}.txt").write_text("".join(f"{line}\n" for line in lines))

    def query(self) -> Any:
        lines = self.spark.readStream.format("text").load(str(self.folder / "source"))
        return lines.selectExpr("value AS line").writeStream.option(
            "checkpointLocation", str(self.folder / "checkpoint")
        )

    def now(self) -> Any:
        """One that ends by itself."""
        return self.query().trigger(availableNow=True)

    def seen(self) -> list[str]:
        with contextlib.closing(sqlite3.connect(self.file)) as connection:
            return sorted(row[0] for row in connection.execute("SELECT line FROM lines"))


class Watched(SqliteSink):
    """Does something before it publishes."""

    before: Callable[[Staged], None] = staticmethod(lambda staged: None)

    def publish(self, staged: Staged) -> bool:
        self.before(staged)
        return super().publish(staged)


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    return Place(spark, tmp_path)


@pytest.fixture
def sink(place: Place) -> Watched:
    return Watched(place.file, "lines")


def test_each_row_comes_once_over_restarts_terms_and_a_publish_that_spark_did_not_hear_of(
    place: Place, sink: Watched
) -> None:
    place.add("a", "b")
    with FakeMember(roles=["r"]) as me:
        me.lead("r")
        with guard(me, "r") as guarded:
            guarded.start(place.now, sink)
        assert place.seen() == ["a", "b"]
        me.fence("r")
        me.lead("r")
        place.add("c")
        with guard(me, "r") as guarded:
            guarded.start(place.now, sink)
        assert place.seen() == ["a", "b", "c"]
        (place.folder / "checkpoint" / "commits" / "1").unlink()  # as when the driver dies before Spark has noted it
        (place.folder / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
        with guard(me, "r") as guarded:
            guarded.start(place.now, sink)
        assert place.seen() == ["a", "b", "c"]

        shutil.rmtree(place.folder / "checkpoint")
        with pytest.raises(NotContiguous, match="begins anew"), guard(me, "r") as guarded:
            guarded.start(place.now, sink)
        assert place.seen() == ["a", "b", "c"]
    assert [one.rows for one in sink.published(Seat("r", 0, 0))] == [2, 1]


def test_a_term_that_ends_in_the_middle_of_a_batch_publishes_nothing_and_the_next_one_does(
    place: Place, sink: Watched
) -> None:
    place.add("a", "b")
    tokens, staged = list[int](), threading.Event()
    with FakeMember(roles=["r"]) as me:
        first = me.lead("r")

        def before(batch: Staged) -> None:
            tokens.append(batch.held.token)
            if len(tokens) == 1:
                staged.set()
                assert first.wait_lost(PATIENCE)
                sink.open(Seat("r", 0, first.token + 1))  # the next leader's first act, here or elsewhere

        sink.before = before
        with guard(me, "r") as guarded:
            guarded.start(place.now, sink)
            assert staged.wait(PATIENCE)
            assert place.seen() == []
            me.fence("r")
            second = me.lead("r")
            assert second.token > first.token
        assert tokens == [first.token, second.token]
        assert place.seen() == ["a", "b"]


def test_a_query_stops_with_its_term_and_goes_on_with_the_next(place: Place, sink: Watched) -> None:
    place.add("a")
    published, threads = threading.Semaphore(0), threading.active_count()
    sink.before = lambda staged: published.release()
    with FakeMember(roles=["r"]) as me:
        me.lead("r")
        with guard(me, "r") as guarded:
            guarded.start(place.query, sink)
            assert published.acquire(timeout=PATIENCE)
            (query,) = place.spark.streams.active
            me.revoke("r")
            query.awaitTermination(int(PATIENCE))
            assert not query.isActive
            place.add("b")
            me.lead("r")
            assert published.acquire(timeout=PATIENCE)
            guarded.stop()
            assert guarded.wait(PATIENCE)
        assert place.spark.streams.active == []
    assert place.seen() == ["a", "b"]
    assert threading.active_count() <= threads + 2


def test_what_a_query_fails_by_is_raised_as_it_is(place: Place, sink: Watched) -> None:
    class Mine(Exception):
        pass

    def fails(staged: Staged) -> None:
        raise Mine("no")

    place.add("a")
    sink.before = fails
    with FakeMember(roles=["r"]) as me:
        me.lead("r")
        with pytest.raises(Mine, match="no"), guard(me, "r") as guarded:
            guarded.start(place.query, sink)
        assert place.spark.streams.active == []
    assert place.seen() == []


def test_a_guard_that_waits_to_lead_ends_with_its_body_and_with_its_member(place: Place, sink: Watched) -> None:
    with FakeMember(roles=["r"]) as me:
        with contextlib.suppress(KeyError), guard(me, "r") as guarded:
            guarded.start(place.query, sink)
            assert not guarded.wait(0.2)
            raise KeyError
        with pytest.raises(ConfigError, match="is over"):
            guarded.start(place.query, sink)
        with guard(me, "r") as guarded:
            guarded.start(place.query, sink)
            me.close()
    with pytest.raises(ConfigError, match="grace"):
        guard(me, "r", grace=0)
