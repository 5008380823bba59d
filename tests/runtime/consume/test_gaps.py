"""Retention that overtakes a position: what was lost is said, and the work goes on where the user chose (C8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from consume_tools import Topic, Worker
from runtime_tools import CALM, rewound, until

import pares
from pares.core.errors import ConfigError
from pares.runtime.consume.consumer import Consumer

Make = Callable[..., Consumer]
CLAIMS: list[dict[str, Any]] = [{}, {"claim": "ranges", "slots": 1}, {"claim": "keys", "slots": 2}]


def overtaken(make: Make, more: dict[str, Any]) -> Topic:
    """A topic of which a consumer has done ten records, and retention has taken away those up to 40, of 60."""
    topic = Topic()
    fill(topic, 10)
    worker = Worker(make(topic, **more))
    until(lambda: len(worker.seen) == 10 and worker.consumer.lag() == 0, "ten are done")
    worker.consumer.close()
    worker.join()
    fill(topic, 50)
    topic.trim(40)
    return topic


def fill(topic: Topic, count: int) -> None:
    for _ in range(count):
        topic.append("x", key=b"%d" % (topic.stop(0) % 7))


def says(consumer: Any, *words: str) -> bool:
    return any(all(word in problem for word in words) for problem in consumer.health().problems)


@pytest.mark.parametrize("more", CLAIMS, ids=["partitions", "ranges", "keys"])
def test_it_goes_on_with_the_first_record_that_is_left(make: Make, more: dict[str, Any]) -> None:
    topic = overtaken(make, more)
    worker = Worker(make(topic, "b", **more))
    until(lambda: sorted(worker.offsets()) == list(range(40, 60)), "what is left")
    assert says(worker.consumer, "has lost 10 to ")


@pytest.mark.parametrize("more", CLAIMS, ids=["partitions", "ranges", "keys"])
def test_it_goes_on_at_the_end(make: Make, more: dict[str, Any]) -> None:
    topic = overtaken(make, more)
    worker = Worker(make(topic, "b", on_gap="latest", **more))
    until(lambda: says(worker.consumer, "has lost 10 to "), "it says so")
    until(lambda: all(claim.position >= 60 for claim in worker.consumer.claims()), "it is at the end")
    fill(topic, 20)
    until(lambda: sorted(worker.offsets()) == list(range(60, 80)), "what comes then")
    assert more.get("claim") == "ranges" or says(worker.consumer, "leaves out 40 to 59"), "a range ends before that"


@pytest.mark.parametrize("more", CLAIMS, ids=["partitions", "ranges", "keys"])
def test_it_stands_still_until_it_is_rewound(make: Make, url: str, more: dict[str, Any]) -> None:
    topic = overtaken(make, more)
    topic.grow(2)
    one = Worker(make(topic, "b", on_gap="stop", **more))
    until(lambda: says(one.consumer, "has lost 10 to ", "stands still until it is rewound"), "it says so")
    topic.append("y", partition=1)
    until(lambda: one.offsets(1) == [0], "the other partition goes on")
    one.consumer.close()
    one.join()
    two = Worker(make(topic, "c", on_gap="stop", **more))
    until(lambda: says(two.consumer, "stands still"), "the next one stands still, too")
    with pares.Admin(url, group="g") as admin:
        admin.pause(seconds=60)
        until(lambda: rewound(admin, {("orders", 0): 45}), "nobody holds it")
        admin.resume()
    until(lambda: sorted(two.offsets()) == list(range(45, 60)), "from there on")
    assert one.offsets() == []


@pytest.mark.parametrize("on_gap", ["latest", "stop"])
@pytest.mark.parametrize("more", CLAIMS, ids=["partitions", "ranges", "keys"])
def test_where_nobody_has_read_nothing_is_lost(make: Make, more: dict[str, Any], on_gap: str) -> None:
    topic = Topic()
    fill(topic, 20)
    topic.trim(12)
    worker = Worker(make(topic, on_gap=on_gap, **more))
    until(lambda: sorted(worker.offsets()) == list(range(12, 20)), "the partition begins there")


def test_at_most_once_too(make: Make) -> None:
    topic = overtaken(make, {"delivery": "at-most-once"})
    worker = Worker(make(topic, "b", on_gap="latest", delivery="at-most-once"))
    until(lambda: says(worker.consumer, "leaves out 40 to 59"), "it says so")
    fill(topic, 3)
    until(lambda: worker.offsets() == [60, 61, 62], "what comes then")


def test_other_words_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="on_gap is 'ignore'"):
        Consumer(url, group="g", topics=["orders"], on_gap="ignore")  # type: ignore[arg-type]


def test_asyncios_consumer_takes_it(make: Make, url: str) -> None:
    topic = overtaken(make, {})

    async def consumes() -> list[int]:
        given: dict[str, Any] = {"group": "g", "topics": [topic], "session": CALM, "settle": 0.05, "on_gap": "latest"}
        async with pares.aio.Consumer(url, **given) as consumer:
            coming = asyncio.ensure_future(anext(consumer.batches()))
            while not says(consumer, "leaves out 40 to 59"):
                await asyncio.sleep(0.01)
            fill(topic, 1)
            batch = await coming
            batch.done()
            return [record.offset for record in batch.records]

    assert asyncio.run(consumes()) == [60]
