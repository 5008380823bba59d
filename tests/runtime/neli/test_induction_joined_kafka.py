"""Consumer groups of a real Kafka that don't take a member: what its user sees of it, and that it comes right by itself."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer
from induction_tools import ROLES, member, shared
from runtime_tools import Crew, until
from test_induction_joined import looks

import pares
from kafka_tools import STEADY, client
from pares.core.errors import ConfigError
from pares.dev import Kafka

pytestmark = pytest.mark.brokers
HANG = 90.0


@pytest.fixture(scope="module")
def strict() -> Iterator[Kafka]:
    """A Kafka with limits that a test can reach."""
    with Kafka(settings={**STEADY, "group.max.size": "2", "group.min.session.timeout.ms": "6000"}) as kafka:
        yield kafka


def new_crew(kafka: Kafka) -> Crew:
    url = f"kafka://{kafka.bootstrap}/t-{uuid.uuid4().hex}?partitions=2"
    return Crew(url, f"g-{uuid.uuid4().hex[:8]}")


def stays_out(me: pares.Member, *says: str) -> None:
    """It says so, in each of many looks."""
    until(lambda: me.health().unreachable, "the reason is known", HANG)
    seen = looks(me, 5.0)
    assert {(state, ready) for state, ready, _ in seen} == {("joining", False)}
    for _, _, why in seen:
        assert why is not None
        for text in says:
            assert text in why
    assert me.health().ok
    (problem,) = me.health().problems
    assert problem.startswith("not-in-its-group: ")
    assert says[0] in problem


def comes_in(me: pares.Member) -> None:
    until(lambda: me.health().ready, "it was let in", HANG)
    assert me.state == "live"
    assert me.health().unreachable is None


def test_a_group_that_is_full(strict: Kafka) -> None:
    crew = new_crew(strict)
    members = [member(crew, name, "fast-neli") for name in ("one", "two")]
    # While a group shares partitions out, whoever asks first is let in, also in the place of a member that asks again.
    until(lambda: shared(*members), "the group has come to rest", HANG)
    surplus = member(crew, "three", "fast-neli")
    stays_out(surplus, "group.max.size", "start fewer")
    members[0].close()
    comes_in(surplus)


def test_a_session_that_is_too_short_for_the_brokers(strict: Kafka) -> None:
    crew = new_crew(strict)
    me = member(crew, "one", "fast-neli", session=1.0)
    stays_out(me, "session.timeout.ms=1000", "group.min.session.timeout.ms")


@contextmanager
def application(kafka: Kafka, topic: str, group: str) -> Iterator[None]:
    """A consumer as applications have them, in this group."""
    consumer = Consumer({**client(kafka), "group.id": group, "session.timeout.ms": 6000})
    assigned, over = threading.Event(), threading.Event()
    consumer.subscribe([topic], on_assign=lambda *_: assigned.set())

    def run() -> None:
        while not over.is_set():
            consumer.poll(0.05)
        consumer.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert assigned.wait(HANG)
        yield
    finally:
        over.set()
        thread.join()


def test_a_name_that_an_applications_consumers_use(strict: Kafka) -> None:
    crew = new_crew(strict)
    made: Any = pares.open(str(crew.ledger))
    made.close()
    topic = str(crew.ledger).rpartition("/")[2].partition("?")[0]
    with application(strict, topic, crew.group):
        me = member(crew, "one", "neli")
        stays_out(me, "an application's own consumers", "name of its own")
        assert not me.holds("0")
    comes_in(me)
    assert all(me.wait(role, HANG) for role in ROLES)


def test_a_barrier_that_the_group_would_not_wait_for(strict: Kafka) -> None:
    crew = new_crew(strict)
    with pytest.raises(ConfigError, match=r"barrier_timeout is 400 s, and this group waits 300 s.* at most 295 s"):
        member(crew, "one", "fast-neli", barrier_timeout=400)
    options = {"options": {"max.poll.interval.ms": 405_000}}
    comes_in(member(crew, "two", "fast-neli", barrier_timeout=400, options=options))
