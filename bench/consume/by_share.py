"""A worker of a share group (KIP-932): records are given out one by one by the broker, in no order.

What one `poll` has brought is accepted with the next one, which is the client's default. Where the work on a record takes its
time, a poll brings ten records at most: else one worker would sit on hundreds that others could do.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import ShareConsumer

from bench.consume.by_group import seen
from bench.consume.plan import Plan
from bench.consume.work import Work

FEW = 10


def settings_of(plan: Plan) -> dict[str, Any]:
    most = FEW if plan.handler_ms else plan.batch
    common = {"bootstrap.servers": plan.bootstrap, "client.id": plan.name, "log_level": 0}
    return {**common, "group.id": plan.group, "max.poll.records": most}


def consume(plan: Plan, work: Work) -> None:
    consumer = ShareConsumer(settings_of(plan))
    consumer.subscribe([plan.topic])
    work.ready()
    work.go.wait()
    while not work.over.is_set():
        messages = consumer.poll(0.2)
        work.batch(seen(message) for message in messages if message.error() is None)
    consumer.close()
