"""Fixtures of the ledgers' tests."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bus_stages import Buses
from ledger_stages import STAGES, ServedStage, SqliteStage, Stage

from pares.ledger import Bus, TailBus, as_bus, open_bus

if TYPE_CHECKING:
    from kafka_stages import Cluster
    from nats_stages import Server


SERVED = ["nats", "kafka", "postgres", "redis", "rabbitmq", "pulsar", "kinesis"]
KINDS = [*sorted(STAGES), "page", *SERVED]
"""`page`: the ledger whose whole code stands in docs/internals.md."""
NATIVE = ["nats ledger", "core nats"]


@pytest.fixture(params=KINDS)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Stage]:
    """Every kind of ledger in turn."""
    stage = make_stage(request.param, request, tmp_path)
    yield stage
    stage.close()


@pytest.fixture(params=SERVED)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[ServedStage]:
    """Every kind of ledger that a service keeps."""
    stage = make_stage(request.param, request, tmp_path)
    assert isinstance(stage, ServedStage)
    yield stage
    stage.close()


def make_stage(kind: str, request: pytest.FixtureRequest, folder: Path) -> Stage:
    if kind == "kafka":
        from kafka_stages import KafkaStage

        return KafkaStage(folder, request.getfixturevalue("cluster"))
    if kind == "nats":
        from nats_stages import NatsStage

        return NatsStage(folder, request.getfixturevalue("server"))
    if kind == "postgres":
        from postgres_stages import PostgresStage

        return PostgresStage(folder, request.getfixturevalue("postgres"))
    if kind == "redis":
        from redis_stages import RedisStage

        return RedisStage(folder, request.getfixturevalue("redis_server"))
    if kind == "rabbitmq":
        from rabbit_stages import RabbitStage

        return RabbitStage(folder, request.getfixturevalue("rabbit_server"))
    if kind == "pulsar":
        from pulsar_stages import PulsarStage

        return PulsarStage(folder, request.getfixturevalue("pulsar_server"))
    if kind == "kinesis":
        from kinesis_stages import KinesisStage

        return KinesisStage(folder, request.getfixturevalue("moto"))
    if kind == "page":
        from page_stage import PageStage, install

        package, monkeypatch = folder / "package", request.getfixturevalue("monkeypatch")
        install(package)
        monkeypatch.syspath_prepend(package)
        monkeypatch.setenv("PYTHONPATH", str(package))  # for processes that the test starts
        return PageStage(folder)
    return STAGES[kind](folder)


@pytest.fixture(params=[*KINDS, *NATIVE])
def buses(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Buses]:
    """Every kind of bus in turn: on each kind of log, and those that a service brings along."""
    kind: str = request.param
    stage = make_stage("nats" if kind in NATIVE else kind, request, tmp_path)

    def make() -> tuple[Bus, Callable[[], None]]:
        if kind == "core nats":
            core = open_bus(stage.url.partition("/t-")[0])
            return core, core.close
        ledger = stage.open()
        if kind == "nats ledger":
            bus = as_bus(ledger)
            assert bus is ledger
            return bus, ledger.close
        tail = TailBus(ledger.topic("bus", 1))
        return tail, tail.close

    buses = Buses(make)
    yield buses
    buses.close()
    stage.close()


@pytest.fixture
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Stage]:
    """The ledger that docs/internals.md shows."""
    stage = make_stage("page", request, tmp_path)
    yield stage
    stage.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Generator[SqliteStage]:
    """A SQLite ledger."""
    stage = SqliteStage(tmp_path)
    yield stage
    stage.close()


@pytest.fixture(scope="session")
def cluster() -> Generator[Cluster]:
    """A Kafka of one node on which rights can be taken away, and groups have three members at most."""
    from kafka_stages import AUTHORIZER, Cluster

    from kafka_tools import STEADY
    from pares.dev import Kafka

    with Kafka(settings={**AUTHORIZER, **STEADY, "group.max.size": "3"}) as kafka:
        yield Cluster(kafka)


@pytest.fixture
def topic(cluster: Cluster) -> Generator[str]:
    """The name of a topic that nobody has used, and that is deleted at the end."""
    topic = cluster.name()
    yield topic
    cluster.delete(topic)


@pytest.fixture(scope="session")
def server() -> Generator[Server]:
    """A NATS on which rights can be taken away."""
    from nats_stages import OPEN, Server

    from pares.dev import Nats

    with Nats(settings=OPEN) as nats:
        yield Server(nats)
