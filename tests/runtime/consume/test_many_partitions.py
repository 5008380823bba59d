"""What many partitions cost a consumer, in requests to their source: as many as there are topics, and not as partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from consume_tools import Topic, Worker
from runtime_tools import until

from pares.core.errors import LedgerUnavailable
from pares.runtime.consume import consumer as consumers
from pares.runtime.consume.consumer import Consumer

Make = Callable[..., Consumer]
MANY = 60


class Counted(Topic):
    """Counts its calls, by their names."""

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions=partitions)
        self.calls: Counter[str] = Counter()
        self.fail = lambda call: self.calls.update([call])

    def rounds(self, count: int) -> None:
        """So many looks for something new go by."""
        end = self.calls["changed"] + count
        until(lambda: self.calls["changed"] >= end, "it looks again and again")


def test_partitions_with_nothing_new_cost_one_look_together(make: Make) -> None:
    topic = Counted(MANY)
    consumer = make(topic)
    worker = Worker(consumer)
    until(lambda: consumer.load() == MANY, "it has them all")
    topic.rounds(3)
    topic.calls.clear()
    topic.rounds(10)
    assert topic.calls["fetch"] == 0
    topic.append("x", partition=7)
    until(lambda: worker.offsets(7) == [0], "what comes is given out")
    topic.rounds(3)
    assert 1 <= topic.calls["fetch"] <= 3, "and nothing else is fetched"
    consumer.close()
    worker.join()


def test_ends_are_asked_for_at_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "LOOKS", 0.05)
    topic = Counted(MANY)
    consumer = make(topic)
    worker = Worker(consumer)
    until(lambda: consumer.load() == MANY, "it has them all")
    before = topic.calls["ends"]
    until(lambda: topic.calls["ends"] >= before + 3, "it looks at how the work goes (C7)")
    topic.append(*"abc", partition=3)
    until(lambda: len(worker.seen) == 3, "given out")
    until(lambda: consumer.lag() == 0, "and done")
    assert topic.calls["end"] == 0
    consumer.close()
    worker.join()


def test_c2_partitions_that_begin_at_the_end_are_looked_at_together(make: Make) -> None:
    topic = Counted(MANY)
    for partition in range(MANY):
        topic.append("old", partition=partition)
    consumer = make(topic, start="latest")
    worker = Worker(consumer)
    until(lambda: consumer.load() == MANY, "it has them all")
    until(lambda: len(consumer.claims()) == sum(claim.position == 1 for claim in consumer.claims()), "all begin there")
    assert topic.calls["end"] == 0
    assert 1 <= topic.calls["ends"] <= MANY // 4
    topic.append("new", partition=9)
    until(lambda: worker.seen == [("orders", 9, 1)], "what came later is given out")
    consumer.close()
    worker.join()


def test_a_partition_that_can_not_be_read_leaves_the_others_alone(make: Make) -> None:
    """Whatever fails in the look at all of them is found again where it is one partition's matter."""
    topic = Counted(4)
    counted, broken = topic.fail, {"changed": True}

    def fail(call: str) -> None:
        counted(call)
        if call == "changed" and broken["changed"]:
            raise LedgerUnavailable("nothing can be said now")

    topic.fail = fail
    consumer = make(topic)
    worker = Worker(consumer)
    topic.append("a", partition=2)
    until(lambda: worker.offsets(2) == [0], "each is fetched by itself")
    broken["changed"] = False
    topic.append("b", partition=1)
    until(lambda: worker.offsets(1) == [0], "and together again")
    consumer.close()
    worker.join()
