"""What the tests of KafkaFence share."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from kafka_tools import PATIENCE
from pares.core.errors import LedgerUnavailable
from pares.dev import Kafka
from pares.fence import KafkaFence


@dataclass(frozen=True)
class Term:
    role: str
    seat: int
    token: int
    holds: bool = True

    def __bool__(self) -> bool:
        return self.holds


_numbers = iter(range(1_000_000))


def name() -> str:
    """Of a fence's topic that nobody has used."""
    return f"fence-{os.getpid()}-{next(_numbers)}"


def made(broker: Kafka, topic: str, group: str | None = None, user: str | None = None, **options: Any) -> KafkaFence:
    return KafkaFence(broker.topic_url(topic), group, options=broker.client(user), **{"timeout": 5.0, **options})


def topic_of(fence: KafkaFence) -> str:
    """The fence's own topic."""
    return fence.url.split("/")[3].partition("?")[0]


def twin(fence: KafkaFence, broker: Kafka, **options: Any) -> KafkaFence:
    """The same fence in another process, as far as the brokers can tell."""
    return made(broker, topic_of(fence), fence.group, **options)


def write(fence: KafkaFence, term: Term, topic: str, value: bytes) -> None:
    """One transaction with one record, behind the fence."""
    with fence.transaction(term) as out:
        out.produce(topic, value, partition=0)


def write_again(fence: KafkaFence, term: Term, topic: str, value: bytes) -> None:
    """The same, and again until it is certain."""
    end = time.monotonic() + 2 * PATIENCE
    while True:
        try:
            return write(fence, term, topic, value)
        except LedgerUnavailable as error:
            if error.unknown or time.monotonic() > end:  # a second one would stand beside it
                raise
