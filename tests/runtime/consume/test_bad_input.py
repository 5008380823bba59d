"""What users do to topics, and what their names are: in memory, and on a real Kafka what only that does (C8)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from consume_tools import Topic, Worker
from runtime_tools import rewound, until

import pares
from pares.core.errors import LedgerUnavailable
from pares.dev import Kafka
from pares.ledger import open_source
from pares.runtime.consume import consumer as consumer_module
from pares.runtime.consume.consumer import Consumer

Make = Callable[..., Consumer]


# In memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["a/b", "ü", "pares.consume.", "x@12345678/0", "x@12345678/0+1", " + ~ % ' \" ", "名" * 180]
)
def test_names_of_any_characters(make: Make, url: str, name: str) -> None:
    topic = Topic(name, 2)
    topic.append(*"ab", partition=1)
    group, worker = name[:150], f"{name[:100]}~1"
    consumer = make(topic, worker, group=group)
    assert [item[2] for item in _worked(consumer, 2).seen] == [0, 1]
    consumer.flush()
    with pares.Admin(url, group=group) as admin:
        assert admin.positions() == {(name, 0): 0, (name, 1): 2}
    assert {claim.topic for claim in consumer.claims(all=True)} == {name}


def _worked(consumer: Consumer, count: int) -> Worker:
    worker = Worker(consumer)
    until(lambda: len(worker.seen) == count, f"{count} are given out")
    return worker


def test_a_position_beyond_the_end_is_reported_and_others_go_on(make: Make, url: str) -> None:
    topic = Topic(partitions=2)
    topic.append(*"abc")
    fetches = 0

    def count(call: str) -> None:
        nonlocal fetches
        fetches += call == "fetch"

    worker = _worked(make(topic), 3)
    _rewind(url, {("orders", 0): 1000})
    consumer = worker.consumer
    until(lambda: any("ends below its position 1000" in p for p in consumer.health().problems), "it says so")
    topic.append("x", partition=1)
    until(lambda: worker.offsets(1) == [0], "the other partition goes on")
    assert consumer.lag() == 0, "never below"
    topic.fail = count
    until(lambda: fetches > 5, "the other one is fetched")
    assert worker.offsets() == [0, 1, 2]
    _rewind(url, {("orders", 0): 2})
    until(lambda: worker.offsets() == [0, 1, 2, 2], "an administrator puts it right")


def _rewind(url: str, to: dict[tuple[str, int], int]) -> None:
    with pares.Admin(url, group="g") as admin:
        admin.pause(seconds=60)
        until(lambda: rewound(admin, to), "nobody holds it")
        admin.resume()


def test_a_topic_that_vanishes_is_waited_for(make: Make) -> None:
    topic, gone = Topic(partitions=2), False

    def fail(call: str) -> None:
        if gone:
            raise LedgerUnavailable("the topic is gone")

    topic.fail = fail
    topic.append(*"ab")
    worker = _worked(make(topic), 2)
    gone = True
    with pytest.raises(LedgerUnavailable):
        worker.consumer.lag()
    assert worker.consumer.health().ok
    gone = False
    topic.append("c")
    until(lambda: worker.offsets() == [0, 1, 2], "it goes on when it is there again")


# On Kafka -------------------------------------------------------------------------------------------------------------


class OnKafka:
    """A topic there."""

    def __init__(self, kafka: Any, **config: str) -> None:
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        self.bootstrap: str = kafka.bootstrap
        self.name = f"t-{uuid.uuid4().hex[:8]}"
        self.admin: Any = AdminClient({"bootstrap.servers": self.bootstrap})
        self._topic = NewTopic(self.name, 1, 1, config={key.replace("_", "."): word for key, word in config.items()})
        self.make()

    @property
    def source(self) -> str:
        return f"kafka://{self.bootstrap}"

    def make(self) -> None:
        def made() -> bool:
            try:
                self.admin.create_topics([self._topic])[self.name].result(30)
            except Exception as error:
                return "exists" in str(error)
            return True

        until(made, "the topic is made", 60)

        def there() -> bool:
            try:
                open_source(self.source, self.name).close()
            except Exception:
                return False
            return True

        until(there, "every broker knows of it", 60)

    def delete(self) -> None:
        self.admin.delete_topics([self.name], operation_timeout=20, request_timeout=20)[self.name].result(60)

    def write(self, *payloads: str, key: str | None = None, **settings: str) -> None:
        writer = self.writer(**settings)
        for payload in payloads:
            writer.produce(self.name, payload, key=key, partition=0)
        assert writer.flush(30) == 0

    def writer(self, **settings: str) -> Any:
        from confluent_kafka import Producer

        return Producer({"bootstrap.servers": self.bootstrap, **{k.replace("_", "."): v for k, v in settings.items()}})

    def trim(self, before: int) -> None:
        from confluent_kafka import TopicPartition

        [future] = self.admin.delete_records([TopicPartition(self.name, 0, before)]).values()
        future.result(30)


@pytest.fixture
def topic(kafka: Any) -> OnKafka:
    return OnKafka(kafka)


@pytest.fixture
def consume(memory: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Worker]]:
    """Starts consumers of a topic there, whose group's log is elsewhere; they look at it twenty times a second."""
    monkeypatch.setattr(consumer_module, "LOOKS", 0.01)
    made: list[Consumer] = []

    def start(topic: OnKafka, name: str = "a", **more: Any) -> Worker:
        given: dict[str, Any] = {"group": "g", "session": 5.0, "settle": 0.05, **more}
        made.append(Consumer(memory, topics=topic.name, source=topic.source, name=name, **given))
        return Worker(made[-1])

    yield start
    for each in made:
        each.close(5)


