"""The outbox example in a short form: with pares every event once and in order, with plain locks not so."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest
from examples.outbox.audit import Counts, count, left
from examples.outbox.locks import KINDS
from examples.outbox.poller import Poller, Settings
from examples.outbox.run import Plan, run
from examples.outbox.shop import databases, place

from pares.dev import Postgres

SHORT = Plan(seconds=5, pollers=3, shards=2, session=0.6)
TRIES = 6


@pytest.fixture
def urls(postgres: Postgres) -> Iterator[tuple[str, str]]:
    with databases(postgres.url, "audit", 2) as urls:
        yield urls


def publish(topic: str, *events: tuple[int, int], publisher: str = "p") -> None:
    with psycopg.connect(topic) as connection:
        for shard, seq in events:
            insert = "INSERT INTO topic (shard, seq, event, publisher) VALUES (%s, %s, '', %s)"
            connection.execute(insert, (shard, seq, publisher))


def test_the_audit_counts_what_is_wrong(urls: tuple[str, str]) -> None:
    orders, topic = urls
    assert not count(*urls).clean, "nothing at all is no success"
    with psycopg.connect(orders, autocommit=True) as connection:
        for shard in (0, 0, 0, 0, 1, 1):
            place(connection, shard, "c", 1)
        with contextlib.suppress(psycopg.errors.NotNullViolation):
            place(connection, 1, None, 1)  # type: ignore[arg-type] - an order that is not taken uses up no number
        place(connection, 1, "c", 1)
    assert left(orders) == 7
    publish(topic, (0, 1), (1, 1), (0, 2), (1, 2))
    assert count(*urls) == Counts(7, 4, missing=3, twice=0, out_of_order=0, publishers=1)
    publish(topic, (0, 4), (0, 3), (1, 3))
    assert count(*urls) == Counts(7, 7, missing=0, twice=0, out_of_order=1, publishers=1)
    publish(topic, (0, 3), (0, 1), publisher="q")
    assert count(*urls) == Counts(7, 7, missing=0, twice=2, out_of_order=1, publishers=2)


def test_what_a_dead_poller_had_published_leaves_the_outbox_though_no_order_follows(urls: tuple[str, str]) -> None:
    with psycopg.connect(urls[0], autocommit=True) as connection:
        for _ in range(3):
            place(connection, 0, "c", 1)
    publish(urls[1], (0, 1), (0, 2), (0, 3))  # and then it was killed, before it could delete them
    poller = Poller(Settings("p", *urls, shards=1, ledger="", session=1.0))
    turns = iter([True, True, False])
    poller.work(0, lambda: next(turns), lambda topic: None)
    poller.close()
    assert left(urls[0]) == 0
    assert count(*urls).clean


def test_in_order_and_once_is_clean(urls: tuple[str, str]) -> None:
    with psycopg.connect(urls[0], autocommit=True) as connection:
        for shard in (0, 1, 0):
            place(connection, shard, "c", 1)
    publish(urls[1], (0, 1), (0, 2), (1, 1))
    assert count(*urls).clean


@pytest.mark.processes
def test_with_pares_every_event_is_published_once_and_in_order(postgres: Postgres) -> None:
    outcome = run("pares", postgres.url, SHORT)
    assert outcome.counts.clean, outcome
    assert outcome.kills + outcome.freezes > 3
    assert outcome.counts.publishers > 1
    assert not outcome.failures


@pytest.mark.processes
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "pares"])
def test_with_plain_locks_it_breaks(postgres: Postgres, kind: str) -> None:
    """Whether a freeze comes between a look and a write is chance, which several runs leave little of."""
    outcomes = []
    for seed in range(1, TRIES + 1):
        outcomes.append(run(kind, postgres.url, replace(SHORT, seed=seed)))
        if not outcomes[-1].counts.clean:
            return
    raise AssertionError(f"nothing was missing, doubled or out of order: {outcomes}")
