"""`async with term`: a body that is cancelled when its term ends, and nothing else is."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest
from aio_tools import members, run, soon
from runtime_tools import PATIENCE, QUICK, Faulty

from pares import aio


def test_the_body_is_cancelled_when_the_term_ends(memory: str) -> None:
    async def main() -> None:
        async with members(memory, "a", "b") as (me, other):
            term = await me.wait("A", PATIENCE)
            assert term is not None
            steps: list[str] = []
            async with term:
                steps.append("began")
                await me.step_down("A")
                await asyncio.sleep(PATIENCE * 3)
                steps.append("never")
            steps.append("left quietly")
            assert steps == ["began", "left quietly"]
            assert not term
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
            assert await other.wait("A", PATIENCE)

    run(main())


def test_a_handover_waits_for_the_body_to_clean_up(memory: str) -> None:
    async def main() -> None:
        async with members(memory, "a", "b") as (me, other):
            term = await me.wait("A", PATIENCE)
            assert term is not None
            async with term:
                await me.step_down("A")
                try:
                    await asyncio.sleep(PATIENCE * 3)
                finally:
                    assert await other.wait("A", 0.3) is None
            assert await other.wait("A", PATIENCE)

    run(main())


def test_a_body_that_ends_by_itself(memory: str) -> None:
    async def main() -> None:
        async with members(memory, "a") as (me,):
            term = await me.wait("A", PATIENCE)
            assert term is not None
            async with term:
                await asyncio.sleep(0)
            assert term  # still leading
            with pytest.raises(KeyError, match="of the body"):
                async with term:
                    raise KeyError("of the body")
            assert term

    run(main())


@pytest.mark.parametrize("how", ["swallows", "raises"])
def test_a_body_that_deals_with_its_cancellation_itself(memory: str, how: str) -> None:
    """What it does is its own matter; the next body must not suffer for it."""

    async def main() -> None:
        async with members(memory, "a", "b") as (me, other):

            async def body(term: aio.Term, quietly: bool) -> None:
                async with term:
                    await me.step_down("A")
                    try:
                        await asyncio.sleep(PATIENCE * 3)
                    except asyncio.CancelledError:
                        if quietly:
                            raise
                        if how == "raises":
                            raise RuntimeError("of the body") from None

            for quietly in (False, True, True):
                term = await me.wait("A", PATIENCE)
                assert term is not None
                with contextlib.suppress(RuntimeError):
                    await body(term, quietly)
                task = asyncio.current_task()
                assert task is not None
                assert task.cancelling() == 0
                assert await other.wait("A", PATIENCE)
                await other.step_down("A")

    run(main())


def test_a_cancellation_from_outside_goes_through(memory: str) -> None:
    async def main() -> None:
        async with members(memory, "a") as (me,):
            inside = asyncio.Event()

            async def work() -> None:
                term = await me.wait("A", PATIENCE)
                assert term is not None
                async with term:
                    inside.set()
                    await asyncio.sleep(PATIENCE * 3)

            task = asyncio.create_task(work())
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert me.holds("A")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await work()
            assert me.holds("A")

    run(main())


def test_a_body_of_a_term_that_is_over_does_not_run_on(memory: str) -> None:
    async def main() -> None:
        async with members(memory, "a", "b") as (me, other):
            term = await me.wait("A", PATIENCE)
            assert term is not None
            await me.step_down("A")
            assert await other.wait("A", PATIENCE)
            reached = False
            async with term:
                await asyncio.sleep(PATIENCE * 3)
                reached = True
            assert not reached

    run(main())


def test_a_lease_that_runs_out_cancels_the_body(faulty: Faulty) -> None:
    async def main() -> None:
        async with members(faulty, "a", session=QUICK) as (me,):
            term = await me.wait("A", PATIENCE)
            assert term is not None
            async with term:
                faulty.away()
                await asyncio.sleep(PATIENCE * 3)
            assert not term
            assert term.why == "lease ran out"
            faulty.back()
            assert await me.wait("A", PATIENCE)

    run(main())


def test_a_blocked_event_loop_loses_nothing_but_time(memory: str) -> None:
    async def main() -> None:
        async with members(memory, "a", session=QUICK) as (me,):
            term = await me.wait("A", PATIENCE)
            assert term is not None
            before = me.health().lapses
            still = False
            async with term:
                time.sleep(3 * QUICK)
                still = bool(term)
            await soon(lambda: still or me.health().lapses > before, "what it cost is counted")

    run(main())
