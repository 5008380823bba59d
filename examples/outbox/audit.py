"""What came of it: the orders beside what was published, in the order in which a reader of the topic sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg


@dataclass(frozen=True)
class Counts:
    orders: int
    published: int
    """Events that stand in the topic, doubles counted once."""
    missing: int
    twice: int
    """How many stand there once too often."""
    out_of_order: int
    """How many stand, when they first come, behind one that was ordered later."""
    publishers: int
    """Pollers that have published something."""

    @property
    def clean(self) -> bool:
        return self.orders > 0 and not (self.missing or self.twice or self.out_of_order)


def _one(url: str, query: str) -> Any:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


def left(orders: str) -> int:
    """How many events are still in the outbox."""
    return _one(orders, "SELECT count(*) FROM outbox")


def count(orders: str, topic: str) -> Counts:
    placed = _one(orders, "SELECT count(*) FROM orders")
    rows = _one(topic, "SELECT count(*) FROM topic")
    published = _one(topic, "SELECT count(*) FROM (SELECT DISTINCT shard, seq FROM topic) AS once")
    late = _one(
        topic,
        "SELECT count(*) FROM (SELECT position, shard, seq, max(seq) OVER (PARTITION BY shard ORDER BY position) AS newest, "
        "min(position) OVER (PARTITION BY shard, seq) AS first FROM topic) AS seen WHERE seq < newest AND position = first",
    )
    publishers = _one(topic, "SELECT count(DISTINCT publisher) FROM topic")
    return Counts(placed, published, placed - published, rows - published, late, publishers)
