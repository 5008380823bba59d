"""A real Kafka for tests: clients of the plain client library, so that what pares does is judged by something else.

The fixture `kafka` (tests/conftest.py) is one broker for the whole run. Tests share it, so each makes topics of its own; a test
that kills, freezes or fills a broker starts one of its own: `with pares.dev.Kafka() as kafka`.
"""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pares.dev import Kafka

PATIENCE = 30.0
"""Seconds after which a test that waits has failed."""
Settings = Mapping[str, str]
STEADY = {"broker.session.timeout.ms": "60000"}
"""For a broker that nobody harms. A dev broker that is alone counts as gone after two silent seconds, and a busy machine brings
those about: its partitions have no leader for a moment, and tests fail that look for something else."""


def _nothing(error: KafkaError) -> None:
    """Connections that break are what these tests are about; the client library would report each on the console."""


def client(kafka: Kafka, user: str | None = None, password: str | None = None) -> dict[str, Any]:
    """Settings of a client, as `user`."""
    return {
        "bootstrap.servers": kafka.bootstrap,
        "error_cb": _nothing,
        "log_level": 0,
        **kafka.client(user, password),
    }


def new_topic(kafka: Kafka, *, partitions: int = 1, settings: Settings | None = None, user: str | None = None) -> str:
    """Makes a topic with a name that nobody else has, and returns it. Copies: the cluster's default."""
    name = f"t-{uuid.uuid4().hex}"
    admin = AdminClient(client(kafka, user))
    topic = NewTopic(name, num_partitions=partitions, replication_factor=-1, config=dict(settings or {}))
    admin.create_topics([topic], operation_timeout=PATIENCE)[name].result(PATIENCE)
    return name


def write(
    kafka: Kafka,
    topic: str,
    values: Sequence[bytes | None],
    *,
    user: str | None = None,
    patience: float = PATIENCE,
    times: Sequence[int] | None = None,
) -> list[int]:
    """Appends to partition 0, one by one; returns the offsets. Raises `KafkaException` if one was not acknowledged within
    `patience` seconds; then it may be there all the same.

    `times`: of each value, wall-clock ms, which the topic keeps if its times are the writers'; then all are sent at once.
    """
    timeout = int(patience * 1000)
    producer = Producer({**client(kafka, user), "acks": "all", "linger.ms": 0, "message.timeout.ms": timeout})
    offsets: list[int] = []
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)
        else:
            offsets.append(message.offset() or 0)

    for at, value in enumerate(values):
        # 0 stands for the client's own clock.
        stamp = 0 if times is None else times[at]
        producer.produce(topic, value, partition=0, on_delivery=delivered, timestamp=stamp)
        if times is None or at == len(values) - 1:
            producer.flush(2 * patience)
        if failed:
            raise KafkaException(failed[0])
    return offsets


def read(kafka: Kafka, topic: str, *, user: str | None = None) -> list[bytes]:
    """All that is committed of partition 0, from its start to its end as it is now."""
    settings = {"group.id": f"g-{uuid.uuid4().hex}", "enable.partition.eof": True, "isolation.level": "read_committed"}
    consumer = Consumer({**client(kafka, user), **settings})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes] = []
        while (message := consumer.poll(PATIENCE)) is not None:
            error = message.error()
            if error is None:
                found.append(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
        raise TimeoutError(f"the end of {topic} was not reached in {PATIENCE} s")
    finally:
        consumer.close()


def make_certificate(folder: Path) -> Path:
    """A key and a certificate for 127.0.0.1 that it has signed itself, in one file."""
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem -out cert.pem -subj /CN=pares-tests"
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command.split(), *names], cwd=folder, check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    return both
