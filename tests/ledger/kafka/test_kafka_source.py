"""What only a source over Kafka has: transactions, compaction, back-pressure, and where librdkafka sends keys."""

from __future__ import annotations

import time
import uuid
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka_stages import WAIT, Cluster
from log_tools import HANG, until

from pares.core.errors import LedgerUnavailable
from pares.ledger import Source, open_source, partition_for
from pares.ledger.kafka import source as kafka_source
from pares.ledger.kafka.ahead import prefetch
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


class Silent:
    """A client that has forgotten every address: it takes what it is told, and brings nothing."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def poll(self, timeout: float = 0.0) -> None:
        time.sleep(timeout)

    def consume(self, *args: object, **kwargs: object) -> list[Any]:
        return []


def deafened(source: Source) -> Silent:
    assert isinstance(source, KafkaSource)
    ahead = source._prefetch  # pyright: ignore[reportPrivateUsage]
    silent = ahead._client = Silent(ahead._client)  # pyright: ignore[reportPrivateUsage]
    return silent


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "_DEAF", 0.5)
    monkeypatch.setattr(kafka_source, "_COMPARE", 0.1)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("looks", ["by fetches", "by looks at all partitions"])
def test_a_client_that_brings_nothing_is_replaced(cluster: Cluster, topic: str, looks: str) -> None:
    """After an outage of all brokers one may be silent for ever, and say nothing of it."""
    cluster.make(topic, 2)
    source, writer = open_source(f"kafka://{cluster.bootstrap}?timeout=20", topic), producer(cluster)

    def write(payload: bytes) -> None:
        for partition in range(2):
            writer.produce(topic, payload, partition=partition)
        assert writer.flush(WAIT) == 0

    def comes(at: int, payload: bytes) -> bool:
        if looks != "by fetches":
            source.ends({0, 1})
            if not source.changed({0: at, 1: at}):
                return False
        return [record.payload for record in fetch(source, at, timeout=0.1).records] == [payload]

    write(b"before")
    until(lambda: comes(0, b"before"))
    silent = deafened(source)
    write(b"after")
    until(lambda: comes(1, b"after"))
    assert isinstance(source, KafkaSource)
    assert source._prefetch._client is not silent  # pyright: ignore[reportPrivateUsage]
    until(lambda: [record.payload for record in fetch(source, 1, 1, timeout=0.1).records] == [b"after"])
    source.close()


@pytest.mark.usefixtures("impatient")
def test_a_client_with_nothing_to_bring_is_kept(cluster: Cluster, topic: str) -> None:
    """An aborted transaction leaves offsets at the end that are no records; and a partition may be empty."""
    cluster.make(topic, 2)
    writer = producer(cluster, transactional_id=uuid.uuid4().hex)
    writer.init_transactions(WAIT)
    writer.begin_transaction()
    writer.produce(topic, b"never", partition=0)
    writer.flush(WAIT)
    writer.abort_transaction(WAIT)
    source = open_source(f"kafka://{cluster.bootstrap}?timeout=20", topic)
    assert isinstance(source, KafkaSource)
    for partition in range(2):
        fetch(source, 0, partition)
    ahead = source._prefetch  # pyright: ignore[reportPrivateUsage]
    client, began = ahead._client, time.monotonic()  # pyright: ignore[reportPrivateUsage]
    while time.monotonic() < began + 3.0:
        found = fetch(source, 0, timeout=0.1), fetch(source, 0, 1, timeout=0.1)
        assert not any(one.records for one in found)
    assert ahead._client is client  # pyright: ignore[reportPrivateUsage]
    source.close()


def test_two_readers_of_a_partition_get_on_though_neither_waits(cluster: Cluster, topic: str, opened: Source) -> None:
    """They read at places so far apart that the client has to be sent there; in turn, and each looks only."""
    assert isinstance(opened, KafkaSource)
    writer, count, second = producer(cluster, linger_ms=50), 6000, 5000
    for number in range(count):
        writer.produce(topic, b"%d" % number, partition=0)
    assert writer.flush(WAIT) == 0
    ends, at, deadline = [second, count], [0, second], time.monotonic() + HANG
    while at != ends and time.monotonic() < deadline:
        for reader in range(2):
            found = opened.fetch(
                0, at[reader], max_records=ends[reader] - at[reader] or 1, max_bytes=1 << 20, timeout=0.0
            )
            if at[reader] < ends[reader] and found.records:
                assert found.records[0].offset == at[reader]
                at[reader] = found.next
    assert at == ends
    assert opened.seeks < 200


class Lost:
    """An administrator's client that has forgotten every address."""

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Any]:
        failed = Future[Any]()
        failed.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))  # pyright: ignore[reportPrivateUsage]
        time.sleep(request_timeout)
        return dict.fromkeys(topics.topic_names, failed)

    def list_topics(self, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))  # pyright: ignore[reportPrivateUsage]

    def poll(self, timeout: float) -> None: ...


@pytest.mark.parametrize("timeout", [0.3, 1, 2])
def test_a_client_that_looks_at_topics_is_replaced_when_it_hears_nothing(
    cluster: Cluster, topic: str, timeout: float
) -> None:
    """Also where all the time of a look is over when its first question has had no answer."""
    cluster.make(topic, 1)
    source = open_source(f"kafka://{cluster.bootstrap}?timeout={timeout}", topic)
    assert isinstance(source, KafkaSource)
    topics, lost = source._topics, Lost()  # pyright: ignore[reportPrivateUsage]
    topics._client, topics._made = lost, 0.0  # pyright: ignore[reportPrivateUsage]

    def answers() -> bool:
        with suppress(LedgerUnavailable):
            return topics.describe(topic) is not None
        return False

    until(answers)
    assert topics._client is not lost  # pyright: ignore[reportPrivateUsage]
    source.close()
