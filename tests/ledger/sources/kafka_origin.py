"""A Kafka topic to be consumed, written to by plain clients."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import confluent_kafka.admin
from confluent_kafka import Producer, TopicPartition
from kafka_stages import WAIT, Cluster
from log_tools import until
from origins import Origin

import pares.ledger

admin: Any = confluent_kafka.admin


class InKafka(Origin):
    holes = True
    tells_at_once = False

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        super().__init__(folder)
        self.cluster = cluster
        self._own = cluster.name()
        self.full = f"{self._own}.{self.name}"
        self._producer: Any = None

    @property
    def url(self) -> str:
        return f"kafka://{self.cluster.bootstrap}/{self._own}?prefix={self._own}.&timeout=20"

    def make(self, partitions: int = 1, name: str | None = None) -> None:
        if name is not None:
            with_names = pares.ledger.open(self.url)
            with_names.topic(name, partitions)
            with_names.close()
        elif self.full in self.cluster.topics(self.full):
            grown = self.cluster.admin.create_partitions([admin.NewPartitions(self.full, partitions)])
            grown[self.full].result(WAIT)
            self._producer = None
        else:
            self.cluster.make(self.full, partitions, max_message_bytes=str(4 << 20))

    @property
    def producer(self) -> Any:
        """Made anew with the topic: one that knew the last topic of that name may take long to find the next."""
        if self._producer is None:
            settings: dict[str, Any] = {"bootstrap.servers": self.cluster.bootstrap, "message.max.bytes": 4 << 20}
            self._producer = Producer({**settings, "linger.ms": 0, "acks": "all", "log_level": 0})
        return self._producer

    def append(self, payloads: Sequence[bytes], partition: int = 0, keys: Sequence[bytes | None] | None = None) -> None:
        failed: list[object] = []
        for at, payload in enumerate(payloads):
            self.producer.produce(
                self.full,
                payload,
                key=None if keys is None else keys[at],
                partition=partition,
                on_delivery=lambda error, _: failed.append(error) if error is not None else None,
            )
        assert self.producer.flush(WAIT) == 0
        assert failed == []

    def forget(self, before: int, partition: int = 0) -> None:
        asked = self.cluster.admin.delete_records([TopicPartition(self.full, partition, before)])
        for result in asked.values():
            result.result(WAIT)

    def hole(self, partition: int = 0) -> None:
        """A transaction that is given up, and the broker's mark of it."""
        settings: dict[str, Any] = {"bootstrap.servers": self.cluster.bootstrap, "transactional.id": uuid.uuid4().hex}
        producer: Any = Producer({**settings, "linger.ms": 0, "log_level": 0})
        producer.init_transactions(WAIT)
        producer.begin_transaction()
        for number in range(3):
            producer.produce(self.full, b"given up %d" % number, partition=partition)
        producer.flush(WAIT)
        producer.abort_transaction(WAIT)

    def vanish(self) -> None:
        self._producer = None
        self.cluster.delete(self.full)
        until(lambda: not self.cluster.there(self.full))

    def close(self) -> None:
        super().close()
        self._producer = None
        self.cluster.delete(self._own)
