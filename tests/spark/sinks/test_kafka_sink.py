"""`KafkaSink` on a real broker: what read_committed consumers see has each batch once. No Spark here, but in the last test."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from rounds import play
from sink_tools import ROLE, Killed, Query, Rows, Steps, frame
from targets import ValueSink

from kafka_tools import PATIENCE, client, new_topic, read
from pares.core.errors import ConfigError, LedgerUnavailable, Stale
from pares.fence.kafka import KafkaFence, Transaction
from pares.spark.sinks.base import Incomplete, Seat, Staged, deliver
from pares.spark.sinks.extents import NotContiguous, OffsetExtent, StreamExtent
from pares.spark.sinks.kafka import KafkaSink
from pares.spark.sinks.kafka_marks import Marks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from pares.dev import Kafka

FIRST, SECOND = StreamExtent("q", 0, None, "4"), StreamExtent("q", 1, "4", "8")
OLD, NEW = Seat(ROLE, 0, 1), Seat(ROLE, 0, 2)


class Sink(ValueSink):
    def __init__(self, kafka: Kafka, topic: str, **settings: Any) -> None:
        super().__init__(kafka.topic_url(topic), timeout=5.0, transaction_timeout=5.0, **settings)
        self.kafka = kafka

    def rows(self) -> list[int]:
        return [int(value) for value in read(self.kafka, self.topic)]


@pytest.fixture
def topic(kafka: Kafka) -> str:
    return new_topic(kafka)


@pytest.fixture
def sinks(kafka: Kafka, topic: str) -> Iterator[Any]:
    """Makes sinks on the same topic, each as in a process of its own."""
    made: list[Sink] = []

    def make(**settings: Any) -> Sink:
        made.append(Sink(kafka, topic, **settings))
        return made[-1]

    yield make
    for sink in made:
        sink.close()


def test_a_query_over_two_terms(sinks: Any) -> None:
    query, old, new = Query(), sinks(), sinks()
    assert query.run(old, 1) == "done"
    assert old.rows() == list(range(12))
    query.borders.append((12, 16))
    assert query.run(new, 2) == "done"
    assert new.rows() == list(range(16))
    last = new.last(NEW)
    assert (last.number, last.token, last.rows, last.extent) == (3, 2, 4, query.extent(3))
    assert Query().run(old, 1) == "stale"
    assert not deliver(new, frame(range(12, 16)), NEW, query.extent(3)), "again: dropped"


def test_a_term_that_is_over_publishes_nothing_though_its_batch_would_follow(sinks: Any) -> None:
    old, new = sinks(), sinks()
    old.open(OLD)
    assert deliver(old, frame(range(4)), OLD, FIRST)
    staged = old.stage(frame(range(4, 8)), OLD, SECOND)
    new.open(NEW)
    for step in (lambda: old.publish(staged), lambda: old.forget(OLD), lambda: old.open(OLD)):
        with pytest.raises(Stale):
            step()
    assert new.rows() == [0, 1, 2, 3]
    assert deliver(new, frame(range(4, 8)), NEW, SECOND)
    assert new.rows() == list(range(8))


def test_a_batch_that_leaves_a_hole_is_refused_with_its_rows(sinks: Any) -> None:
    sink = sinks()
    sink.open(OLD)
    assert deliver(sink, frame(range(4)), OLD, FIRST)
    for wrong in (StreamExtent("q", 2, "8", "12"), StreamExtent("another", 0, None, "4"), OffsetExtent(4, 8)):
        with pytest.raises(NotContiguous):
            sink.publish(sink.stage(frame(range(8, 12)), OLD, wrong))
    assert not sink.publish(sink.stage(frame(range(4)), OLD, FIRST)), "again: dropped"
    assert sink.rows() == [0, 1, 2, 3]
    sink.forget(OLD)
    assert sink.last(OLD) is None
    assert deliver(sink, frame(range(4, 8)), OLD, StreamExtent("another", 0, None, "4"))
    assert sink.rows() == list(range(8))


def test_what_is_not_there_any_more_is_not_published_as_fewer_rows(sinks: Any) -> None:
    """As of an attempt that a later one has replaced."""
    sink = sinks()
    sink.open(OLD)
    first = sink.stage(frame(range(4)), OLD, FIRST)
    second = sink.stage(frame(range(4)), OLD, FIRST)
    with pytest.raises(Incomplete, match="0 rows of the 4"):
        sink.publish(first)
    assert sink.rows() == []
    assert sink.publish(second)
    assert sink.rows() == [0, 1, 2, 3]


def test_seats_groups_and_topics_are_apart(kafka: Kafka, sinks: Any) -> None:
    plain, grouped = sinks(), sinks(group="g")
    with Sink(kafka, new_topic(kafka)) as other:
        for sink in (plain, grouped, other):
            sink.open(OLD)
        for sink in (plain, grouped, other):
            assert deliver(sink, frame(range(4)), OLD, FIRST)
        assert sorted(plain.rows()) == [0, 0, 1, 1, 2, 2, 3, 3]
        assert other.rows() == [0, 1, 2, 3]
    assert plain.last(Seat(ROLE, 1, 1)) is None


@pytest.mark.parametrize("ends", ["killed", "frozen"])
def test_a_driver_that_stops_before_any_step_of_a_batch_is_followed_by_one_that_loses_and_doubles_nothing(
    kafka: Kafka, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed: what it has open is ended by its successor. Frozen: it wakes up when its successor has published the batch."""
    for point in range(20):
        topic, steps = new_topic(kafka), Steps(point, freeze=ends == "frozen")
        with Sink(kafka, topic) as old, Sink(kafka, topic) as new, monkeypatch.context() as patch:
            old.open(OLD)
            assert deliver(old, frame(range(4)), OLD, FIRST)
            said, why = list[str](), list[str]()

            def run(old: Sink = old, said: list[str] = said, why: list[str] = why) -> None:
                try:
                    said.append(str(deliver(old, frame(range(4, 8)), OLD, SECOND)))
                except (Killed, Stale, LedgerUnavailable) as error:
                    said.append(type(error).__name__)
                    why.append(str(error))

            thread = threading.Thread(target=run)
            step_in(patch, steps, thread)
            thread.start()
            if ends == "frozen":
                while not steps.frozen.wait(0.01) and thread.is_alive():
                    pass
            else:
                thread.join(PATIENCE)
            new.open(NEW)
            deliver(new, frame(range(4, 8)), NEW, SECOND)
            assert deliver(new, frame(range(8, 12)), NEW, StreamExtent("q", 2, "8", "12"))
            steps.thaw()
            thread.join(PATIENCE)
            assert not thread.is_alive()
            assert new.rows() == list(range(12)), f"before step {point}"
        if said == ["True"]:
            assert point >= 8, "all steps were taken"
            return
        assert said in (["Killed"], ["Stale"]), why
    raise AssertionError("there are more steps")