def problem(worker: Worker, words: str) -> bool:
    return any(words in said for said in worker.consumer.health().problems)


@pytest.mark.brokers
def test_on_kafka_aborted_transactions_are_passed_over_and_leave_no_lag(
    topic: OnKafka, consume: Callable[..., Worker], memory: str
) -> None:
    topic.write("before")
    writer = topic.writer(transactional_id=uuid.uuid4().hex)
    writer.init_transactions(30)
    for number in range(6):
        writer.begin_transaction()
        writer.produce(topic.name, f"{number}", partition=0)
        writer.flush(30)
        if number % 2:
            writer.abort_transaction(30)
        else:
            writer.commit_transaction(30)
    worker = consume(topic)
    until(lambda: worker.offsets() == [0, 1, 5, 9], "what was committed")
    until(lambda: worker.consumer.lag() == 0, "the markers and what was aborted at the end are passed, too")
    worker.consumer.flush()
    with pares.Admin(memory, group="g") as admin:
        assert admin.positions() == {(topic.name, 0): 13}
    worker.consumer.close()
    again = consume(topic, "b")
    topic.write("after")
    until(lambda: again.offsets() == [13], "it goes on behind them")


@pytest.mark.brokers
@pytest.mark.timeout(300)
def test_on_kafka_what_compaction_took_is_passed_over(consume: Callable[..., Worker]) -> None:
    with Kafka(settings={"log.cleaner.backoff.ms": "100"}) as kafka:
        settings = {"min_cleanable_dirty_ratio": "0.01", "segment_ms": "100", "max_compaction_lag_ms": "100"}
        topic = OnKafka(kafka, cleanup_policy="compact", **settings)

        def first() -> int:
            topic.write("again", key="k")
            with closing(open_source(topic.source, topic.name)) as source:
                found = source.fetch(0, 0, max_records=1, max_bytes=1 << 20, timeout=5.0).records
                return found[0].offset if found else 0

        until(lambda: first() > 3, "the cleaner has been there", 120)
        worker = consume(topic, batch=3)
        until(lambda: worker.consumer.load() == 1 and worker.consumer.lag() == 0, "it comes to the end", 60)
        assert worker.offsets()
        assert worker.offsets()[0] > 0, "there was a gap"
        assert worker.offsets() == sorted(set(worker.offsets()))
        assert not problem(worker, "lost"), "nothing was lost: newer records of the key are there"


@pytest.mark.brokers
def test_on_kafka_what_retention_took_is_named_and_skipped(topic: OnKafka, consume: Callable[..., Worker]) -> None:
    topic.write(*"abcdef")
    worker = consume(topic, batch=2)
    until(lambda: worker.offsets() == [0, 1, 2, 3, 4, 5], "all is given out")
    worker.consumer.close()
    topic.write(*"ghij")
    topic.trim(8)
    again = consume(topic, "b")
    until(lambda: again.offsets() == [8, 9], "what is left")
    assert problem(again, "has lost 6 to 7 before they were read")


@pytest.mark.brokers
@pytest.mark.timeout(300)
def test_on_kafka_a_topic_that_vanishes_and_is_made_anew(topic: OnKafka, consume: Callable[..., Worker]) -> None:
    topic.write(*"abc")
    worker = consume(topic)
    until(lambda: worker.offsets() == [0, 1, 2], "all is given out")
    topic.delete()

    def gone() -> bool:
        try:
            worker.consumer.lag()
        except LedgerUnavailable:
            return True
        return False

    until(gone, "it is not there", 60)
    assert worker.consumer.health().ok
    assert worker.error is None
    topic.make()
    topic.write(*"xy")
    until(lambda: worker.offsets()[3:] == [0, 1], "positions of the old one mean nothing", 60)
    assert problem(worker, "is another one now")
    until(lambda: len(worker.consumer.claims(all=True)) == 1, "the old roles are gone")


@pytest.mark.brokers
def test_on_kafka_a_position_beyond_the_end_is_reported_and_put_right(
    topic: OnKafka, consume: Callable[..., Worker], memory: str
) -> None:
    topic.write(*"abc")
    worker = consume(topic)
    until(lambda: worker.offsets() == [0, 1, 2], "all is given out")
    _rewind(memory, {(topic.name, 0): 1000})
    until(lambda: problem(worker, "ends below its position 1000"), "it says so")
    assert worker.consumer.lag() == 0
    _rewind(memory, {(topic.name, 0): 1})
    until(lambda: worker.offsets() == [0, 1, 2, 1, 2], "an administrator puts it right")
