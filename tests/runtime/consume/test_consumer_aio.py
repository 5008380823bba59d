"""The same consumer for asyncio."""

from __future__ import annotations

import asyncio
from typing import Any

from consume_tools import Topic
from runtime_tools import CALM

from pares.runtime import aio


def test_batches_come_to_tasks_and_one_that_is_cancelled_loses_nothing(url: str) -> None:
    topic = Topic(partitions=2)
    for number in range(20):
        topic.append(str(number), partition=number % 2)

    async def main() -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []
        async with aio.Consumer(url, group="g", topics=[topic], name="a", session=CALM, batch=3) as consumer:
            waits = asyncio.create_task(anext(consumer.batches()))
            await asyncio.sleep(0)
            waits.cancel()
            async for batch in consumer.batches(timeout=30):
                seen += [(batch.partition, record.offset) for record in batch.records]
                batch.done()
                if len(seen) == 20:
                    break
            await consumer.flush()
            assert await consumer.lag() == 0
            assert consumer.load() == len(consumer.claims()) == 2
            assert consumer.state == "live"
        assert consumer.state == "closed"
        return seen

    assert sorted(asyncio.run(main())) == [(partition, at) for partition in range(2) for at in range(10)]


def test_iterating_ends_after_a_while_without_batches(memory: str) -> None:
    async def main() -> int:
        async with aio.Consumer(memory, group="g", topics=[Topic()], session=CALM) as consumer:
            return len([batch async for batch in consumer.batches(timeout=0.05)])

    assert asyncio.run(main()) == 0


def test_c12_slots_of_keys_for_asyncio(memory: str) -> None:
    async def main() -> list[int]:
        topic = Topic()
        for number in range(12):
            topic.append(str(number), key=b"k%d" % (number % 3))
        given: dict[str, Any] = {"claim": "keys", "slots": 4, "order": "key", "concurrency": 3, "session": CALM}
        seen: list[int] = []
        async with aio.Consumer(memory, group="g", topics=[topic], **given) as consumer:
            async for record in consumer.records():
                seen.append(record.offset)
                record.done()
                if len(seen) == 12:
                    break
            assert {claim.slots for claim in consumer.claims()} == {4}
        return seen

    seen = asyncio.run(main())
    assert sorted(seen) == list(range(12))
    for key in range(3):
        assert [at for at in seen if at % 3 == key] == list(range(key, 12, 3))
