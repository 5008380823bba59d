"""A Kafka with topics of 1 KB records, for workers of all sorts."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

import pares
from bench.on_kafka import cluster
from pares.dev import Kafka

SIZE: Final = 1024
_CHUNK: Final = 2000


@contextmanager
def broker(quick: bool) -> Iterator[Kafka]:
    """One broker, at work for a while already."""
    with cluster(1, 1 if quick else 50) as kafka:
        yield kafka


def topic(kafka: Kafka, partitions: int) -> str:
    """A new one, which the broker has heard of."""
    name = f"work-{uuid.uuid4().hex[:8]}"
    made = kafka.topic_url(name, partitions=partitions)
    end = time.monotonic() + 60
    while True:
        try:
            pares.open(made).close()
        except pares.LedgerUnavailable:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return name


def message(number: int, partitions: int, keys: int) -> tuple[int, bytes, bytes]:
    """Partition, key and payload of the record with that number: keys come in turn, and a key has one partition. The payload
    begins with the number of the record in its key."""
    key = number % keys
    head = (number // keys).to_bytes(8)
    return key % partitions, b"k" + key.to_bytes(4), head + bytes(SIZE - len(head))


class Writer:
    """Writes records of one topic, from the first on."""

    def __init__(self, kafka: Kafka, topic: str, partitions: int, keys: int) -> None:
        from confluent_kafka import Producer

        settings: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap, "log_level": 0, "linger.ms": 20}
        self._producer = Producer({**settings, "batch.size": 256 * 1024, "queue.buffering.max.kbytes": 256 * 1024})
        self._topic, self._partitions, self._keys = topic, partitions, keys
        self.count = 0

    def write(self, count: int) -> None:
        """So many more, and returns when they are in the client's hands."""
        for _ in range(count):
            partition, key, payload = message(self.count, self._partitions, self._keys)
            while True:
                try:
                    self._producer.produce(self._topic, payload, key=key, partition=partition)
                except BufferError:
                    self._producer.poll(0.1)
                else:
                    break
            self.count += 1
            if self.count % _CHUNK == 0:
                self._producer.poll(0)

    def flush(self) -> None:
        """Returns when the broker has them all. Raises `TimeoutError`."""
        if self._producer.flush(120):
            raise TimeoutError(f"the broker has not acknowledged all records of {self._topic} after two minutes")


def filled(kafka: Kafka, partitions: int, count: int, keys: int) -> str:
    """A new topic with so many records."""
    name = topic(kafka, partitions)
    writer = Writer(kafka, name, partitions, keys)
    writer.write(count)
    writer.flush()
    return name


def share_from_the_start(kafka: Kafka, group: str) -> None:
    """Share groups begin at the end unless the broker is told otherwise, of each group."""
    configure(kafka, "GROUP", group, {"share.auto.offset.reset": "earliest"})


def configure(kafka: Kafka, kind: Literal["GROUP", "TOPIC"], name: str, settings: dict[str, str]) -> None:
    """Settings that the broker keeps of a group or a topic."""
    from confluent_kafka import admin as api

    found: Any = api  # its types leave out what it exports
    change = found.AlterConfigOpType.SET
    entries = [found.ConfigEntry(key, value, incremental_operation=change) for key, value in settings.items()]
    client = found.AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    resource = found.ConfigResource(found.ConfigResource.Type[kind], name, incremental_configs=entries)
    for done in client.incremental_alter_configs([resource]).values():
        done.result(30)
