"""A worker of a plain consumer group, as one writes it for at least once: what was done is committed a quarter of a session
later at most, as often as pares writes its beats.

Until it may go, what it is assigned is paused: so groups are settled before anything is measured. `eager` is the client's
default assignor, `next` the protocol of KIP-848.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from bench.consume.plan import Plan
from bench.consume.work import Seen, Work
from bench.part import tell
from pares.runtime.clock import stopwatch


def settings_of(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap.servers": plan.bootstrap,
        "group.id": plan.group,
        "client.id": plan.name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": True,
        "enable.auto.offset.store": False,
        "auto.commit.interval.ms": int(plan.session * 250),
        "isolation.level": "read_committed",
        "log_level": 0,
    }
    if plan.way == "next":
        return {**found, "group.protocol": "consumer"}
    found |= {"session.timeout.ms": int(plan.session * 1000), "heartbeat.interval.ms": int(plan.session * 250)}
    strategy = "range" if plan.way == "eager" else "cooperative-sticky"
    return {**found, "partition.assignment.strategy": strategy}


def seen(message: Message) -> Seen:
    # What a program that consumes looks at.
    _ = message.partition()
    return message.offset() or 0, message.timestamp()[1], message.key(), message.value()


class Worker:
    def __init__(self, plan: Plan, work: Work) -> None:
        self._plan, self._work = plan, work
        self._gone = False
        self._consumer = Consumer(settings_of(plan))

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        now = stopwatch()
        if self._plan.way == "eager":
            consumer.assign(partitions)
            self._work.held = len(partitions)
        else:
            consumer.incremental_assign(partitions)
            self._work.held += len(partitions)
        # One that was paused here before stays so wherever it has been since, unless it is said to go on.
        (consumer.resume if self._gone else consumer.pause)(partitions)
        if self._plan.first_fetch:
            for partition in partitions:
                tell("lead", partition.partition, now)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._plan.way == "eager":
            consumer.unassign()
            self._work.held = 0
        else:
            consumer.incremental_unassign(partitions)
            self._work.held -= len(partitions)

    def run(self) -> None:
        consumer, work, plan = self._consumer, self._work, self._plan
        work.ready()
        consumer.subscribe([plan.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        while not work.over.is_set():
            if not self._gone and work.go.is_set():
                self._gone = True
                consumer.resume(consumer.assignment())
            messages = consumer.consume(plan.batch if self._gone else 1, timeout=0.05)
            good = [message for message in messages if message.error() is None]
            if not good:
                continue
            work.batch(map(seen, good))
            last = {message.partition(): message for message in good}
            held = {partition.partition for partition in consumer.assignment()}
            for partition, message in last.items():
                if partition in held:
                    consumer.store_offsets(message)
        consumer.close()


def consume(plan: Plan, work: Work) -> None:
    Worker(plan, work).run()
