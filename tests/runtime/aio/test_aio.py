"""The member for asyncio: the same life and the same surface."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from aio_tools import members, run, soon
from runtime_tools import CALM, PATIENCE, until

import pares
from pares import aio
from pares.core.errors import ClosedError, ConfigError, LeadershipLost
from pares.runtime.aio import member as module


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


def test_who_is_cancelled_while_it_enters_leaves_no_member_behind(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that opens slowly, and a caller that waits no longer: nobody would ever close what is made."""
    made, go = list[pares.Member](), threading.Event()

    def make(*args: Any, **settings: Any) -> pares.Member:
        go.wait(PATIENCE)
        made.append(pares.Member(*args, **settings))
        return made[0]

    monkeypatch.setattr(module, "SyncMember", make)

    async def main() -> None:
        me = aio.Member(memory, group="g", roles=["A"], session=CALM)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), me:
                raise AssertionError("it is not made yet")
        go.set()
        await soon(lambda: made and made[0].state == "closed", "it is closed")
        assert me.state == "closed"

    try:
        run(main())
    finally:
        for member in made:
            member.close(0)


def test_who_looks_at_a_member_while_it_is_entered_makes_no_second_one(
    memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, making = list[pares.Member](), threading.Event()

    def make(*args: Any, **settings: Any) -> pares.Member:
        making.set()
        time.sleep(0.1)
        made.append(pares.Member(*args, **settings))
        return made[-1]

    monkeypatch.setattr(module, "SyncMember", make)

    async def main() -> None:
        me = aio.Member(memory, group="g", roles=["A"], session=CALM)
        entering = asyncio.create_task(me.__aenter__())
        await soon(making.is_set, "it is being made")
        assert not me.holds("B")
        await entering
        await me.close()

    try:
        run(main())
        assert len(made) == 1
    finally:
        for member in made:
            member.close(0)


def test_a_pulse_that_is_waited_for_while_it_is_closed_says_that_it_does_not_lead(memory: str) -> None:
    """As that of `pares.Member`: only who asks a member that was closed before is told that."""

    async def main() -> None:
        async with members(memory, "a", "b") as (_, me):
            waiting = asyncio.create_task(me.pulse())
            await asyncio.sleep(0.05)
            await me.close()
            assert await waiting is False
            with pytest.raises(ClosedError):
                await me.pulse()

    run(main())


def test_who_closes_the_member_in_the_midst_of_its_terms_does_not_wait_for_itself(memory: str) -> None:
    async def main() -> None:
        async with aio.Member(memory, group="g", roles=["A"], session=CALM, barrier_timeout=10 * PATIENCE) as me:
            async for _ in me.terms("A"):
                await me.close()
            assert me.state == "closed"

    run(main())
