"""Slots of keys, claimed by several consumers of one partition (C12)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from consume_tools import Topic, Worker
from runtime_tools import until

from pares.core.consume.names import place_of
from pares.runtime.consume.consumer import Consumer

Make = Callable[..., Consumer]
KEYS = [b"k%d" % number for number in range(12)]


def keyed(make: Make, topic: Any, name: str = "a", **more: Any) -> Consumer:
    return make(topic, name, **{"claim": "keys", "slots": 6, "batch": 8, **more})


def fill(topic: Topic, count: int) -> None:
    for number in range(count):
        topic.append(str(number), key=KEYS[number % len(KEYS)])


def slots(consumer: Consumer) -> list[int | None]:
    return [claim.slot for claim in consumer.claims()]


def by_key(calls: list[Any]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for call in calls:
        found.setdefault(call.key, []).append(call.offset)
    return found


class Log:
    """What all handlers of a test were given, in the order of time, and whether a key was with two of them at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls: list[tuple[str, Any]] = []
        self._busy: set[bytes | None] = set()
        self.twice: list[Any] = []

    def by(self, who: str, pause: float = 0.0) -> Callable[[Any], None]:
        def handle(given: Any) -> None:
            records = getattr(given, "records", (given,))
            keys = {record.key for record in records}
            with self._lock:
                self.twice += [key for key in keys if key in self._busy]
                self._busy |= keys
                self.calls += [(who, record) for record in records]
            if pause:
                threading.Event().wait(pause)
            with self._lock:
                self._busy -= keys

        return handle

    def of(self, key: bytes) -> list[int]:
        return [record.offset for _, record in list(self.calls) if record.key == key]

    def offsets(self) -> list[int]:
        return sorted(record.offset for _, record in list(self.calls))


@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
def test_c12_several_work_on_one_partition_and_each_key_is_in_order_and_with_one_of_them(
    make: Make, delivery: str
) -> None:
    topic, log = Topic(), Log()
    consumers = [keyed(make, topic, name, delivery=delivery) for name in "abc"]
    until(lambda: sorted(len(slots(each)) for each in consumers) == [2, 2, 2], "two slots for each")
    fill(topic, 300)
    workers = [Worker(each, handle=log.by(each.name)) for each in consumers for _ in range(2)]
    until(lambda: len(log.calls) >= 300, "all is given out")
    assert log.offsets() == list(range(300))
    for key in KEYS:
        assert log.of(key) == sorted(log.of(key)), "in order"
        assert len({who for who, record in log.calls if record.key == key}) == 1, "by one of them"
    assert log.twice == []
    for consumer in consumers:
        mine = {place_of(record.key, record.offset) % 6 for who, record in log.calls if who == consumer.name}
        assert mine <= set(slots(consumer))
    until(lambda: [each.lag() for each in consumers] == [0, 0, 0], "all is done")
    assert all(worker.error is None for worker in workers)
