"""A guarded query in one process: what it does when leadership comes and goes, and when something fails."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pares.core.errors import ConfigError, Stale
from pares.spark.driving import guard as guarding
from pares.spark.driving.guard import guard
from pares.spark.sinks.base import Seat, Staged
from pares.spark.sinks.extents import Extent, NotContiguous
from pares.spark.sinks.sqlite import SqliteSink
from pares.testing import FakeMember

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    """Does something when it has staged, and before it publishes."""

    then: Callable[[], object] = staticmethod(lambda: None)
    before: Callable[[Staged], None] = staticmethod(lambda staged: None)

    def stage(self, df: DataFrame, held: Seat, extent: Extent) -> Staged:
        staged = super().stage(df, held, extent)
        self.then()
        return staged

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


def test_a_term_that_ended_while_a_batch_was_staged_publishes_nothing_though_nobody_has_followed(
    place: Place, sink: Watched
) -> None:
    place.add("a")
    published = list[int]()
    sink.before = lambda staged: published.append(staged.held.token)
    with FakeMember(roles=["r"]) as me:
        first = me.lead("r")
        sink.then = lambda: None if second else me.fence("r")
        second = list[int]()
        with guard(me, "r") as guarded:
            guarded.start(place.now, sink)
            assert first.wait_lost(PATIENCE)
            assert place.seen() == []
            second.append(1)
            term = me.lead("r")
        assert published == [term.token]
    assert place.seen() == ["a"]


@pytest.mark.parametrize("of_the_source", [False, True])
def test_an_entry_that_an_earlier_driver_has_left_in_the_checkpoint_is_gone_on_with(
    place: Place, sink: Watched, of_the_source: bool
) -> None:
    """As of one that woke up between two batches: with the files that the source has listed for it, or before that."""
    place.add("a")
    checkpoint, published = place.folder / "checkpoint", threading.Semaphore(0)

    def before(staged: Staged) -> None:
        published.release()
        if "b" in place.lines:
            return
        place.add("b")
        entry = (checkpoint / "offsets" / "0").read_text()
        (checkpoint / "offsets" / "1").write_text(entry.replace('{"logOffset":0}', '{"logOffset":1}'))
        assert entry != (checkpoint / "offsets" / "1").read_text()
        if of_the_source:
            listed = (checkpoint / "sources" / "0" / "0").read_text()
            other = listed.replace("/1.txt", "/2.txt").replace('"batchId":0', '"batchId":1')
            assert other != listed
            (checkpoint / "sources" / "0" / "1").write_text(other)

    sink.before = before
    with FakeMember(roles=["r"]) as me:
        me.lead("r")
        with guard(me, "r") as guarded:
            guarded.start(place.query, sink)
            for _ in range(2):
                assert published.acquire(timeout=PATIENCE)
            guarded.stop()
    assert place.seen() == ["a", "b"]


def test_a_query_that_is_stopped_in_the_middle_of_a_batch_has_not_failed(place: Place, sink: Watched) -> None:
    place.add("a")
    staged = threading.Event()
    with FakeMember(roles=["r"]) as me:
        me.lead("r")
        with guard(me, "r") as guarded:

            def hang(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                time.sleep(600)
                yield from batches

            def then() -> None:
                staged.set()
                guarded.stop()
                place.spark.range(1).mapInArrow(hang, "id bigint").collect()
                raise AssertionError("the stop cancels this")

            sink.then = then
            guarded.start(place.query, sink)
            assert staged.wait(PATIENCE)
    assert place.seen() == []


def test_a_sink_that_has_seen_a_higher_token_of_a_term_that_goes_on_is_told_of(
    place: Place, sink: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarding, "DOUBT", 0.2)
    with FakeMember(roles=["r"]) as me:
        term = me.lead("r")
        sink.open(Seat("r", 0, term.token + 1))  # another group, under the same role
        with pytest.raises(Stale), guard(me, "r") as guarded:
            guarded.start(place.now, sink)


def test_what_is_no_query_is_refused(place: Place, sink: Watched) -> None:
    wrong: Any = place.seen
    with FakeMember(roles=["r"]) as me:
        me.lead("r")
        with pytest.raises(ConfigError, match="make_query returned"), guard(me, "r") as guarded:
            guarded.start(wrong, sink)
