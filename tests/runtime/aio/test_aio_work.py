"""`only` and `background` for asyncio: work that runs while its member leads, and may end the term when it fails or hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aio_tools import members, run, soon
from runtime_tools import CALM, PATIENCE, until

import pares
from pares import aio


def test_only(memory: str) -> None:
    async def main() -> None:
        async with members(memory, "a", "b") as (me, other):

            @me.only("A")
            async def here(value: int) -> int:
                """Waits a little."""
                await asyncio.sleep(0.001)
                return value

            @other.only("A")
            async def there() -> str:
                return "ran"

            @me.only("A")
            async def for_ever() -> None:
                await me.step_down("A")
                await asyncio.sleep(PATIENCE * 3)

            assert await here(5) == 5
            assert (here.__name__, here.__doc__) == ("here", "Waits a little.")
            assert await there() is None
            assert await for_ever() is None
            assert await other.wait("A", PATIENCE)
            assert await here(5) is None
            assert await there() == "ran"

    run(main())


def test_background(memory: str) -> None:
    async def main() -> None:
        async with members(memory, "a", "b") as (me, other):
            runs = {"a": 0, "b": 0}

            def counting(name: str) -> Callable[[], Awaitable[None]]:
                async def task() -> None:
                    runs[name] += 1
                    await asyncio.sleep(0.001)

                return task

            me.background(counting("a"), "A")
            other.background(counting("b"), "A")
            await soon(lambda: runs["a"] >= 3, "it runs here")
            assert runs["b"] == 0
            await me.step_down("A")
            await soon(lambda: runs["b"] >= 3, "it runs there")

    run(main())


def test_work_that_fails_can_end_the_term(memory: str) -> None:
    async def main() -> None:
        async with members(memory, "a", "b") as (me, other):

            @me.only("A", give_up_on_error=True)
            async def fail() -> None:
                raise KeyError("by the test")

            with pytest.raises(KeyError, match="by the test"):
                await fail()
            assert await other.wait("A", PATIENCE)

            async def fail_again() -> None:
                raise RuntimeError("by the test")

            task = other.background(fail_again, "A", give_up_on_error=True)
            assert await me.wait("A", PATIENCE)
            task.cancel()

    run(main())


def test_work_that_awaits_too_long_is_cancelled_and_ends_the_term(memory: str) -> None:
    async def main() -> None:
        async with members(memory, "a", "b", barrier_timeout=PATIENCE) as (me, other):
            cancelled = asyncio.Event()

            async def hang() -> None:
                try:
                    await asyncio.sleep(PATIENCE)
                finally:
                    cancelled.set()

            task = me.background(hang, "A", stuck_after=0.2)
            await cancelled.wait()
            assert await other.wait("A", PATIENCE), "without waiting for the barrier's timeout"
            task.cancel()

    run(main())


def test_work_that_blocks_the_event_loop_ends_the_term(memory: str) -> None:
    """Nothing on the loop can see it; and the member's own thread goes on beating."""
    with pares.Member(memory, group="g", roles=["A"], name="b", session=CALM) as other:
        assert other.wait("A", PATIENCE)

        async def main() -> None:
            async with aio.Member(memory, group="g", roles=["A"], name="a", session=CALM, barrier_timeout=0.2) as me:
                await soon(lambda: len(other.members()) == 2, "they know each other")
                other.hand_over("A", to="a")
                assert await me.wait("A", PATIENCE)

                @me.only("A", stuck_after=0.2)
                async def block() -> pares.Term | None:
                    return other.wait("A", PATIENCE)  # blocks

                assert await block()
                assert me.health().ok

        run(main())


def test_a_call_that_is_cancelled_from_outside_ends_no_term(memory: str) -> None:
    async def main() -> None:
        async with members(memory, "a") as (me,):
            term = me.term("A")

            @me.only("A", give_up_on_error=True, stuck_after=PATIENCE)
            async def hang() -> None:
                await asyncio.sleep(PATIENCE)

            task = asyncio.ensure_future(hang())
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(0.05)
            assert term

    run(main())


def test_a_call_whose_term_ends_before_anybody_waits_for_it_does_not_run(memory: str) -> None:
    """Ended and handed over between the look at the term and the beginning of the call."""
    ran: list[bool] = []

    async def main() -> None:
        async with members(memory, "a", "b") as (me, other):
            barriers = me._member._barriers  # pyright: ignore
            begin = barriers.begin

            def late(*key: Any) -> Any:
                barriers.begin = begin  # type: ignore[method-assign]
                me._member.step_down("A")  # pyright: ignore
                until(lambda: other.holds("A"), "the other one leads")
                return begin(*key)

            @me.only("A")
            async def work() -> bool:
                ran.append(True)
                return True

            barriers.begin = late  # type: ignore[method-assign]
            assert await work() is None

    run(main())
    assert not ran
