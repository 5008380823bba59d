"""Topics and sources: appends and fetches of records of 1 KB, each beside the plain client of the same service, in turns.

`python -m bench --only topic`: topics of memory, file and SQLite ledgers. `--only source-nats`: a JetStream stream, beside a
plain pull subscription. `--ledger kafka --only source`: a Kafka topic, beside a plain loop of `Consumer.consume()`.

Rates are by the wall clock, and on a busy machine they say little: the processor time of a record, clients' threads included,
says more there.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pares
from pares.dev import Kafka, Nats
from pares.ledger import Topic, open_source, open_topic
from pares.ledger.source import Source

SIZE: Final = 1024
KEY: Final = b"customer-4711"
TURNS: Final = 5
BATCH: Final = 500
"""Records that a fetch asks for: what a consumer asks for unless it is told otherwise."""
PARTITIONS: Final = 4
TOPIC: Final = "bench-source"
SUBJECT: Final = "bench.a"

Figures = tuple[str, list[float], str]
"""What, the figures, their unit."""


class Taken:
    """Runs of one sort: thousands of records a second, and processor time of each record in microseconds."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.costs: list[float] = []

    def run(self, action: Callable[[], object], count: int) -> None:
        cost, began = time.process_time(), time.perf_counter()
        action()
        self.rates.append(count / (time.perf_counter() - began) / 1000)
        self.costs.append((time.process_time() - cost) / count * 1e6)

    def rows(self, what: str) -> Iterator[Figures]:
        yield what, self.rates, "k records/s"
        yield f"{what}, processor time a record", self.costs, "us"


def drain(source: Source, count: int) -> None:
    """Reads so many records, each partition in turn, as one consumer does."""
    places, left = dict.fromkeys(range(source.partitions()), 0), count
    while left:
        for partition, offset in places.items():
            found = source.fetch(partition, offset, max_records=BATCH, max_bytes=8 << 20, timeout=0.05)
            places[partition] = found.next
            left -= len(found.records)


def fill(topic: Topic, many: int, records: int) -> None:
    """Appends so many records with keys, so many at a time."""
    for _ in range(records // many):
        topic.append_many([b"x" * SIZE] * many, 0, keys=[KEY] * many)


def kept(quick: bool) -> Iterator[Figures]:
    """Topics that a ledger keeps."""
    count = 2_000 if quick else 50_000
    with tempfile.TemporaryDirectory(prefix="pares-bench-") as folder:
        urls = {"memory": "memory://bench", "file": f"file://{folder}/file", "SQLite": f"sqlite:///{folder}/bench.db"}
        for name, url in urls.items():
            ledger = pares.open(url)
            topic = open_topic(ledger, TOPIC, 1)
            for many, records in ((1, count // 50), (100, count // 5)):
                taken = Taken()

                for _ in range(TURNS):
                    taken.run(partial(fill, topic, many, records), records)
                yield f"{name} topic: append, {many} at a time", taken.rates, "k records/s"
            there, taken = topic.end(0), Taken()
            for _ in range(TURNS):
                with_source = open_source(ledger, TOPIC)
                taken.run(partial(drain, with_source, there), there)
                with_source.close()
            ledger.close()
            yield from taken.rows(f"{name} topic: source")


# Kafka ---------------------------------------------------------------------------------------------------------------


def kafka(server: Kafka, quick: bool) -> Iterator[Figures]:
    """The source and a plain consumer on one topic with several partitions."""
    from confluent_kafka import Producer

    count = 8_000 if quick else 200_000
    pares.open(server.topic_url(TOPIC, partitions=PARTITIONS)).close()
    settings: dict[str, Any] = {"bootstrap.servers": server.bootstrap, "log_level": 0}
    producer = Producer({**settings, "queue.buffering.max.messages": 2 * count})
    for number in range(count):
        producer.produce(TOPIC, b"x" * SIZE, key=KEY, partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush(60)
    ours, plain = Taken(), Taken()
    for _ in range(TURNS):
        plain.run(lambda: consume(settings, count), count)
        source = open_source(f"kafka://{server.bootstrap}", TOPIC)
        ours.run(partial(drain, source, count), count)
        source.close()
    yield from plain.rows("plain Consumer.consume()")
    yield from ours.rows("source")


def consume(settings: dict[str, Any], count: int) -> None:
    """A loop that looks at each record's offset, time, key and value, as programs that consume do."""
    from confluent_kafka import Consumer, TopicPartition

    own = {"group.id": "bench", "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer = Consumer({**settings, **own})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    left = count
    while left:
        for message in consumer.consume(BATCH, timeout=0.05):
            if message.error() is None:
                _ = message.partition(), message.offset(), message.timestamp(), message.key(), message.value()
                left -= 1
    consumer.close()


# NATS ----------------------------------------------------------------------------------------------------------------


def nats(quick: bool) -> Iterator[Figures]:
    """The source and a plain pull subscription on one stream."""
    count = 2_000 if quick else 50_000
    ours, plain = Taken(), Taken()
    with Nats(jetstream=True) as server:
        asyncio.run(_publish(server, count))
        for _ in range(TURNS):
            plain.run(lambda: asyncio.run(_pull(server, count)), count)
            source = open_source(f"nats://{server.bootstrap}", TOPIC)
            ours.run(partial(drain, source, count), count)
            source.close()
    yield from plain.rows("NATS: plain pull subscription")
    yield from ours.rows("NATS: source")


async def _connected(server: Nats) -> Any:
    import nats as client_library

    settings: dict[str, Any] = server.client()
    return await client_library.connect([f"nats://{each}" for each in server.bootstrap.split(",")], **settings)


async def _publish(server: Nats, count: int) -> None:
    client = await _connected(server)
    stream = client.jetstream()
    await stream.add_stream(name=TOPIC, subjects=[SUBJECT])
    for begin in range(0, count, 500):
        await asyncio.gather(*(stream.publish(SUBJECT, b"x" * SIZE) for _ in range(begin, min(begin + 500, count))))
    await client.close()


async def _pull(server: Nats, count: int) -> None:
    from nats.js.api import AckPolicy, ConsumerConfig

    client = await _connected(server)
    config = ConsumerConfig(ack_policy=AckPolicy.NONE)
    subscription = await client.jetstream().pull_subscribe(SUBJECT, stream=TOPIC, config=config)
    left = count
    while left:
        messages = await subscription.fetch(min(BATCH, left), timeout=5)
        for message in messages:
            _ = message.metadata.sequence.stream, message.subject, message.data
        left -= len(messages)
    await client.close()