def test_two_that_publish_a_batch_of_one_term_at_the_same_time_publish_it_once(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a query was started twice: the other one publishes before any step of this one's publishing. The brokers let the
    one of them write that came last: this one is refused at first, and does it again."""
    for point in range(20):
        topic, steps = new_topic(kafka), Steps(point, freeze=True)
        with Sink(kafka, topic) as slow, Sink(kafka, topic) as other, monkeypatch.context() as patch:
            slow.open(OLD)
            other.open(OLD)
            mine, theirs = (sink.stage(frame(range(4)), OLD, FIRST) for sink in (slow, other))
            found: list[bool] = []

            def run(slow: Sink = slow, mine: Staged = mine, found: list[bool] = found) -> None:
                found.append(publish_again(slow, mine))

            thread = threading.Thread(target=run)
            step_in(patch, steps, thread)
            thread.start()
            while not steps.frozen.wait(0.01) and thread.is_alive():
                pass
            first = publish_again(other, theirs)
            steps.thaw()
            thread.join(PATIENCE)
            assert not thread.is_alive()
            assert other.rows() == [0, 1, 2, 3], f"before step {point}"
            assert found == [not first], "one of them is told that it has published"
        if steps.taken <= point:
            assert point >= 10, "all steps of two attempts were taken"
            return
    raise AssertionError("there are more steps")


def publish_again(sink: Sink, staged: Staged) -> bool:
    """Again, where a second writer of the term came between its steps."""
    for _ in range(4):
        with contextlib.suppress(LedgerUnavailable):
            return sink.publish(staged)
    return sink.publish(staged)


def step_in(patch: pytest.MonkeyPatch, steps: Steps, thread: threading.Thread) -> None:
    """Counts what `thread` does in transactions, and when it reads marks."""

    def stepped(call: Any) -> Any:
        def run(*given: Any, **named: Any) -> Any:
            if threading.current_thread() is thread:
                steps.step()
            return call(*given, **named)

        return run

    places = ((KafkaFence, "transaction"), (Transaction, "produce"), (Transaction, "flush"), (Marks, "last"))
    for kind, name in places:
        patch.setattr(kind, name, stepped(getattr(kind, name)))


def test_seats_of_one_sink_publish_from_threads_of_their_own(sinks: Any) -> None:
    sink, published = sinks(), list[bool]()

    def run(seat: int) -> None:
        held = Seat(ROLE, seat, 1)
        sink.open(held)
        for at in range(10):
            published.append(deliver(sink, frame(range(at * 4, at * 4 + 4)), held, OffsetExtent(at * 4, at * 4 + 4)))

    threads = [threading.Thread(target=run, args=(seat,)) for seat in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE)
    assert published == [True] * 30
    assert sorted(sink.rows()) == sorted([*range(40)] * 3)


def test_an_open_transaction_of_another_seat_hides_nothing(kafka: Kafka, topic: str, sinks: Any) -> None:
    """What stands behind it can't be read until it has ended; a batch is not judged by what was before it."""
    sink = sinks()
    sink.open(OLD)
    settings = {"transactional.id": f"other-{topic}", "transaction.timeout.ms": 60000}
    producer = Producer({**client(kafka), **settings})
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    producer.produce(f"{topic}.pares-batches", b"{}", b"key", partition=0)
    producer.flush(PATIENCE)
    staged = sink.stage(frame(range(4)), OLD, FIRST)
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(sink.publish(staged)))
    thread.start()
    thread.join(1)
    assert found == [], "it waits"
    producer.abort_transaction(PATIENCE)
    thread.join(PATIENCE)
    assert found == [True]
    assert sink.rows() == [0, 1, 2, 3]


