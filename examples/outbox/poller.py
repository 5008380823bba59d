"""One poller: a process that carries events from the outbox to the topic, wherever it is its turn.

    python -m examples.outbox.poller KIND NAME ORDERS TOPIC SHARDS LEDGER SESSION

It writes a line to its standard output for each write that was refused.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import psycopg

from examples.outbox.shop import Connection
from pares.fence import Stale

BATCH: Final = 20
TRIP: Final = 0.02
"""Seconds that a batch is on its way: what a broker takes that is not on this machine."""
PAUSE: Final = 0.02

Events = list[tuple[int, int, str]]
Guard = Callable[[Connection], object]
"""Called in the transaction that publishes, before it writes: raises what refuses it."""


class Settings(NamedTuple):
    name: str
    orders: str
    topic: str
    shards: int
    ledger: str
    session: float
    """Seconds for which a lock lasts, of whatever kind."""


class Poller:
    """A poller's two connections, and what it does with them. For one thread."""

    def __init__(self, settings: Settings) -> None:
        self.name = settings.name
        self.orders: Connection = psycopg.connect(settings.orders, autocommit=True)
        self.topic: Connection = psycopg.connect(settings.topic, autocommit=True)

    def close(self) -> None:
        self.orders.close()
        self.topic.close()

    def work(self, shard: int, mine: Callable[[], bool], guard: Guard, token: int | None = None) -> None:
        """Publishes a shard's events, in order and from where they have come to, while it is `mine`."""
        with self.topic.transaction():
            guard(self.topic)
            query = "SELECT coalesce(max(seq), 0) FROM topic WHERE shard = %s"
            (done,) = self.topic.execute(query, (shard,)).fetchone() or (0,)
        if mine():
            # Left by one that died between publishing and deleting: without a later order nobody would come by here again.
            self.orders.execute("DELETE FROM outbox WHERE shard = %s AND seq <= %s", (shard, done))
        while mine():
            query = "SELECT shard, seq, event FROM outbox WHERE shard = %s AND seq > %s ORDER BY seq LIMIT %s"
            events: Events = self.orders.execute(query, (shard, done, BATCH)).fetchall()
            if not events:
                time.sleep(PAUSE)
                continue
            self.publish(events, guard, token)
            done = events[-1][1]
            self.orders.execute("DELETE FROM outbox WHERE shard = %s AND seq <= %s", (shard, done))

    def publish(self, events: Events, guard: Guard, token: int | None = None) -> None:
        time.sleep(TRIP)
        with self.topic.transaction(), self.topic.cursor() as cursor:
            guard(self.topic)
            insert = "INSERT INTO topic (shard, seq, event, publisher, token) VALUES (%s, %s, %s, %s, %s)"
            cursor.executemany(insert, [(*event, self.name, token) for event in events])


def again_and_again(settings: Settings, turn: Callable[[Poller], object]) -> None:
    """`turn` with a poller, for ever; with a new one when the server has ended a connection or refused a write."""
    while True:
        try:
            poller = Poller(settings)
            try:
                while True:
                    turn(poller)
            finally:
                poller.close()
        except Stale:
            print("refused", flush=True)
        except psycopg.Error:
            time.sleep(0.1)


def main() -> None:
    from examples.outbox.locks import KINDS

    kind, name, orders, topic, shards, ledger, session = sys.argv[1:]
    # A ledger that is out of reach for a while, a connection that was cut: here that is the point of it all.
    logging.disable(logging.WARNING)
    settings = Settings(name, orders, topic, int(shards), ledger, float(session))
    threading.excepthook = lambda args: print("failed", repr(args.exc_value), flush=True)
    KINDS[kind](settings)


if __name__ == "__main__":
    main()
