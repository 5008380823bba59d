"""Fixtures of the fences' tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from planted_secret import SECRET

if TYPE_CHECKING:
    from postgres_tools import Sink

    from pares.dev import Kafka, Postgres
    from pares.fence import KafkaFence


@pytest.fixture(scope="session")
def broker() -> Iterator[Kafka]:
    """For KafkaFence: a broker that knows users, and ends transactions in time."""
    from pares.dev import Kafka, Security

    settings = {
        "transaction.max.timeout.ms": "20000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    }
    with Kafka(security=Security(users={"ann": SECRET}), settings=settings) as kafka:
        yield kafka


@pytest.fixture
def fence(broker: Kafka) -> Iterator[KafkaFence]:
    """With a topic that nobody has used."""
    from kafka_fence_tools import made, name

    with made(broker, name()) as fence:
        yield fence


@pytest.fixture(scope="module")
def topic(broker: Kafka) -> str:
    """To write to behind the fence; the tests of a file share it, each with values of its own."""
    from kafka_tools import new_topic

    return new_topic(broker)


@pytest.fixture
def sink(postgres: Postgres) -> Iterator[Sink]:
    """A schema of one test's own in PostgreSQL, and connections to it."""
    from postgres_tools import Sink

    with contextlib.ExitStack() as stack:
        yield Sink(postgres, stack)
