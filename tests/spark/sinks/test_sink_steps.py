"""A driver is killed or frozen before each of its steps, and another one takes over: the sink has each row once. No Spark
here."""

from __future__ import annotations

import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sink_tools import MAKE, PATIENCE, ROLE, Query, Steps, frame, publish_one_batch_twice

from pares.core.errors import Stale
from pares.spark.sinks.base import Incomplete, Seat, Staged, deliver
from pares.spark.sinks.extents import NotContiguous, OffsetExtent, StreamExtent
from pares.spark.sinks.sqlite import SqliteSink


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, if there is one: no power fails here, and hundreds of files are brought to disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


@pytest.fixture(params=sorted(MAKE))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def how_many_steps(kind: str, folder: Path) -> int:
    steps, query = Steps(), Query()
    sink = MAKE[kind](folder, steps)
    assert query.run(sink, 1) == "done"
    taken = steps.taken
    query.check(sink)
    return taken


def test_a_driver_killed_before_any_step_is_followed_by_one_that_loses_and_doubles_nothing(
    kind: str, place: Path
) -> None:
    points = how_many_steps(kind, place)
    assert points > 20
    for point in range(points):
        folder = place / f"at-{point}"
        folder.mkdir()
        query = Query()
        assert query.run(MAKE[kind](folder, Steps(point)), 1) == "killed"
        sink = MAKE[kind](folder, Steps())
        assert query.run(sink, 2) == "done"
        query.check(sink)


def test_a_driver_frozen_before_any_step_is_refused_when_it_wakes_up(kind: str, place: Path) -> None:
    points, refused = how_many_steps(kind, place), 0
    for point in range(points):
        folder = place / f"at-{point}"
        folder.mkdir()
        query, steps, ends = Query(), Steps(point, freeze=True), list[str]()
        old = MAKE[kind](folder, steps)
        thread = threading.Thread(target=lambda old=old, query=query, ends=ends: ends.append(query.run(old, 1)))
        thread.start()
        assert steps.frozen.wait(PATIENCE)
        sink = MAKE[kind](folder, Steps())
        ended = query.run(sink, 2)
        steps.thaw()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        if ended == "locked":  # the frozen one has the file's lock, and no server ends its transaction
            ended = query.run(sink, 2)
        assert ended == "done"
        assert ends in (["stale"], ["done"])
        refused += ends == ["stale"]
        sink.open(Seat(ROLE, 0, 3))
        query.check(sink)
    assert refused > points // 3


def test_what_an_attempt_left_that_no_task_named_is_not_published(kind: str, place: Path) -> None:
    """As when Spark runs a task twice, and both store their rows."""
    sink: Any = MAKE[kind](place, Steps())
    held, extent = Seat(ROLE, 0, 1), StreamExtent("q", 0, None, "4")
    sink.open(held)
    sink.stage(frame(range(4)), held, extent)
    staged = sink.stage(frame(range(4)), held, extent)
    assert sink.rows() == []
    assert sink.publish(staged)
    assert sink.rows() == [0, 1, 2, 3]
    sink.open(Seat(ROLE, 0, 2))
    assert sink.leftovers() == 0
    assert sink.rows() == [0, 1, 2, 3]


def lose_a_row(sink: Any, staged: Staged) -> None:
    if isinstance(sink, SqliteSink):
        with sqlite3.connect(sink.file) as connection:
            connection.execute("DELETE FROM rows_staging WHERE id = 2")
        connection.close()
    else:
        pq.write_table(pq.read_table(staged.parts[0])[1:], staged.parts[0])


def test_what_was_staged_and_is_gone_is_not_published_as_fewer_rows(kind: str, place: Path) -> None:
    sink = MAKE[kind](place, Steps())
    held = Seat(ROLE, 0, 1)
    sink.open(held)
    staged = sink.stage(frame(range(4)), held, StreamExtent("q", 0, None, "4"))
    lose_a_row(sink, staged)
    with pytest.raises(Incomplete, match="3 rows of the 4"):
        sink.publish(staged)
    assert sink.rows() == []
    assert deliver(sink, frame(range(4)), held, StreamExtent("q", 0, None, "4"))
    assert sink.rows() == [0, 1, 2, 3]


