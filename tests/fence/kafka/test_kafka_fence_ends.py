"""How a KafkaFence's writer ends: it knows why, whatever was told before, and its client has nothing under way."""

from __future__ import annotations

import logging
from collections.abc import Callable

import confluent_kafka
import pytest
from kafka_fence_tools import Term, twin, write

from kafka_tools import PATIENCE
from pares.core.errors import Stale
from pares.dev import Kafka
from pares.fence import KafkaFence, kafka_writer
from pares.fence.kafka_writer import Fenced, Writer


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The records that were under way as each producer ended."""
    found: list[int] = []

    class Watched(confluent_kafka.Producer):
        def __del__(self) -> None:
            found.append(len(self))

    monkeypatch.setattr(confluent_kafka, "Producer", Watched)
    return found


@pytest.fixture
def writer(fence: KafkaFence) -> Writer:
    settings = fence._settings  # pyright: ignore[reportPrivateUsage]
    made = Writer(settings, fence.url, fence.transactional_id("r"), 1, 10_000)
    made.init(lambda: None)
    made.begin()
    return made


def test_a_writer_takes_back_what_is_under_way(ends: list[int], writer: Writer, topic: str) -> None:
    told: list[object] = []
    for number in range(1000):
        writer.produce(topic, b"%d" % number, None, lambda *delivered: told.append(delivered), {"partition": 0})
    heard = len(told)
    writer.close()
    assert ends == [0]
    assert len(told) == heard, "a transaction that is over tells nothing"


@pytest.mark.parametrize("flushed", [False, True])
def test_a_writer_that_is_refused_ends_when_all_answers_have_come(
    broker: Kafka, fence: KafkaFence, topic: str, ends: list[int], flushed: bool
) -> None:
    """What the brokers refuse ends a transaction for the client, and while it says so, other answers may come."""
    successor = twin(fence, broker)
    for at in range(5):
        with pytest.raises(Stale), fence.transaction(Term("r", 0, 2 * at + 1)) as out:  # noqa: PT012
            out.produce(topic, b"x", partition=0)
            if flushed:
                out.flush()
            write(successor, Term("r", 0, 2 * at + 2), topic, b"y")
            for _ in range(20):
                out.produce(topic, b"x")
    assert len(ends) >= 5
    assert not any(ends)


def produces(writer: Writer, topic: str) -> None:
    writer.produce(topic, b"z", None, None, {"partition": 0})


def commits(writer: Writer, _: str) -> None:
    writer.commit()


def begins(writer: Writer, _: str) -> None:
    writer.begin()


@pytest.mark.parametrize("does", [produces, commits, begins])
def test_why_a_writer_ended_is_known_though_it_was_told_before(
    broker: Kafka, fence: KafkaFence, writer: Writer, topic: str, does: Callable[[Writer, str], None]
) -> None:
    """The client tells it once to the one that polls, and maybe later than its calls fail."""
    twin(fence, broker).check(Term("r", 0, 2))
    client = writer._producer  # pyright: ignore[reportPrivateUsage]
    client.produce(topic, b"y", partition=0)
    told = False
    while not told:
        try:
            client.poll(PATIENCE)
        except confluent_kafka.KafkaException:
            told = True
    with pytest.raises(Fenced):
        does(writer, topic)
    writer.close()


class Hanging:
    """A client whose connections hang: it tells of no record."""

    def __init__(self, fails: Callable[[], None]) -> None:
        self.purge = self.poll = lambda *_, **__: fails()

    def __len__(self) -> int:
        return 1


def test_a_client_that_does_not_end_is_left(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> None:
        raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(-144))

    left: list[object] = []
    monkeypatch.setattr(kafka_writer, "_left", left)
    monkeypatch.setattr(writer, "_patience", 0.05)
    hanging = Hanging(fails)
    monkeypatch.setattr(writer, "_producer", hanging)
    with caplog.at_level(logging.WARNING, "pares.kafka"):
        writer.close()
    assert left == [hanging]
    assert "a client does not end" in caplog.text
