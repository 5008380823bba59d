"""Dead letters in the logs of real servers: a record that is given up stands there before it is done (C10)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from consume_tools import Running, Topic
from runtime_tools import until

import pares
from pares.core.errors import CapabilityError
from pares.runtime.consume.consumer import Consumer
from pares.runtime.consume.dead_letters import Letter, letter_of

pytestmark = pytest.mark.brokers


@pytest.fixture(params=["kafka", "nats"])
def where(request: pytest.FixtureRequest) -> str:
    """The URL of a log that is not there yet."""
    server: Any = request.getfixturevalue(request.param)
    return f"{server.url.rpartition('/')[0]}/dead-{uuid.uuid4().hex[:8]}"


def letters(url: str) -> list[Letter]:
    ledger = pares.open(url)
    try:
        found: list[Letter] = []
        at = ledger.start()
        while at < ledger.end():
            for entry in ledger.read(at):
                found.append(letter_of(entry.payload))
                at = entry.offset + 1
        return found
    finally:
        ledger.close()


def test_c10_what_fails_again_and_again_stands_in_a_log_of_the_server_and_the_rest_goes_on(
    where: str, memory: str
) -> None:
    topic, seen = Topic(), list[int]()
    topic.append("good", "bad", "good", key=b"k")

    def handle(record: Any) -> None:
        seen.append(record.offset)
        if record.payload == b"bad":
            raise ValueError("no such fruit")

    given: dict[str, Any] = {"session": 5.0, "retries": 2, "backoff": 0.05, "dead_letter": where}
    with Consumer(memory, group="g", topics=[topic], name="a", **given) as consumer:  # type: ignore[list-item]
        running = Running(consumer, handle)
        until(lambda: seen.count(2) == 1, "it goes on behind the one that is given up")
        found = letters(where)
        consumer.flush()
        assert consumer.lag() == 0
    running.join()
    assert seen == [0, 1, 1, 1, 2]
    [letter] = found
    assert (letter.topic, letter.partition, letter.offset) == ("orders", 0, 1)
    assert (letter.key, letter.payload, letter.deliveries) == (b"k", b"bad", 3)
    assert "no such fruit" in letter.why
    assert (letter.group, letter.member.split("~")[0]) == ("g", "a")


def test_c10_a_topic_of_the_server_by_its_name_alone_is_refused_with_what_to_do(where: str) -> None:
    with pytest.raises(CapabilityError, match="give the URL of a log"):
        Consumer(where, group="g", topics=[Topic()], dead_letter="orders.dead")  # type: ignore[list-item]