def test_keys_headers_and_partitions(kafka: Kafka) -> None:
    topic = new_topic(kafka, partitions=2)
    rows = [
        {
            "key": b"k",
            "value": b"v",
            "headers": [{"key": "h", "value": b"1"}, {"key": "n", "value": None}],
            "partition": 1,
        },
        {"key": None, "value": None, "headers": None, "partition": 1},
        {"key": b"k", "value": b"by key", "headers": None, "partition": None},
    ]
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    kinds = [("key", pa.binary()), ("value", pa.binary()), ("headers", pa.list_(header)), ("partition", pa.int32())]
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema(kinds))
    given: Any = Rows([batch], batch.schema.names)
    with KafkaSink(kafka.topic_url(topic), timeout=5.0, options={"partitioner": "murmur2_random"}) as sink:
        sink.open(OLD)
        assert deliver(sink, given, OLD, FIRST)
    consumer = Consumer({**client(kafka), "group.id": "g", "enable.partition.eof": True})
    found: list[Message] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(2)])
        ends = 0
        while ends < 2 and (message := consumer.poll(PATIENCE)) is not None:
            error = message.error()
            if error is None:
                found.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF
                ends += 1
    finally:
        consumer.close()
    first, second = (one for one in found if one.value() != b"by key" and one.partition() == 1)
    assert (first.key(), first.value(), first.headers()) == (b"k", b"v", [("h", b"1"), ("n", None)])
    assert (second.key(), second.value(), second.headers()) == (None, None, None)
    assert len(found) == 3


def test_bad_input(kafka: Kafka, topic: str, sinks: Any) -> None:
    with pytest.raises(ConfigError, match="there is no topic nowhere"):
        KafkaSink(kafka.topic_url("nowhere"), timeout=5.0)
    with pytest.raises(ConfigError, match="is no Kafka: a KafkaSink needs kafka://"):
        KafkaSink("sqlite:///x.db")
    sinks().open(OLD)
    with KafkaSink(kafka.topic_url(topic), timeout=5.0) as sink:
        for columns, says in (
            ({"id": [1]}, "the columns id: a KafkaSink takes key, value, headers, partition, each once"),
            ({"key": ["a"]}, "needs value"),
            ({"value": [1]}, "column value is int64, and a KafkaSink takes text or binary: cast it"),
            ({"value": ["a"], "partition": ["1"]}, "column partition is string, and a KafkaSink takes an integer"),
            ({"value": ["a"], "headers": [["b"]]}, "column headers is list.*an array of structures"),
        ):
            given: Any = Rows([pa.RecordBatch.from_pydict(columns)], list(columns))
            with pytest.raises(ConfigError, match=says):
                sink.stage(given, OLD, FIRST)


@pytest.mark.processes
def test_processes_that_are_killed_and_frozen_publish_each_row_once(kafka: Kafka) -> None:
    found = play(kafka.topic_url(new_topic(kafka)), 3, 3, naive=False, to="kafka")
    assert (found.doubled, found.lost) == (0, 0)
    assert found.batches >= 4


@pytest.mark.spark
def test_rows_of_executors(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    df = spark.range(1000).repartition(4).selectExpr("CAST(id AS string) AS key", "CAST(id AS string) AS value")
    with KafkaSink(kafka.topic_url(topic), timeout=5.0) as sink:
        sink.open(OLD)
        with pytest.raises(ConfigError, match="column value is int64"):
            sink.stage(spark.range(3).selectExpr("id AS value"), OLD, FIRST)
        assert deliver(sink, df, OLD, FIRST)
        assert not deliver(sink, df, OLD, FIRST)
    assert sorted(map(int, read(kafka, topic))) == list(range(1000))
