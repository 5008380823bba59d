"""The member for asyncio: the same life, with a body that is cancelled when its term ends."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest
from runtime_tools import CALM, PATIENCE, QUICK, Faulty, until

import pares
from pares import aio
from pares.core.errors import ConfigError, LeadershipLost

T = TypeVar("T")


def run(what: Coroutine[Any, Any, T]) -> T:
    """Runs a test's body, and with it the end of asyncio.run: no task and no thread of its executor may hang."""

    async def bounded() -> T:
        async with asyncio.timeout(2 * PATIENCE):
            return await what

    return asyncio.run(bounded())


async def soon(what: Callable[[], object], saying: str) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, f"not in time: {saying}"
        await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def members(ledger: Any, *names: str, **settings: Any) -> AsyncIterator[list[aio.Member]]:
    """Members of one group; the first one leads."""
    settings = {"session": CALM, "settle": 0.05, "barrier_timeout": 10.0} | settings
    async with contextlib.AsyncExitStack() as stack:
        found: list[aio.Member] = []
        for name in names:
            me = await stack.enter_async_context(aio.Member(ledger, group="g", roles=["A"], name=name, **settings))
            found.append(me)
            await soon(lambda me=me: me.state == "live", "it is in the group")
            assert await found[0].wait("A", PATIENCE)
        await soon(lambda: all(len(m.members()) == len(names) for m in found), "they know each other")
        yield found


def test_a_life(url: str) -> None:
    async def main() -> None:
        async with aio.Member(url, group="g", roles=["A"], session=CALM, name="a") as me:
            term = await me.wait("A", PATIENCE)
            assert term is not None
            assert term
            assert (term.role, term.seat, term.member) == ("A", 0, me.id)
            assert me.holds("A")
            assert me.state == "live"
            assert (leader := me.leader("A")) is not None
            assert leader.token == term.token
            assert [peer.id for peer in me.members()] == [me.id]
            assert await me.pulse(PATIENCE)
            assert me.health().ok
            term.check()
            assert await term.wait_lost(0.01) is False
        assert me.state == "closed"
        assert not term
        with pytest.raises(LeadershipLost):
            term.check()

    run(main())


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


def test_terms_come_one_for_each_tenure(memory: str) -> None:
    async def main() -> None:
        async with members(memory, "a", "b") as (me, other):

            async def give_it_back() -> None:
                async for _ in other.terms("A"):
                    await other.step_down("A")

            helper = asyncio.create_task(give_it_back())
            tokens: list[int] = []
            async for term in me.terms("A", timeout=PATIENCE):
                tokens.append(term.token)
                if len(tokens) == 3:
                    break
                async with term:
                    await me.step_down("A")
                    await asyncio.sleep(PATIENCE * 3)
            assert tokens == sorted(set(tokens))
            assert len(tokens) == 3
            helper.cancel()

    run(main())


def test_terms_end(memory: str) -> None:
    async def main() -> None:
        async with members(memory, "a", "b") as (_, other):
            assert [term async for term in other.terms("A", timeout=0.05)] == []
            task = asyncio.create_task(anext(other.terms("A"), "ended"))
            await asyncio.sleep(0.05)
            await other.close()
            assert await task == "ended"

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


def test_many_iterations_over_events(memory: str) -> None:
    """More of them than asyncio's executor has threads; closing needs one of those."""

    async def main() -> None:
        async with members(memory, "a") as (me,):
            heard: list[list[str]] = [[] for _ in range(40)]

            async def listen(into: list[str]) -> None:
                async for event in me.events():
                    into.append(type(event).__name__)

            tasks = [asyncio.create_task(listen(into)) for into in heard]
            await asyncio.sleep(0.05)
            for task in tasks[:20]:
                task.cancel()
            other = aio.Member(memory, group="g", roles=["A"], session=CALM, name="b")
            async with other:
                await soon(lambda: all(into == ["Joined"] for into in heard[20:]), "all who listen are told")
            await me.close()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert all(into[:1] == ["Joined"] and into[-1] == "Revoked" for into in heard[20:])
            assert all(into == [] for into in heard[:20])

    run(main())


def test_steering(memory: str) -> None:
    async def main() -> None:
        async with members(memory, "a", "b", eligible="*") as (me, other):
            await me.add_role("B")
            await soon(lambda: me.holds("B") or other.holds("B"), "somebody leads it")
            assert me.roles() == {"A": 1, "B": 1}
            await me.remove_role("B")
            await soon(lambda: me.leader("B") is None, "it is gone")
            await me.hand_over("A", to="b", why="by the test")
            assert await other.wait("A", PATIENCE)
            await other.pause("A", seconds=600)
            await soon(lambda: me.leader("A") is None, "paused")
            await me.resume("A")
            await soon(lambda: me.holds("A") or other.holds("A"), "resumed")
            await other.drain()
            assert await me.wait("A", PATIENCE)

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


def test_bad_settings_and_unknown_roles(memory: str) -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match="session"):
            async with aio.Member(memory, group="g", session=0.001):
                pass
        async with members(memory, "a") as (me,):
            with pytest.raises(ConfigError, match="never leads 'nosuch'"):
                await me.wait("nosuch", 1)
            with pytest.raises(ConfigError, match="never leads 'nosuch'"):
                me.only("nosuch")

    run(main())


def test_a_member_lives_on_when_an_event_loop_is_gone(memory: str) -> None:
    """Listeners of a closed event loop are called once more at most, and hurt nobody."""
    with pares.Member(memory, group="g", roles=["A"], session=CALM, name="first") as first:
        assert first.wait("A", PATIENCE)
        loop = asyncio.new_event_loop()
        me = aio.Member(memory, group="g", roles=["A"], session=CALM, name="a")
        loop.run_until_complete(me.__aenter__())
        waiting = loop.create_task(me.wait("A"))
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()  # without ending what waits
        until(lambda: len(first.members()) == 2, "both are in the group")
        first.step_down("A")
        made = me._made  # pyright: ignore[reportPrivateUsage]
        assert made is not None
        assert made.wait("A", PATIENCE)
        assert made.health().ok
        closer = threading.Thread(target=made.close)
        closer.start()
        closer.join(PATIENCE)
        assert made.state == "closed"
        waiting._log_destroy_pending = False  # type: ignore[attr-defined]


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
