"""One worker: a process that books orders from a topic into a database.

    python -m examples.consume.worker NAME LEDGER SINK SESSION fence|plain

With `fence` rows, position and check of the fence are one transaction (`batch.transaction`). With `plain` the rows are
committed first, and the batch is done afterwards, as by habit.
"""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import sys
import time
from typing import Final

import pares
from pares.core.errors import Stale
from pares.fence import SqlFence

GROUP: Final = "booking"
TOPIC: Final = "orders"
BATCH: Final = 20
TRIP: Final = 0.02
"""Seconds that a batch takes."""
SCHEMA: Final = "CREATE TABLE IF NOT EXISTS booked (part INTEGER, place INTEGER, worker TEXT, token INTEGER)"
ROW: Final = "INSERT INTO booked VALUES (?, ?, ?, ?)"


def connected(sink: str) -> sqlite3.Connection:
    """The database, for one of several processes that write to it."""
    connection = sqlite3.connect(sink, timeout=30)
    connection.execute("PRAGMA journal_mode=WAL")
    return connection


def main(name: str, ledger: str, sink: str, session: float, fenced: bool) -> None:
    """Until TERM."""
    database, fence = connected(sink), SqlFence(group=GROUP)
    consumer = pares.Consumer(
        ledger, group=GROUP, topics=TOPIC, name=name, batch=BATCH, session=session, settle=session
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with consumer:
        for batch in consumer.batches():
            time.sleep(TRIP)
            rows = [(batch.partition, record.offset, name, batch.token) for record in batch.records]
            if not fenced:
                with database:
                    database.executemany(ROW, rows)
                time.sleep(TRIP)  # in which many things can happen
                batch.done()
                continue
            with contextlib.suppress(Stale), batch.transaction(database, fence) as new:
                fresh = {record.offset for record in new}
                database.executemany(ROW, [row for row in rows if row[1] in fresh])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5] == "fence")
