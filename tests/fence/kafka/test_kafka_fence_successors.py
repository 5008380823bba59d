"""KafkaFence when a successor passes: what the old term has begun is never committed, however late it comes."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka_fence_tools import Term, made, name, twin, write

from kafka_tools import PATIENCE, client, new_topic, read
from pares.core.errors import LedgerUnavailable, Stale
from pares.dev import Kafka
from pares.fence import KafkaFence
from pares.fence.kafka_writer import Writer


def test_an_open_transaction_ends_when_a_successor_passes(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    successor = twin(fence, broker)
    for at, value in enumerate((b"d at the end", b"d before")):
        old, new = Term("r", 0, 10 * at + 1), Term("r", 0, 10 * at + 2)
        with pytest.raises(Stale) as stale, fence.transaction(old) as out:  # noqa: PT012
            if at:
                out.produce(topic, value, partition=0)
            successor.check(new)
            if not at:
                out.produce(topic, value, partition=0)
        assert (stale.value.token, stale.value.seen) == (old.token, new.token)
        write(successor, new, topic, b"d of the successor")
    assert [value for value in read(broker, topic) if value.startswith(b"d")] == [b"d of the successor"] * 2


def test_a_body_that_goes_on_after_stale_commits_nothing(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    refused: list[Stale] = []
    with pytest.raises(Stale), fence.transaction(Term("r", 0, 1)) as out:  # noqa: PT012
        out.produce(topic, b"e one", partition=0)
        twin(fence, broker).check(Term("r", 0, 2))
        end = time.monotonic() + PATIENCE
        while not refused and time.monotonic() < end:
            try:
                out.produce(topic, b"e more", partition=0)
            except Stale as stale:
                refused.append(stale)
            time.sleep(0.02)
        assert refused
        with pytest.raises(Stale):
            out.produce(topic, b"e after", partition=0)
    assert not [value for value in read(broker, topic) if value.startswith(b"e")]


def test_positions_of_a_consumer_count_only_with_the_transaction(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    source = new_topic(broker)
    producer = Producer(client(broker))
    producer.produce(source, b"in", partition=0)
    producer.flush(PATIENCE)
    consumer = Consumer(
        {**client(broker), "group.id": source, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([source])
    assert consumer.poll(PATIENCE) is not None
    place, members = consumer.position([TopicPartition(source, 0)]), consumer.consumer_group_metadata()
    with pytest.raises(Stale), fence.transaction(Term("r", 0, 1)) as out:  # noqa: PT012
        out.send_offsets(place, members)
        twin(fence, broker).check(Term("r", 0, 2))
    assert consumer.committed([TopicPartition(source, 0)], PATIENCE)[0].offset < 0
    with fence.transaction(Term("r", 0, 3)) as out:
        out.send_offsets(place, members)
    assert consumer.committed([TopicPartition(source, 0)], PATIENCE)[0].offset == 1
    consumer.close()


def test_one_that_comes_late_is_refused_and_the_right_one_goes_on(
    broker: Kafka, fence: KafkaFence, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers go by who came last. A process that stood still before its `init_transactions` shuts out its successor."""
    late, first = twin(fence, broker), Writer.init
    right, wrong = Term("r", 0, 7), Term("r", 0, 5)
    came: list[int] = []

    def init(writer: Writer, look: Callable[[], None]) -> None:
        came.append(writer.token)
        if came == [wrong.token]:
            fence.check(right)  # while it stands still, its successor passes
            waiting.set()
            assert go_on.wait(PATIENCE)
            first(writer, lambda: None)  # no look while it waits: so it comes as far as it can
        else:
            first(writer, look)

    def zombie() -> None:
        with pytest.raises(Stale) as stale:
            write(late, wrong, topic, b"f wrong")
        told.append(stale.value.seen)

    monkeypatch.setattr(Writer, "init", init)
    waiting, go_on = threading.Event(), threading.Event()
    told: list[int] = []
    thread = threading.Thread(target=zombie)
    thread.start()
    assert waiting.wait(PATIENCE)
    with pytest.raises(LedgerUnavailable, match="no higher token") as disturbed, fence.transaction(right) as out:  # noqa: PT012
        out.produce(topic, b"f aborted", partition=0)
        go_on.set()
        thread.join(PATIENCE)
    assert told == [7]
    assert disturbed.value.unknown is False or "only the answer was lost" in str(disturbed.value)
    write(fence, right, topic, b"f right")
    with pytest.raises(Stale):
        write(late, wrong, topic, b"f wrong again")
    write(fence, right, topic, b"f right again")
    assert came == [5, 7, 7]
    assert [value for value in read(broker, topic) if value.startswith(b"f")] == [b"f right", b"f right again"]


def test_whatever_the_order_tokens_never_fall(broker: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms in four processes at once, each slow at other places."""
    rounds = int(os.environ.get("PARES_ROUNDS", "6"))
    topic, shared, first = new_topic(broker), name(), Writer.init
    dice, lock = random.Random(0), threading.Lock()
    issued, over, committed = [0], threading.Event(), list[int]()

    def draw() -> float:
        with lock:
            return dice.choice([0.0, 0.0, 0.1, 0.6])

    def init(writer: Writer, look: Callable[[], None]) -> None:
        time.sleep(draw())
        first(writer, look)

    def work() -> None:
        fence = made(broker, shared)
        while not over.is_set():
            with lock:
                issued[0] += 1
                term = Term("r", 0, issued[0])
            time.sleep(draw())
            try:
                for _ in range(3):
                    write(fence, term, topic, b"%d" % term.token)
                    committed.append(term.token)
            except (Stale, LedgerUnavailable):
                continue
        fence.close()

    monkeypatch.setattr(Writer, "init", init)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + PATIENCE * max(1, rounds // 4)
    while len(committed) < rounds and time.monotonic() < end:
        time.sleep(0.05)
    over.set()
    for thread in threads:
        thread.join(PATIENCE * 2)
    values = [int(value) for value in read(broker, topic)]
    assert len(committed) >= rounds
    assert values == sorted(values), "a lower token was committed after a higher one"
    for token in set(committed):
        assert values.count(token) >= committed.count(token), "committed, and not there"
