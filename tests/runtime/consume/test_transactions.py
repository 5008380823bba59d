"""`Batch.transaction` of consumers: rows, what they are of, and the fence in one transaction, whatever becomes of batches."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from consume_tools import Topic, Worker
from runtime_tools import rewound, until

import pares
from pares.fence import SqlFence
from pares.fence.positions import Positions
from pares.runtime.consume.batch import Batch
from pares.runtime.consume.consumer import Consumer

if TYPE_CHECKING:
    from pares.dev import Postgres

Make = Callable[..., Consumer]


class Broken(Exception):
    """What a body raises."""


class Sink:
    """A table of rows, and the fence beside it. `connect`: another connection to it."""

    def __init__(self, connect: Callable[[], Any], mark: str) -> None:
        self.connect = connect
        self.fence = SqlFence(group="g")
        self.own = connect()
        self.own.execute("CREATE TABLE sums (part INTEGER, at INTEGER)")
        self.own.commit()
        self._insert = f"INSERT INTO sums VALUES ({mark}, {mark})"

    def write(self, batch: Batch, connection: Any, fails: bool = False) -> list[int]:
        with batch.transaction(connection, self.fence) as records:
            for record in records:
                connection.execute(self._insert, (batch.partition, record.offset))
            if fails:
                raise Broken
        return [record.offset for record in records]

    def rows(self) -> list[int]:
        found = [at for (at,) in self.own.execute("SELECT at FROM sums ORDER BY at")]
        self.own.rollback()
        return found


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.brokers)])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sink]:
    with contextlib.ExitStack() as stack:
        if request.param == "sqlite":
            file = tmp_path / "sink.db"

            def connect() -> Any:
                opened = sqlite3.connect(file, timeout=60, check_same_thread=False)
                return stack.enter_context(contextlib.closing(opened))

            yield Sink(connect, "?")
            return
        import psycopg

        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.url
        name = f"sink_{tmp_path.name.replace('-', '_')}".lower()
        with psycopg.connect(url, autocommit=True) as made:
            made.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())
            made.execute(f"CREATE SCHEMA {name}".encode())
        there = f"{url}?options=-csearch_path%3D{name}"
        yield Sink(lambda: stack.enter_context(contextlib.closing(psycopg.connect(there))), "%s")


def several(consumer: Consumer, count: int) -> list[Batch]:
    found = [consumer.next_batch(30) for _ in range(count)]
    assert all(batch is not None for batch in found)
    return [batch for batch in found if batch is not None]


def test_batches_are_committed_out_of_order_and_one_that_failed_by_the_next_consumer(make: Make, sink: Sink) -> None:
    topic = Topic()
    topic.append(*"abcdefgh")
    one = make(topic, batch=2)
    first, second, third, fourth = several(one, 4)
    assert sink.write(second, sink.connect()) == [2, 3]
    assert sink.write(first, sink.connect()) == [0, 1]
    with pytest.raises(Broken):
        sink.write(third, sink.own, fails=True)
    assert sink.write(fourth, sink.own) == [6, 7]
    one.close()
    (again,) = several(make(topic, "b", batch=10), 1)
    assert sink.write(again, sink.own) == [4, 5]
    assert sink.rows() == list(range(8))


def test_a_batch_that_failed_may_be_tried_again_by_the_same_consumer(make: Make, sink: Sink) -> None:
    topic = Topic()
    topic.append(*"abcd")
    consumer = make(topic, batch=2)
    first, second = several(consumer, 2)
    with pytest.raises(Broken):
        sink.write(first, sink.own, fails=True)
    assert sink.write(second, sink.own) == [2, 3]
    assert sink.write(first, sink.own) == [0, 1]
    until(lambda: consumer.lag() == 0, "all is done")
    assert sink.write(first, sink.own) == []


def fails(sink: Sink, batch: Batch) -> None:
    with pytest.raises(Broken):
        sink.write(batch, sink.own, fails=True)


def test_neither_a_handover_nor_close_waits_for_a_batch_that_failed(make: Make, url: str, sink: Sink) -> None:
    topic = Topic(partitions=2)
    topic.append(*"abcd")
    consumer = make(topic, batch=2, barrier_timeout=3600.0)
    for batch in several(consumer, 2):
        fails(sink, batch)
    with pares.Admin(url, group="g") as admin:
        admin.pause(seconds=600)
        until(lambda: consumer.load() == 0, "it has handed all over")
        admin.resume()
    for batch in several(consumer, 2):
        fails(sink, batch)
    closing = threading.Thread(target=consumer.close, daemon=True)
    closing.start()
    closing.join(60)
    assert not closing.is_alive(), "it waits for what nobody works on"
    (again,) = several(make(topic, "b", batch=10), 1)
    assert sink.write(again, sink.own) == [0, 1, 2, 3]


def test_close_waits_for_a_batch_that_is_tried_again(make: Make, sink: Sink) -> None:
    topic = Topic()
    topic.append(*"ab")
    consumer, entered = make(topic, barrier_timeout=60.0), threading.Event()
    (batch,) = several(consumer, 1)
    fails(sink, batch)

    def tries() -> None:
        with batch.transaction(sink.own, sink.fence):
            entered.set()
            until(lambda: consumer.state == "closing", "it waits")
            time.sleep(0.5)  # without a reason to wait it has left by now, and the position with it

    with ThreadPoolExecutor(1) as pool:
        trying = pool.submit(tries)
        assert entered.wait(60)
        consumer.close()
        trying.result(60)
    two = make(topic, "b")
    until(lambda: two.load() == 1, "it has the partition")
    assert two.lag() == 0


@pytest.mark.parametrize("claim", ["partitions", "keys"])
def test_after_a_rewind_all_is_written_again_whatever_a_zombie_does(
    make: Make, url: str, sink: Sink, claim: str
) -> None:
    topic = Topic()
    topic.append(*"abcdef", key=b"k")
    more: dict[str, Any] = {} if claim == "partitions" else {"claim": claim, "slots": 3}
    consumer = make(topic, batch=4, barrier_timeout=0.2, **more)
    (first,) = several(consumer, 1)
    assert sink.write(first, sink.own) == [0, 1, 2, 3]
    (zombie,) = several(consumer, 1)
    with pares.Admin(url, group="g") as admin:
        admin.pause(seconds=600)
        until(lambda: rewound(admin, {("orders", 0): 0}), "nobody holds it")
        sink.own.execute("DELETE FROM sums")
        for seat in admin.rewind({("orders", 0): 0}):
            Positions(sink.fence).forget(sink.own, seat)
        sink.own.commit()
        with pytest.raises(pares.Stale):
            sink.write(zombie, sink.own)
        admin.resume()
    for _ in range(2):
        (again,) = several(consumer, 1)
        sink.write(again, sink.own)
    assert sink.rows() == list(range(6))


@pytest.mark.parametrize("claim", ["partitions", "ranges", "keys"])
def test_consumers_that_die_and_whose_marks_are_lost_leave_each_record_once(make: Make, sink: Sink, claim: str) -> None:
    """The first one commits with holes, fails now and then, and its marks never reach the log."""
    topic, offsets = Topic(), list[int]()
    for number in range(120):
        offsets.append(topic.append(str(number), skip=2 * (number % 9 == 0), key=b"%d" % (number % 7)))
    more: dict[str, Any] = {} if claim == "partitions" else {"claim": claim, "slots": 3}
    one = make(topic, batch=4, barrier_timeout=0.2, **more)
    one._member.note = lambda event: None  # type: ignore[method-assign, assignment]
    connections = [sink.connect(), sink.connect()]
    calls, failed = list[Batch](), list[Batch]()

    def handle(batch: Batch) -> None:
        calls.append(batch)
        if len(calls) in (2, 5, 6):
            failed.append(batch)
            with contextlib.suppress(Broken):
                sink.write(batch, connections[0], fails=True)
            if claim != "keys":  # of a slot of keys one batch is out at a time: it is tried again
                return
        sink.write(batch, connections[0])

    worker = Worker(one, handle=handle, done=False)
    until(lambda: failed and len(sink.rows()) >= 120 - 12, "it has done the others")
    roles = {batch.term.role for batch in failed}
    runs = [Positions(sink.fence).done(sink.own, role).runs for role in roles]
    sink.own.rollback()
    assert all(len(each) <= len(failed) for each in runs), "one run above each batch that failed"
    one.close()
    worker.join()
    two = make(topic, "b", batch=7, **more)
    again = Worker(two, handle=lambda batch: sink.write(batch, connections[1]), done=False)
    until(lambda: len(sink.rows()) >= 120, "the next one does the rest")
    two.close()
    again.join()
    assert (worker.error, again.error) == (None, None)
    assert sink.rows() == offsets
