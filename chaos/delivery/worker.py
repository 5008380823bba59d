"""One worker: a process that works on a topic in one way, and writes down what it was given and what it did.

    python -m chaos.delivery.worker TASK      (JSON: see `plan.Task`)

The effect of a record is a line in its journal; with a fenced sink, a row in a database.
"""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

import pares
from chaos.delivery.journal import Journal
from chaos.delivery.plan import AHEAD, DIVIDED, GROUP, PLAIN, SCHEMA, SLOTS, Task, delivery
from pares.core.errors import LedgerUnavailable, Stale
from pares.fence import SqlFence

if TYPE_CHECKING:
    from pares.runtime.consume.batch import Batch

FLUSHES: Final = 5
"""A flush comes behind so many batches: what was done before may not come again."""
PAUSE: Final = 0.5
"""Seconds between two attempts to begin."""
ROW: Final = "INSERT INTO booked VALUES (?, ?, ?, ?)"


def connected(sink: str) -> sqlite3.Connection:
    """The database, for one of several processes that write to it."""
    connection = sqlite3.connect(sink, timeout=60)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    with connection:
        connection.execute(SCHEMA)
    return connection


def begun(make: Callable[[], pares.Consumer]) -> pares.Consumer:
    """As soon as brokers answer."""
    while True:
        try:
            return make()
        except LedgerUnavailable:
            time.sleep(PAUSE)


class Worker:
    """Of a pares group."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.journal = Journal(Path(task.journal))
        self.consumer = begun(
            lambda: pares.Consumer(
                task.ledger,
                group=GROUP,
                topics=task.topic,
                source=task.source or None,
                name=task.name,
                batch=task.batch,
                ahead=AHEAD.get(task.way, 0),
                delivery=delivery(task.way, task.mutant),
                claim=DIVIDED.get(task.way, "partitions"),
                slots=SLOTS,
                session=task.session,
                settle=task.session / 2,
            )
        )
        self.database = connected(task.sink) if task.way == "fenced" else None
        self.fence = SqlFence(group=GROUP)

    def run(self) -> None:
        with self.consumer:
            for number, batch in enumerate(self.consumer.batches(), 1):
                self.journal.given(batch.partition, batch.token, [record.offset for record in batch.records])
                if self.database is None:
                    self.work(batch)
                elif self.task.mutant == "ignores-fence":
                    self.book(batch, self.database)
                else:
                    self.book_behind_the_fence(batch, self.database)
                if number % FLUSHES == 0 and self.flushed() and batch:
                    self.journal.kept(batch.partition, batch.token)

    def flushed(self) -> bool:
        """With the ledger out of reach there is nothing to do but to go on."""
        try:
            self.consumer.flush()
        except LedgerUnavailable:
            return False
        return True

    def work(self, batch: Batch) -> None:
        if self.task.mutant == "marks-first":
            batch.done()
            self.flushed()
        for record in batch.records:
            time.sleep(self.task.trip / len(batch))
            self.journal.did(batch.partition, batch.token, record.offset)
        if batch.done():
            self.journal.said(batch.partition, batch.token, [record.offset for record in batch.records])

    def book_behind_the_fence(self, batch: Batch, database: sqlite3.Connection) -> None:
        time.sleep(self.task.trip)
        with contextlib.suppress(Stale), batch.transaction(database, self.fence) as new:
            database.executemany(ROW, self.rows(batch, [record.offset for record in new]))

    def book(self, batch: Batch, database: sqlite3.Connection) -> None:
        """All its time passes between what it writes and what it says: a kill finds it there, and not one in two of them."""
        with database:
            database.executemany(ROW, self.rows(batch, [record.offset for record in batch.records]))
        time.sleep(2 * self.task.trip)
        batch.done()

    def rows(self, batch: Batch, offsets: list[int]) -> list[tuple[int, int, str, int]]:
        return [(batch.partition, offset, self.task.name, batch.token) for offset in offsets]


def plain(task: Task) -> None:
    """A consumer of Kafka's own groups, at least once as by habit: it does what it was given, then commits, and waits for that.

    A commit that is refused, and a rebalance, are left to the client: it goes on with what it is given.
    """
    from confluent_kafka import Consumer, KafkaException

    journal = Journal(Path(task.journal))
    consumer: Any = Consumer(
        {
            "bootstrap.servers": task.source,
            "group.id": GROUP,
            "client.id": task.name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": round(task.session * 1000),
            "heartbeat.interval.ms": round(task.session * 250),
            "log_level": 0,
            "error_cb": lambda error: None,
        }
    )
    consumer.subscribe([task.topic])
    try:
        while True:
            found = [each for each in consumer.consume(task.batch, 0.1) if each.error() is None]
            for number in sorted({message.partition() for message in found}):
                journal.given(number, 0, [message.offset() for message in found if message.partition() == number])
            for message in found:
                time.sleep(task.trip / task.batch)
                journal.did(message.partition(), 0, message.offset())
            if found:
                with contextlib.suppress(KafkaException):
                    consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def main() -> None:
    task = msgspec.json.decode(sys.argv[1], type=Task)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if task.way == PLAIN:
        plain(task)
    else:
        Worker(task).run()


if __name__ == "__main__":
    main()
