"""Positions, committed to a broker's group offsets as well: copied from the log, and of no effect on what is given out."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from consume_tools import Topic, Worker
from runtime_tools import until

import pares
from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger import open_source
from pares.runtime.consume.consumer import Consumer
from pares.runtime.consume.outside import group_offsets

Make = Callable[..., Consumer]


class Dashboard(Topic):
    """A topic on a service that keeps offsets for groups."""

    def __init__(self, partitions: int = 1) -> None:
        super().__init__(partitions=partitions)
        self.offsets: dict[str, dict[int, int]] = {}
        self.commits: list[dict[int, int]] = []
        self.group = ""

    def group_offsets(self, group: str) -> Dashboard:
        self.group = group
        return self

    def commit(self, offsets: Mapping[int, int]) -> None:
        self.fail("commit")
        self.commits.append(dict(offsets))
        self.offsets.setdefault(self.group, {}).update(offsets)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_offsets, "PACE", 0.01)
    monkeypatch.setattr(group_offsets, "LONGEST", 0.1)


def test_positions_are_committed_as_the_log_has_them(make: Make) -> None:
    topic = Dashboard(2)
    topic.append(*"abcdef")
    consumer = make(topic, batch=2, group_offsets="billing-lag")
    batches = consumer.batches()
    first, second = next(batches), next(batches)
    second.done()
    consumer.flush()
    until(lambda: topic.offsets == {"billing-lag": {0: 0, 1: 0}}, "it has committed what it holds")
    before = len(topic.commits)
    until(lambda: len(topic.commits) > before + 1, "and again")
    assert topic.offsets["billing-lag"][0] == 0, "nothing passes what is not done"
    first.done()
    consumer.flush()
    until(lambda: topic.offsets["billing-lag"][0] == 4, "both are done")
    found = consumer.health().consumption
    assert found is not None
    assert (found.group_offsets, found.commits_failed, found.commit_trouble) == ("billing-lag", 0, None)
    next(batches).done()
    consumer.close()
    assert topic.offsets["billing-lag"][0] == 6, "where it has left it"


def test_a_commit_that_fails_stops_nothing_and_is_shown(make: Make) -> None:
    topic = Dashboard()
    broken = True

    def fail(call: str) -> None:
        if call == "commit" and broken:
            raise LedgerUnavailable("the broker has no coordinator")

    topic.fail = fail
    topic.append(*"abc")
    consumer = make(topic, group_offsets="lag")
    worker = Worker(consumer)
    until(lambda: len(worker.seen) == 3, "all is given out")

    def failed() -> int:
        found = consumer.health().consumption
        assert found is not None
        return found.commits_failed

    until(lambda: failed() > 1, "it tries again and again")
    topic.append("d")
    until(lambda: len(worker.seen) == 4, "it goes on")
    health = consumer.health()
    assert health.ok
    assert any("no coordinator" in problem for problem in health.problems)
    assert health.consumption is not None
    assert health.consumption.commit_trouble == "the broker has no coordinator"
    broken = False
    consumer.flush()
    until(lambda: topic.offsets.get("lag") == {0: 4}, "it catches up")
    until(lambda: (found := consumer.health().consumption) and found.commit_trouble is None, "and says so")


def test_a_position_that_does_not_move_is_committed_again_now_and_then(make: Make) -> None:
    """A consumer that has lost the partition, and does not know, may have committed an older one meanwhile."""
    topic = Dashboard()
    topic.append(*"abc")
    consumer = make(topic, group_offsets="lag")
    worker = Worker(consumer)
    until(lambda: len(worker.seen) == 3, "all is given out")
    consumer.flush()
    until(lambda: topic.offsets.get("lag") == {0: 3}, "it is committed")
    topic.offsets["lag"][0] = 1
    until(lambda: topic.offsets["lag"] == {0: 3}, "it is mended")


def test_the_log_counts_whatever_stands_there(make: Make) -> None:
    topic = Dashboard()
    topic.append(*"abcd")
    topic.offsets = {"lag": {0: 3}}
    worker = Worker(make(topic, group_offsets="lag"))
    until(lambda: worker.offsets() == [0, 1, 2, 3], "it begins where the log says")


def test_of_a_partition_that_several_work_on_one_commits(make: Make) -> None:
    topic = Dashboard()
    topic.append(*(str(number) for number in range(200)))
    given: dict[str, Any] = {"claim": "ranges", "slots": 4, "batch": 5, "group_offsets": "lag"}
    workers = [Worker(make(topic, name, **given)) for name in "ab"]
    until(lambda: sum(len(worker.seen) for worker in workers) == 200, "all is done")
    for worker in workers:
        worker.consumer.flush()
    until(lambda: topic.offsets.get("lag") == {0: 200}, "it is committed")


@pytest.mark.parametrize(("topics", "group", "error"), [(Topic(), "g", CapabilityError), (None, "", ConfigError)])
def test_what_can_not_be_committed_is_refused_at_once(
    url: str, topics: Any, group: str, error: type[Exception], request: pytest.FixtureRequest
) -> None:
    if topics is None:
        pytest.importorskip("confluent_kafka")
        from pares.ledger.kafka.offsets import KafkaOffsets

        with pytest.raises(error):
            KafkaOffsets(None, "orders", group)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        return
    with pytest.raises(error, match="keeps no offsets"):
        Consumer(url, group="g", topics=[topics], group_offsets=group)


@pytest.mark.brokers
def test_on_kafka_tools_see_the_lag_and_a_group_with_members_keeps_its_own(kafka: Any, memory: str) -> None:
    from confluent_kafka import Consumer as Plain
    from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    topic, group = f"t-{uuid.uuid4().hex[:8]}", f"lag {uuid.uuid4().hex[:8]} / ü"
    admin: Any = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    writer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(20):
        writer.produce(topic, b"x", partition=number % 2)
    assert writer.flush(30) == 0

    def committed() -> dict[int, int]:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0), TopicPartition(topic, 1)])
        answer = admin.list_consumer_group_offsets([asked])[group].result(30)
        return {place.partition: place.offset for place in answer.topic_partitions}

    source = f"kafka://{kafka.bootstrap}"
    until(lambda: open_source(source, topic), "the topic is there").close()
    given: dict[str, Any] = {"group": "g", "topics": topic, "source": source, "group_offsets": group, "session": 5.0}
    with pares.Consumer(memory, name="a", **given) as consumer:
        worker = Worker(consumer)
        until(lambda: len(worker.seen) == 20, "all is given out")
        consumer.flush()
        until(lambda: committed() == {0: 10, 1: 10}, "the broker has it")
        plain: Any = Plain({"bootstrap.servers": kafka.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
        try:
            plain.subscribe([topic])

            def refused() -> bool:
                plain.poll(0.05)
                found = consumer.health().consumption
                return found is not None and "members of its own" in (found.commit_trouble or "")

            until(refused, "the group is that of somebody else by now", 60)
            writer.produce(topic, b"y", partition=0)
            until(lambda: writer.flush(0.1) == 0 and len(worker.seen) == 21, "the consumer goes on")
        finally:
            plain.close()
        consumer.flush()
        until(lambda: committed() == {0: 11, 1: 10}, "the name is free again", 60)
