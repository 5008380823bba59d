"""KafkaFence on a real broker: what read_committed consumers see never goes back to an earlier term."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka_fence_tools import Term, made, name, twin, write

from kafka_tools import PATIENCE, client, new_topic, read
from pares.core.errors import ClosedError, ConfigError, ForkedError, LeadershipLost, LedgerUnavailable, Stale
from pares.dev import Kafka
from pares.fence import KafkaFence
from pares.fence.kafka import PREFIX


def test_a_lower_token_is_refused(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    assert fence.seen("r") is None
    write(fence, Term("r", 0, 5), topic, b"a5")
    write(fence, Term("r", 0, 5), topic, b"a5 again")
    write(fence, Term("r", 0, 7), topic, b"a7")
    for one in (fence, twin(fence, broker)):
        with pytest.raises(Stale) as stale:
            write(one, Term("r", 0, 6), topic, b"a6")
        assert (stale.value.token, stale.value.seen) == (6, 7)
        with pytest.raises(Stale):
            one.check(Term("r", 0, 5))
    write(fence, Term("r", 0, 7), topic, b"a7 again")
    assert fence.seen("r") == 7
    assert [value for value in read(broker, topic) if value.startswith(b"a")] == [
        b"a5",
        b"a5 again",
        b"a7",
        b"a7 again",
    ]


def test_a_refused_term_harms_nobody(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    """It is refused by a look, before it says anything that would shut the right one out."""
    with fence.transaction(Term("r", 0, 7)) as out:
        out.produce(topic, b"b7", partition=0)
        with pytest.raises(Stale):
            twin(fence, broker).check(Term("r", 0, 6))
    assert b"b7" in read(broker, topic)


def test_what_was_flushed_is_with_the_brokers_and_not_committed(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    offsets: list[int | None] = []
    term = Term("r", 0, 1)

    def aborted() -> None:
        with fence.transaction(term) as out:
            out.produce(topic, b"f1", partition=0, on_delivery=lambda error, message: offsets.append(message.offset()))
            out.flush()
            assert len(offsets) == 1
            assert offsets[0] is not None
            assert b"f1" not in read(broker, topic)
            raise ZeroDivisionError

    def refused() -> None:
        with fence.transaction(term) as out:
            twin(fence, broker).check(Term("r", 0, 2))
            out.produce(topic, b"f2", partition=0)
            out.flush()

    with pytest.raises(ZeroDivisionError):
        aborted()
    with pytest.raises(Stale):
        refused()
    assert not {b"f1", b"f2"} & set(read(broker, topic))


def test_seats_and_groups_are_fenced_apart(broker: Kafka, topic: str) -> None:
    shared = name()
    plain, grouped = made(broker, shared), made(broker, shared, "g")
    odd = "a/b%2F ü '\"" + "x" * 180
    for fence, role, seat in [(plain, "r", 0), (plain, "r", 1), (plain, "R", 0), (plain, odd, 0), (grouped, "r", 0)]:
        assert fence.seen(role, seat) is None
        fence.check(Term(role, seat, 9 - seat))
        with pytest.raises(Stale):
            made(broker, shared, fence.group).check(Term(role, seat, 1))
    ids = {
        plain.transactional_id("a/b"),
        plain.transactional_id("a", 0),
        made(broker, shared, "a").transactional_id("b"),
    }
    assert len(ids) == 3
    assert all(one.startswith(PREFIX) for one in ids)


def test_what_the_body_raises_aborts(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    term = Term("r", 0, 1)
    write(fence, term, topic, b"c kept")
    for value in (b"c one", b"c two"):
        with pytest.raises(ZeroDivisionError), fence.transaction(term) as out:  # noqa: PT012
            out.produce(topic, value, partition=0)
            _ = 1 / 0
        with pytest.raises(ConfigError, match="over"):
            out.produce(topic, b"c late", partition=0)
    write(fence, term, topic, b"c kept too")
    assert [value for value in read(broker, topic) if value.startswith(b"c")] == [b"c kept", b"c kept too"]


def test_records_have_all_that_a_producer_gives(broker: Kafka, fence: KafkaFence) -> None:
    topic = new_topic(broker, partitions=3)
    told: list[tuple[Any, int]] = []
    with fence.transaction(Term("r", 0, 1)) as out:
        out.produce(
            topic,
            "value",
            "key",
            partition=2,
            headers={"h": b"x"},
            timestamp=1_700_000_000_000,
            on_delivery=lambda error, message: told.append((error, message.partition() or 0)),
        )
        out.produce(topic, None, b"gone")
    assert told == [(None, 2)]
    consumer = Consumer({**client(broker), "group.id": "judge"})
    consumer.assign([TopicPartition(topic, 2, 0)])
    message = consumer.poll(PATIENCE)
    assert message is not None
    assert (message.value(), message.key(), message.headers()) == (b"value", b"key", [("h", b"x")])
    assert message.timestamp()[1] == 1_700_000_000_000
    consumer.close()


def test_a_term_that_is_over_passes_no_more_but_may_end_its_work(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    with pytest.raises(LeadershipLost, match="token 3 is over"):
        write(fence, Term("r", 0, 3, holds=False), topic, b"g")
    assert fence.seen("r") is None
    fence.check(Term("r", 0, 4))
    write(fence, Term("r", 0, 4, holds=False), topic, b"g in the barrier")
    assert b"g in the barrier" in read(broker, topic)
    fence.check(Term("r", 0, 5))
    with pytest.raises(Stale):
        write(fence, Term("r", 0, 4, holds=False), topic, b"g")


def test_two_writers_for_one_term_shut_each_other_out(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    other, term = twin(fence, broker), Term("r", 0, 1)
    write(fence, term, topic, b"h1")
    write(other, term, topic, b"h2")
    with pytest.raises(LedgerUnavailable, match="another one writes for this term too"):
        write(fence, term, topic, b"h3")
    write(fence, term, topic, b"h4")
    assert [value for value in read(broker, topic) if value.startswith(b"h")] == [b"h1", b"h2", b"h4"]


def test_a_transaction_that_takes_too_long(broker: Kafka, topic: str) -> None:
    fence, term = made(broker, name(), transaction_timeout=1.0), Term("r", 0, 1)
    with pytest.raises(LedgerUnavailable, match="transaction_timeout=1 s"), fence.transaction(term) as out:  # noqa: PT012
        out.produce(topic, b"i slow", partition=0)
        time.sleep(2.5)
    write(fence, term, topic, b"i quick")
    assert [value for value in read(broker, topic) if value.startswith(b"i")] == [b"i quick"]


def test_one_transaction_of_a_seat_at_a_time(broker: Kafka, fence: KafkaFence, topic: str) -> None:
    term, order = Term("r", 0, 1), list[str]()

    def other() -> None:
        write(fence, term, topic, b"j second")
        order.append("second")

    with fence.transaction(term) as out:
        out.produce(topic, b"j first", partition=0)
        with pytest.raises(ConfigError, match="is open in this thread"):
            write(fence, term, topic, b"j nested")
        with pytest.raises(ConfigError, match="is open in this thread"):
            fence.close()
        write(fence, Term("r", 1, 1), topic, b"j of another seat")
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.2)
        order.append("first")
    thread.join(PATIENCE)
    assert order == ["first", "second"]


def test_a_fence_that_was_closed_or_inherited(broker: Kafka, topic: str) -> None:
    fence, term = made(broker, name()), Term("r", 0, 1)
    write(fence, term, topic, b"k")
    child = os.fork()
    if child == 0:
        try:
            write(fence, term, topic, b"k child")
        except ForkedError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    fence.close()
    fence.close()
    for use in (lambda: fence.check(term), lambda: write(fence, term, topic, b"k"), lambda: fence.seen("r")):
        with pytest.raises(ClosedError):
            use()
    assert b"k child" not in read(broker, topic)
