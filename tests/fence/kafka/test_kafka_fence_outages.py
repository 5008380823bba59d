"""KafkaFence while no broker answers, or is gone in the middle of a transaction."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer
from kafka_fence_tools import Term, made, name, write, write_again

from kafka_tools import PATIENCE, client, new_topic, read
from pares.core.errors import LedgerUnavailable
from pares.dev import Kafka
from pares.fence import KafkaFence
from pares.ledger.kafka.seek import _Client  # pyright: ignore[reportPrivateUsage]


def test_no_broker_answers() -> None:
    with pytest.raises(LedgerUnavailable, match=r"no broker answers at 127\.0\.0\.1:1,127\.0\.0\.1:2"):
        KafkaFence("kafka://127.0.0.1:1,127.0.0.1:2/fence", timeout=0.5)


@pytest.mark.processes
def test_brokers_that_are_gone_in_the_middle() -> None:
    with Kafka() as kafka:
        topic, term = new_topic(kafka), Term("r", 0, 1)
        fence = KafkaFence(kafka.topic_url("fence"), timeout=1.0, transaction_timeout=4.0)
        write(fence, term, topic, b"before")
        sent: list[tuple[bytes, bool]] = []
        for value, flushed in ((b"not sent", False), (b"sent", True)):
            arrived: list[object] = []
            with pytest.raises(LedgerUnavailable) as caught, fence.transaction(term) as out:  # noqa: PT012
                if not flushed:
                    kafka.freeze(1)
                out.produce(topic, value, partition=0, on_delivery=lambda *told, arrived=arrived: arrived.append(told))
                if flushed:
                    writer = out._open()  # pyright: ignore[reportPrivateUsage]
                    writer._producer.flush(PATIENCE)  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]
                    assert arrived
                    kafka.freeze(1)
            sent.append((value, caught.value.unknown))
            assert kafka.bootstrap in str(caught.value)
            with pytest.raises(LedgerUnavailable):
                fence.check(Term("r", 0, 2))
            kafka.thaw(1)
            write_again(fence, term, topic, b"after " + value)
        assert sent == [(b"not sent", False), (b"sent", True)]
        found = read(kafka, topic)
        # A commit that was sent and not answered may have happened; in its place, before what came after it.
        wanted = [b"before", b"after not sent", b"after sent"]
        assert found in (wanted, [*wanted[:2], b"sent", wanted[2]])
        kafka.kill(1)
        with pytest.raises(LedgerUnavailable):
            write(fence, term, topic, b"to nobody")
        kafka.restart(1)
        write_again(fence, term, topic, b"at last")
        assert read(kafka, topic) == [*found, b"at last"]
        fence.close()


def test_a_client_that_knows_no_broker_any_more_is_replaced(broker: Kafka) -> None:
    """A lone broker that was frozen may say for a moment that the cluster has none; then its clients have nobody to ask."""
    fence = made(broker, name(), timeout=1.0)
    fence.check(Term("r", 0, 5))
    seeker = fence._tokens._seeker  # pyright: ignore[reportPrivateUsage]
    lost = Consumer({**client(broker), "group.id": "lost", "bootstrap.servers": "127.0.0.1:1"})
    seeker._client = _Client(lost)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(LedgerUnavailable):
        fence.seen("r")
    assert fence.seen("r") == 5
    fence.close()
    with pytest.raises(RuntimeError):  # it is closed
        lost.list_topics(timeout=0.1)
