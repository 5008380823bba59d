"""Positions beside the writes: each record is committed once, in whatever order, whatever fails and whoever follows; on SQLite
and PostgreSQL, on connections that begin transactions by themselves and on those that do not."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from positions_tools import ROLE, Broken, Consumer, Once, OnPostgres, OnSqlite, Term, Work, lots

from pares.core.consume.runs import Done, joined
from pares.core.errors import ConfigError, Stale
from pares.core.wire.records import MAX_RUNS
from pares.fence import SqlFence
from pares.fence.positions import Positions
from pares.fence.whole import whole

FORMER = (
    "CREATE TABLE pares_fence_positions (group_name TEXT NOT NULL, role TEXT NOT NULL, position BIGINT NOT NULL, "
    "token BIGINT NOT NULL, PRIMARY KEY (group_name, role))"
)
KINDS = [
    "sqlite",
    "sqlite, each",
    pytest.param("postgres", marks=pytest.mark.brokers),
    pytest.param("postgres, each", marks=pytest.mark.brokers),
]


@pytest.fixture(params=KINDS)
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Work]:
    with contextlib.ExitStack() as stack:
        each = request.param.endswith("each")
        if request.param.startswith("sqlite"):
            yield OnSqlite(tmp_path / "sink.db", stack, each)
        else:
            from postgres_tools import Sink

            yield OnPostgres(Sink(request.getfixturevalue("postgres"), stack), each)


def stands(connection: Any, fence: SqlFence) -> Done:
    found = Positions(fence).done(connection, ROLE)
    connection.rollback()
    return found


def test_a_batch_that_another_one_overtook_is_committed_too(work: Work) -> None:
    connection, fence = work.connect(), SqlFence()
    consumer = Consumer(list(range(6)), 1)
    first, second, third = lots(consumer, 2)
    assert consumer.write(second, connection, fence, work.insert) == [2, 3]
    assert stands(connection, fence) == Done(0, ((2, 4),))
    assert consumer.write(first, connection, fence, work.insert) == [0, 1]
    assert consumer.write(third, connection, fence, work.insert) == [4, 5]
    assert work.written(connection) == [2, 3, 0, 1, 4, 5]
    assert stands(connection, fence) == Done(6)


def test_a_batch_that_failed_is_written_by_the_successor_and_nothing_else(work: Work) -> None:
    connection, fence = work.connect(), SqlFence()
    one = Consumer(list(range(6)), 1)
    first, *others = lots(one, 2)
    with pytest.raises(Broken), one.transaction(first, connection, fence) as records:  # noqa: PT012
        connection.execute(work.insert, (records[0].offset,))
        raise Broken
    for lot in others:
        one.write(lot, connection, fence, work.insert)
    two = Consumer(one.offsets, 2)  # the log has heard of nothing
    (lot,) = lots(two, 10)
    assert two.write(lot, connection, fence, work.insert) == [0, 1]
    assert sorted(work.written(connection)) == one.offsets
    with pytest.raises(Stale):
        one.write(first, connection, fence, work.insert)


def test_holes_and_what_is_others_keep_no_run(work: Work) -> None:
    connection, fence = work.connect(), SqlFence()
    offsets = [at for at in range(3 * MAX_RUNS) if at % 3 == 1]
    consumer = Consumer(offsets, 1)
    for at, lot in enumerate(lots(consumer, 1)):
        consumer.write(lot, connection, fence, work.insert)
        if at % 7 == 0:
            consumer.progress.skip(offsets[at] + 2)  # as a slot of ranges does, or retention
        if at in (0, 40):
            assert stands(connection, fence) == Done(offsets[at] + 1)
        if at == 40:
            break
    later = Consumer(offsets, 2, position=900)  # a rewind ahead
    lot = later.take(2)
    assert lot is not None
    assert later.write(lot, connection, fence, work.insert) == [901, 904]
    assert stands(connection, fence) == Done(905)


def test_too_many_runs_are_refused_by_an_error_that_says_what_to_do(work: Work) -> None:
    connection, fence = work.connect(), SqlFence()
    consumer = Consumer(list(range(2 * MAX_RUNS + 4)), 1)
    several = list(lots(consumer, 1))
    runs = joined((at, at + 1) for at in range(1, 2 * MAX_RUNS, 2))  # as so many transactions would leave
    with whole(connection, Positions(fence).kept):
        Positions(fence).commit(connection, consumer.term, Done(0, tuple(runs)), Done(0, tuple(runs)))
    with pytest.raises(ConfigError, match=r"commit the batch with offset 0 first.*nothing of this batch"):
        consumer.write(several[2 * MAX_RUNS + 1], connection, fence, work.insert)
    assert work.written(connection) == []
    consumer.write(several[0], connection, fence, work.insert)
    consumer.write(several[2 * MAX_RUNS + 1], connection, fence, work.insert)
    assert work.written(connection) == [0, 2 * MAX_RUNS + 1]


def test_a_table_of_one_number_is_read_on_and_forgotten(work: Work) -> None:
    connection, fence = work.connect(), SqlFence()
    connection.execute(FORMER)
    connection.execute(f"INSERT INTO pares_fence_positions VALUES ('', '{ROLE}', 2, 1)")
    if not work.each:
        connection.commit()
    consumer = Consumer(list(range(5)), 2)
    first, second = lots(consumer, 3)
    assert consumer.write(second, connection, fence, work.insert) == [3, 4]
    assert stands(connection, fence) == Done(2, ((3, 5),))
    assert consumer.write(first, connection, fence, work.insert) == [2]
    with whole(connection, Positions(fence).kept):
        Positions(fence).forget(connection, Term(ROLE, 0, 3))
    assert stands(connection, fence) == Done()
    again = Consumer(list(range(5)), 3)
    assert again.write(next(lots(again, 9)), connection, fence, work.insert) == [0, 1, 2, 3, 4]


def test_before_anything_was_committed_there_is_nothing_to_forget(work: Work) -> None:
    connection, fence = work.connect(), SqlFence()
    with whole(connection, Positions(fence).kept):
        Positions(fence).forget(connection, Term(ROLE, 0, 1))
    assert Positions(fence).seen(connection, ROLE) == 0
    assert not Positions(fence).done(connection, ROLE).has(0)


@pytest.mark.parametrize("passed", [True, False], ids=["has passed", "has never passed"])
def test_a_term_from_before_a_rewind_writes_nothing_after_forget(work: Work, passed: bool) -> None:
    """Its commit would say of all that its consumer has done that it is done, and the successor would leave that out."""
    connection, fence = work.connect(), SqlFence()
    one = Consumer(list(range(6)), 7)
    first, second, third = lots(one, 2)
    if passed:
        one.write(first, connection, fence, work.insert)
    else:
        one.progress.done(first.span)  # without a transaction, and so was what went before
    one.progress.done(second.span)
    with whole(connection, Positions(fence).kept):  # the seat is free, and its position in the log is 0 again
        Positions(fence).forget(connection, Term(ROLE, 0, 8))
    with pytest.raises(Stale):
        one.write(third, connection, fence, work.insert)
    two = Consumer(one.offsets, 9)
    written = [two.write(lot, connection, fence, work.insert) for lot in lots(two, 3)]
    assert written == [[0, 1, 2], [3, 4, 5]]


def test_forget_comes_too_late_when_the_next_term_has_written(work: Work) -> None:
    connection, fence = work.connect(), SqlFence()
    one, two = Consumer(list(range(4)), 7), Consumer(list(range(4)), 9)
    one.write(next(lots(one, 2)), connection, fence, work.insert)
    assert two.write(next(lots(two, 4)), connection, fence, work.insert) == [2, 3]
    for token in (8, 9):  # 9: as an administrator says who has seen that term begin
        with pytest.raises(Stale), whole(connection, Positions(fence).kept):
            Positions(fence).forget(connection, Term(ROLE, 0, token))
    assert stands(connection, fence) == Done(4)
    for _ in range(2):  # after the second rewind, twice is as good as once
        with whole(connection, Positions(fence).kept):
            Positions(fence).forget(connection, Term(ROLE, 0, 10))
    assert stands(connection, fence) == Done()


def test_what_can_not_be_committed_is_not_done_and_the_connection_is_free(work: Work) -> None:
    connection, other, fence = work.connect(), work.connect(), SqlFence()
    consumer = Consumer([0, 1], 5)
    lot = next(lots(consumer, 2))
    with pytest.raises((sqlite3.Error, *work.errors)), consumer.transaction(lot, connection, fence):
        connection.execute("INSERT INTO nowhere VALUES (1)")
    older = Consumer([0, 1], 4)
    fencing = Consumer([], 5)
    with fencing.transaction(type(lot)([], lot.span), other, fence):
        pass
    with pytest.raises(Stale), older.transaction(next(lots(older, 2)), connection, fence):
        raise AssertionError("a zombie got in")
    assert work.written(other) == []


@pytest.mark.parametrize("inner", ["the same batch", "the next batch", "another connection", "another partition"])
def test_a_transaction_inside_another_one_is_refused_and_that_one_goes_on(work: Work, inner: str) -> None:
    connection, fence = work.connect(), SqlFence()
    consumer = Consumer(list(range(4)), 1)
    first, second = lots(consumer, 2)
    other = Consumer([0, 1], 1)
    other.term = Term("bills@12345678/0", 0, 1)
    with consumer.transaction(first, connection, fence) as records:
        for record in records:
            connection.execute(work.insert, (record.offset,))
        where = work.connect() if inner == "another connection" else connection
        who, lot = {
            "the same batch": (consumer, first),
            "another partition": (other, next(lots(other, 2))),
        }.get(inner, (consumer, second))
        with (
            pytest.raises(ConfigError, match=rf"batch of {ROLE} is open.*end that block"),
            who.transaction(lot, where, fence),
        ):
            raise AssertionError("it got in")
        reader = work.connect()
        assert work.written(reader) == []
    consumer.progress.done(first.span)
    assert consumer.write(second, connection, fence, work.insert) == [2, 3]
    assert work.written(connection) == [0, 1, 2, 3]
    assert stands(connection, fence) == Done(4)


def test_a_connection_that_another_thread_writes_a_batch_on_is_refused(work: Work) -> None:
    connection, fence = work.connect(), SqlFence()
    consumer = Consumer(list(range(4)), 1)
    first, second = lots(consumer, 2)
    with consumer.transaction(first, connection, fence), ThreadPoolExecutor(1) as pool:
        writing = pool.submit(consumer.write, second, connection, fence, work.insert)
        with pytest.raises(ConfigError, match="a connection for each thread"):
            writing.result(60)


def test_consumers_of_a_partition_that_write_at_once_write_each_record_once(work: Work) -> None:
    """As of one term on several threads, or of a zombie and its successor, in processes of their own."""
    fence, offsets = SqlFence(), list(range(60))
    consumers = [Consumer(offsets, 1), Consumer(offsets, 1)]
    lots_of = [list(lots(consumer, 3)) for consumer in consumers]
    lots_of[1].reverse()

    def writes(which: int) -> None:
        connection = work.connect()
        for lot in lots_of[which]:
            consumers[which].write(lot, connection, fence, work.insert)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(writes, which) for which in (0, 1)]:
            done.result(120)
    connection = work.connect()
    assert sorted(work.written(connection)) == offsets
    assert stands(connection, fence) == Done(60)


def test_whatever_happens_each_record_is_committed_once(work: Work) -> None:
    class Here(Once):
        INSERT = work.insert

        def connect(self) -> Any:
            connection = work.connect()
            for table in ("pares_fence", "pares_fence_done"):
                connection.execute(f"DROP TABLE IF EXISTS {table}")
            connection.execute("DELETE FROM work")
            if not work.each:
                connection.commit()
            return connection

    few = not isinstance(work, OnSqlite)
    run_state_machine_as_test(
        Here, settings=settings(max_examples=20 if few else 60, stateful_step_count=30, deadline=None)
    )
