"""Records one by one, for asyncio: many handlers at once, and what becomes of those that are cancelled."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from consume_tools import Topic
from runtime_tools import CALM

import pares
from pares.runtime import aio


def made(url: str, topic: Topic, **more: Any) -> aio.Consumer:
    return aio.Consumer(url, **{"group": "g", "topics": [topic], "name": "a", "session": CALM, **more})


def test_c9_many_handlers_run_at_once_and_those_of_a_key_one_by_one(url: str) -> None:
    topic = Topic()
    for number in range(300):
        topic.append(str(number), key=b"k%d" % (number % 100))
    busy: dict[bytes, int] = {}
    most, seen = [0], list[tuple[bytes, int]]()
    together = asyncio.Event()

    async def handle(item: Any) -> None:
        assert busy.get(item.key, 0) == 0
        busy[item.key] = 1
        most[0] = max(most[0], sum(busy.values()))
        if most[0] >= 50:
            together.set()
        await asyncio.wait_for(together.wait(), 60)
        busy[item.key] = 0
        seen.append((item.key, item.offset))

    async def main() -> None:
        async with made(url, topic, concurrency=50, order="key") as consumer:
            running = asyncio.create_task(consumer.run(handle))
            while len(seen) < 300:
                await asyncio.sleep(0.01)
                assert not running.done(), running
            await consumer.flush()
            assert await consumer.lag() == 0
            await consumer.close()
            await asyncio.wait_for(running, 30)

    asyncio.run(main())
    assert most[0] == 50
    for key in {key for key, _ in seen}:
        assert [at for each, at in seen if each == key] == sorted(at for each, at in seen if each == key)


def test_c10_one_that_raises_is_tried_again_and_one_that_is_cancelled_is_given_out_again(memory: str) -> None:
    topic = Topic()
    topic.append(*"abc")
    calls: list[tuple[int, int]] = []
    stuck = asyncio.Event()

    async def handle(item: Any) -> None:
        calls.append((item.offset, item.deliveries))
        if item.offset == 0 and item.deliveries == 1:
            raise ValueError("not yet")
        if item.offset == 2 and item.deliveries == 1:
            stuck.set()
            await asyncio.Event().wait()

    async def main() -> None:
        async with made(memory, topic, concurrency=3, order="none", backoff=0.02) as consumer:
            running = asyncio.create_task(consumer.run(handle))
            await asyncio.wait_for(stuck.wait(), 30)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert running.cancelled()
            again = asyncio.create_task(consumer.run(handle))
            while await consumer.lag():
                await asyncio.sleep(0.01)
                assert not again.done(), again
            again.cancel()
            await asyncio.gather(again, return_exceptions=True)

    asyncio.run(main())
    assert (0, 2) in calls
    assert (2, 2) in calls
    assert len(calls) <= 6


def test_c10_a_failure_that_waits_for_a_thread_is_said_though_its_task_is_cancelled(memory: str) -> None:
    """One thread for all, and that one waits for the next record."""
    topic = Topic()
    topic.append("a")
    raised = asyncio.Event()
    calls: list[int] = []

    async def handle(item: Any) -> None:
        calls.append(item.deliveries)
        if item.deliveries == 1:
            raised.set()
            raise ValueError("not yet")

    async def main() -> None:
        async with made(memory, topic, concurrency=2, order="none", backoff=0.02) as consumer:
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
            running = asyncio.create_task(consumer.run(handle))
            await asyncio.wait_for(raised.wait(), 30)
            for _ in range(3):
                await asyncio.sleep(0)  # the failure is to be said, and the only thread is not free
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            again = asyncio.create_task(consumer.run(handle))
            async with asyncio.timeout(60):
                while await consumer.lag():
                    await asyncio.sleep(0.01)
            again.cancel()
            await asyncio.gather(again, return_exceptions=True)

    asyncio.run(main())
    assert calls == [1, 2]


def test_a_handler_that_is_cancelled_before_it_has_begun_ends_its_record_alone(
    memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim was lost between the record's coming and the handler's first step."""
    topic = Topic()
    topic.append(*"ab")
    begun: list[int] = []

    async def handle(item: Any) -> None:
        begun.append(item.offset)

    async def main() -> None:
        async with made(memory, topic, concurrency=1, order="none") as consumer:
            lost = [True]
            with monkeypatch.context() as patch:
                patch.setattr(pares.Consumer, "is_lost", lambda self, item: bool(lost) and lost.pop())
                running = asyncio.create_task(consumer.run(handle))
                async with asyncio.timeout(60):
                    while len(set(begun)) < 2 or await consumer.lag():
                        await asyncio.sleep(0.01)
                        assert not running.done(), running
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())
    assert set(begun) == {0, 1}


def test_a_handler_that_has_outlived_its_claim_is_cancelled(memory: str) -> None:
    topic = Topic()
    topic.append("a")
    begun, ended = asyncio.Event(), list[str]()

    async def handle(item: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(f"cancelled: {bool(item)}")
            raise

    async def main() -> None:
        async with made(memory, topic, barrier_timeout=0.1) as consumer:
            running = asyncio.create_task(consumer.run(handle))
            await asyncio.wait_for(begun.wait(), 30)
            sync: Any = consumer._consumer
            await asyncio.to_thread(sync._member.step_down, consumer.claims()[0].topic and sync._feeder.roles()[0])
            while not ended:
                await asyncio.sleep(0.01)
                assert not running.done(), running
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert any("outlived" in problem for problem in consumer.health().problems)

    asyncio.run(main())
    assert ended[0] == "cancelled: False"


def test_records_come_to_tasks_that_ask_for_them(memory: str) -> None:
    topic = Topic()
    topic.append(*"ab")

    async def main() -> list[int]:
        seen: list[int] = []
        async with made(memory, topic) as consumer:
            waits = asyncio.create_task(anext(consumer.records()))
            await asyncio.sleep(0)
            waits.cancel()
            async for item in consumer.records(timeout=30):
                seen.append(item.offset)
                item.done()
                if len(seen) == 2:
                    break
            async for item in consumer.records(timeout=0.05):
                seen.append(item.offset)
        return seen

    assert asyncio.run(main()) == [0, 1]