def test_a_term_that_is_over_publishes_nothing_though_its_batch_would_follow(kind: str, place: Path) -> None:
    """The later term has published nothing yet, and the batch has no rows that it could have swept away: what follows what does
    not tell, the token alone does."""
    sink = MAKE[kind](place, Steps())
    old, new, extent = Seat(ROLE, 0, 1), Seat(ROLE, 0, 2), StreamExtent("q", 1, "4", "8")
    sink.open(old)
    assert deliver(sink, frame(range(4)), old, StreamExtent("q", 0, None, "4"))
    staged = sink.stage(frame(range(0)), old, extent)
    sink.open(new)
    with pytest.raises(Stale):
        sink.publish(staged)
    with pytest.raises(Stale):
        sink.forget(old)
    with pytest.raises(Stale):
        sink.open(old)
    assert sink.rows() == [0, 1, 2, 3]
    assert deliver(sink, frame(range(4, 8)), new, extent)
    assert sink.rows() == list(range(8))


def test_a_batch_that_leaves_a_hole_is_refused_with_its_rows(kind: str, place: Path) -> None:
    sink = MAKE[kind](place, Steps())
    held = Seat(ROLE, 0, 1)
    sink.open(held)
    assert deliver(sink, frame(range(4)), held, StreamExtent("q", 0, None, "4"))
    for wrong in (
        StreamExtent("q", 2, "8", "12"),
        StreamExtent("q", 0, None, "5"),
        StreamExtent("another", 0, None, "4"),
        OffsetExtent(4, 8),
    ):
        with pytest.raises(NotContiguous):
            deliver(sink, frame(range(8, 12)), held, wrong)
        with pytest.raises(NotContiguous):
            sink.publish(sink.stage(frame(range(8, 12)), held, wrong))
    assert not deliver(sink, frame(range(4)), held, StreamExtent("q", 0, None, "4")), "again: dropped"
    assert sink.rows() == [0, 1, 2, 3]
    sink.forget(held)
    assert deliver(sink, frame(range(4, 8)), held, StreamExtent("another", 0, None, "4"))
    assert sink.rows() == list(range(8))


def test_two_that_publish_a_batch_of_one_term_at_the_same_time_publish_it_once(place: Path) -> None:
    """As when a query was started twice: the other one publishes before any step of this one's publishing."""
    publish_one_batch_twice(MAKE["parquet"], place, Seat(ROLE, 0, 1), StreamExtent("q", 0, None, "4"), points=50)


def test_a_batch_without_rows_counts(kind: str, place: Path) -> None:
    sink = MAKE[kind](place, Steps())
    held = Seat(ROLE, 0, 1)
    sink.open(held)
    assert deliver(sink, frame(range(0)), held, StreamExtent("q", 0, None, "0"))
    assert deliver(sink, frame(range(4)), held, StreamExtent("q", 1, "0", "4"))
    assert [one.rows for one in sink.published(held)] == [0, 4]


def test_seats_are_apart(kind: str, place: Path) -> None:
    sink = MAKE[kind](place, Steps())
    for seat in (Seat(ROLE, 0, 9), Seat("other", 0, 1)):
        sink.open(seat)
    staged = sink.stage(frame(range(4)), Seat(ROLE, 0, 9), OffsetExtent(0, 4))
    sink.open(Seat("other", 0, 2))
    assert deliver(sink, frame(range(4, 8)), Seat("other", 0, 2), OffsetExtent(0, 4))
    assert sink.publish(staged)
    with pytest.raises(Stale):
        sink.open(Seat(ROLE, 0, 8))
