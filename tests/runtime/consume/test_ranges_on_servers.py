"""Ranges and keys of one partition on real servers: each record once, and few looks at another place of the partition (C11,
C12)."""

from __future__ import annotations

import uuid
from contextlib import ExitStack, closing
from typing import Any

import pytest
from consume_tools import Worker
from runtime_tools import until

import pares
from pares.ledger import open_source
from pares.ledger.kafka.source import KafkaSource
from pares.runtime.consume.consumer import Consumer

pytestmark = pytest.mark.brokers

MANY = 40_000


@pytest.fixture(params=["kafka", "nats"])
def stream(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The server's URL, and the name of a topic there with one partition and many records."""
    server: Any = request.getfixturevalue(request.param)
    where, name = server.url.rpartition("/")[0], f"work-{uuid.uuid4().hex[:8]}"
    with closing(pares.open(f"{where}/{name}")) as ledger:
        for first in range(0, MANY, 100):
            ledger.append_many([b"%d" % number for number in range(first, first + 100)])
    return where, name


@pytest.mark.parametrize("claim", ["ranges", "keys"])
@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
def test_c11_c12_consumers_of_one_partition_read_on_mostly_and_each_record_is_given_out_once(
    stream: tuple[str, str], memory: str, delivery: Any, claim: Any
) -> None:
    where, name = stream
    given: dict[str, Any] = {"group": "g", "claim": claim, "slots": 4, "delivery": delivery, "session": 5.0}
    with ExitStack() as stack:
        sources = [stack.enter_context(closing(open_source(where, name))) for _ in range(2)]
        consumers = [
            stack.enter_context(Consumer(memory, topics=[source], name=f"c{number}", **given))
            for number, source in enumerate(sources)
        ]
        until(lambda: all(len(each.claims()) == 2 for each in consumers), "each has its slots")
        workers = [Worker(each) for each in consumers]
        until(lambda: sum(len(worker.seen) for worker in workers) >= MANY, "all is given out", within=120)
        assert sorted(at for worker in workers for at in worker.offsets()) == list(range(MANY))
        until(lambda: [each.lag() for each in consumers] == [0, 0], "all is done")
        seeks = [source.seeks for source in sources if isinstance(source, KafkaSource)]
        assert sum(seeks) <= MANY // 1000, "one place for all that is near"
