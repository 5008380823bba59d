"""What only a source over Kafka has: transactions, compaction, back-pressure, and where librdkafka sends keys."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka_stages import WAIT, Cluster
from log_tools import HANG, until

from pares.ledger import Source, open_source, partition_for
from pares.ledger.kafka import prefetch
from pares.ledger.kafka.source import KafkaSource


@pytest.fixture
def opened(cluster: Cluster, topic: str) -> Generator[Source]:
    cluster.make(topic, 2)
    source = open_source(f"kafka://{cluster.bootstrap}?timeout=20", topic)
    yield source
    source.close()


def producer(cluster: Cluster, **settings: object) -> Any:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "log_level": 0, **named})


def fetch(source: Source, offset: int, partition: int = 0, timeout: float = 1.0) -> Any:
    return source.fetch(partition, offset, max_records=10_000, max_bytes=64 << 20, timeout=timeout)


def test_a_transaction_comes_when_it_is_committed(cluster: Cluster, topic: str, opened: Source) -> None:
    writer = producer(cluster, transactional_id=uuid.uuid4().hex)
    writer.init_transactions(WAIT)
    writer.begin_transaction()
    writer.produce(topic, b"in doubt", partition=0)
    writer.flush(WAIT)
    assert fetch(opened, 0).records == ()
    assert opened.end(0) == 0
    writer.commit_transaction(WAIT)
    until(lambda: opened.end(0) == 2)
    found = fetch(opened, 0, timeout=HANG)
    assert [record.payload for record in found.records] == [b"in doubt"]
    until(lambda: fetch(opened, 1).next == 2)


def test_keys_belong_where_the_client_library_sends_them(cluster: Cluster, topic: str, opened: Source) -> None:
    writer = producer(cluster)
    keys = [b"key %d" % number for number in range(50)]
    for key in keys:
        writer.produce(topic, b"x", key=key)
    assert writer.flush(WAIT) == 0
    for partition in range(2):
        expected = [key for key in keys if partition_for(key, 2) == partition]
        offset, found = 0, list[bytes]()
        while len(found) < len(expected):
            more = fetch(opened, offset, partition)
            offset, found = more.next, found + [record.key for record in more.records]
        assert sorted(found) == sorted(expected)


def test_what_is_fetched_ahead_of_a_slow_reader_is_bounded(
    cluster: Cluster, topic: str, opened: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "PREFETCH", 1 << 20)
    assert isinstance(opened, KafkaSource)
    writer, each = producer(cluster), 1500
    for number in range(2 * each):
        writer.produce(topic, b"%d " % number + b"x" * 20_000, partition=number % 2)
        writer.poll(0)
    assert writer.flush(WAIT) == 0
    most, slow, fast = 0, 0, 0
    first = opened.fetch(0, 0, max_records=1, max_bytes=1, timeout=HANG)
    slow, counted = first.next, [1, 0]
    while counted[1] < each:
        found = fetch(opened, fast, 1, timeout=HANG)
        fast, counted[1] = found.next, counted[1] + len(found.records)
        most = max(most, opened.prefetched)
    # 60 MB went by, of which the slow reader's half would have been held; what one poll brings comes on top of the bound.
    assert most < 12 << 20
    while counted[0] < each:
        found = fetch(opened, slow, 0, timeout=HANG)
        assert [int(record.payload.split()[0]) for record in found.records] == [
            2 * number for number in range(counted[0], counted[0] + len(found.records))
        ]
        slow, counted[0] = found.next, counted[0] + len(found.records)


def test_a_tombstone_is_an_empty_payload(cluster: Cluster, topic: str, opened: Source) -> None:
    writer = producer(cluster)
    writer.produce(topic, None, key=b"k", partition=0)
    assert writer.flush(WAIT) == 0
    (record,) = fetch(opened, 0, timeout=HANG).records
    assert (record.key, record.payload) == (b"k", b"")
