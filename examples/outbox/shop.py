"""The two databases: where orders are placed, and where their events are published to."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import psycopg

Connection = psycopg.Connection[Any]

_ORDERS: Final = """
CREATE TABLE shards (shard int PRIMARY KEY, seq bigint NOT NULL DEFAULT 0);
CREATE TABLE orders (shard int, seq bigint, customer text NOT NULL, amount int NOT NULL, PRIMARY KEY (shard, seq));
CREATE TABLE outbox (
    shard int, seq bigint, event text NOT NULL, locked_until timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (shard, seq)
);
CREATE TABLE leases (shard int PRIMARY KEY, owner text NOT NULL DEFAULT '', until timestamptz NOT NULL DEFAULT '-infinity');
"""
_TOPIC: Final = """
CREATE TABLE topic (
    position bigserial PRIMARY KEY, shard int NOT NULL, seq bigint NOT NULL, event text NOT NULL,
    publisher text NOT NULL, token bigint
);
CREATE INDEX ON topic (shard, seq);
"""


@contextmanager
def databases(server: str, name: str, shards: int) -> Iterator[tuple[str, str]]:
    """Two new ones on a server; gives their URLs, and drops them at the end."""
    names = (f"{name}_orders", f"{name}_topic")
    orders, topic = (urlunsplit(urlsplit(server)._replace(path=f"/{one}")) for one in names)
    with psycopg.connect(server, autocommit=True) as admin:
        try:
            for one in names:
                admin.execute(f"CREATE DATABASE {one}".encode())
            with psycopg.connect(topic) as connection:
                connection.execute(_TOPIC.encode())
            with psycopg.connect(orders) as connection:
                connection.execute(_ORDERS.encode())
                for table in ("shards", "leases"):
                    fill = f"INSERT INTO {table} (shard) SELECT generate_series(0, %s)"
                    connection.execute(fill.encode(), (shards - 1,))
            yield orders, topic
        finally:
            for one in names:
                admin.execute(f"DROP DATABASE IF EXISTS {one} WITH (FORCE)".encode())


def place(connection: Connection, shard: int, customer: str, amount: int) -> None:
    """An order and its event, both or neither.

    The shard's row is locked while its next number is taken, so numbers come in the order of commits and without gaps. A
    sequence would not do: its numbers become visible in any order, and a poller would pass by the late ones.
    """
    with connection.transaction():
        row = connection.execute("UPDATE shards SET seq = seq + 1 WHERE shard = %s RETURNING seq", (shard,)).fetchone()
        assert row is not None
        connection.execute("INSERT INTO orders VALUES (%s, %s, %s, %s)", (shard, row[0], customer, amount))
        event = f"order {row[0]}: {customer} {amount}"
        connection.execute("INSERT INTO outbox (shard, seq, event) VALUES (%s, %s, %s)", (shard, row[0], event))


class Customers:
    """Threads that place orders until they are told to stop."""

    def __init__(self, orders: str, shards: int, seed: int, count: int = 2, pause: float = 0.004) -> None:
        self._orders, self._shards, self._pause = orders, shards, pause
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(random.Random(seed + i),)) for i in range(count)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, dice: random.Random) -> None:
        with psycopg.connect(self._orders) as connection:
            while not self._over.is_set():
                place(
                    connection, dice.randrange(self._shards), f"customer-{dice.randrange(1000)}", dice.randrange(10_000)
                )
                time.sleep(self._pause)
