"""Real servers on loopback, for trying pares and for testing what is built on it.

    from pares.dev import Kafka

    with Kafka(nodes=3) as kafka:
        member = pares.Member(kafka.url, group="pricing", roles=["AAPL"])

`Nats(nodes=3)` is the same with NATS. `Postgres()` is one PostgreSQL, for a ledger or for what is written behind a fence,
`Redis(replicas=1)` a Redis and what follows it, `RabbitMQ()` a RabbitMQ with streams, and `Pulsar()` a Pulsar.

Not for production: one machine, small servers, and data that is thrown away unless a folder is named. Nothing is imported
before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pares.dev.kafka.cluster import Kafka
    from pares.dev.kafka.settings import Security
    from pares.dev.nats.cluster import Nats
    from pares.dev.node import Node
    from pares.dev.postgres import Postgres
    from pares.dev.pulsar.server import Pulsar
    from pares.dev.rabbitmq import RabbitMQ
    from pares.dev.redis import Redis

__all__ = ["Kafka", "Nats", "Node", "Postgres", "Pulsar", "RabbitMQ", "Redis", "Security"]

_WHERE: Final = {
    "Kafka": "kafka.cluster",
    "Nats": "nats.cluster",
    "Node": "node",
    "Postgres": "postgres",
    "Pulsar": "pulsar.server",
    "RabbitMQ": "rabbitmq",
    "Redis": "redis",
    "Security": "kafka.settings",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"pares.dev.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
