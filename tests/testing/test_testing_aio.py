"""The double for asyncio: a `pares.aio.Member` whose leadership the test decides."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from starlette.applications import Starlette

import pares
from pares.frameworks.asgi import Lifespan
from pares.testing.aio import FakeMember

PATIENCE = 30.0


def play(what: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await what

    asyncio.run(bounded())


def test_it_leads_when_the_test_says_so_and_a_body_ends_with_its_term() -> None:
    async def main() -> None:
        async with FakeMember(roles=["mail"]) as me:
            assert isinstance(me, pares.aio.Member)
            assert me.term("mail") is None
            begun = asyncio.Event()
            seen: list[int] = []

            async def work() -> None:
                async for term in me.terms("mail"):
                    async with term:
                        seen.append(term.token)
                        begun.set()
                        await asyncio.sleep(600)

            working = asyncio.create_task(work())
            first = me.lead("mail")
            await begun.wait()
            assert me.holds("mail")
            me.fence("mail", "by the test")
            assert await first.wait_lost()
            assert (bool(first), first.why) == (False, "by the test")
            begun.clear()
            second = me.lead("mail")
            await begun.wait()
            assert seen == [first.token, second.token]
            assert second.token > first.token
            me.revoke("mail")
            assert await second.wait_lost()
        await working
        assert me.state == "closed"

    play(main())


def test_only_runs_while_it_leads_and_is_a_coroutine() -> None:
    async def main() -> None:
        async with FakeMember(roles=["mail"]) as me:

            @me.only("mail")
            async def send(number: int) -> int:
                return number

            assert await asyncio.create_task(send(1)) is None
            me.lead("mail")
            assert await asyncio.create_task(send(2)) == 2
            me.out_of_reach()
            assert await send(3) is None

    play(main())


@pytest.mark.parametrize("call", ["wait", "pulse", "add_role", "members", "term", "hand_over"])
def test_a_call_can_be_made_to_fail(call: str) -> None:
    async def main() -> None:
        async with FakeMember(roles=["mail"]) as me:
            calls: dict[str, Any] = {
                "wait": lambda: me.wait("mail", 0),
                "pulse": lambda: me.pulse(0),
                "add_role": lambda: me.add_role("more"),
                "members": lambda: me.members(),
                "term": lambda: me.term("mail"),
                "hand_over": lambda: me.hand_over("mail"),
            }

            async def once() -> None:
                answer = calls[call]()
                if asyncio.iscoroutine(answer):
                    await answer

            me.fail(call)
            with pytest.raises(pares.LedgerUnavailable, match=f"{call} failed"):
                await once()
            await once()

    play(main())


def test_terms_can_be_made_to_fail_and_what_is_no_call_can_not() -> None:
    async def main() -> None:
        async with FakeMember(roles=["mail"]) as me:
            me.lead("mail")
            me.fail("terms", pares.ClosedError("by the test"))
            with pytest.raises(pares.ClosedError, match="by the test"):
                await anext(me.terms("mail"))
            async for term in me.terms("mail"):
                assert term
                break
            with pytest.raises(pares.ConfigError, match="call is 'holds'"):
                me.fail("holds")

    play(main())


def test_arguments_are_those_of_the_other_double() -> None:
    with pytest.raises(TypeError, match="grup"):
        FakeMember(grup="g")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(pares.ConfigError, match="T= moved"):
        FakeMember(T=1.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_a_lifespan_takes_it() -> None:
    """An application's own work, tried without a ledger."""

    async def main() -> None:
        fake = FakeMember(roles=["mail"])
        lifespan = Lifespan(fake)
        ran: list[int] = []

        @lifespan.background("mail")
        async def work() -> None:
            term = lifespan.term("mail")
            assert term is not None
            ran.append(term.token)
            await asyncio.sleep(0.01)

        app = Starlette(lifespan=lifespan)
        async with app.router.lifespan_context(app):
            assert lifespan.member is fake
            await asyncio.sleep(0.05)
            assert ran == []
            token = fake.lead("mail").token
            while not ran:
                await asyncio.sleep(0.005)
            assert set(ran) == {token}
        assert fake.state == "closed"

    play(main())


def test_a_lifespan_takes_a_member_or_its_arguments() -> None:
    with pytest.raises(pares.ConfigError, match="a member is given, and session too"):
        Lifespan(FakeMember(), session=2.0)  # type: ignore[call-overload]  # pyright: ignore
    with pytest.raises(TypeError, match="grup"):
        Lifespan("memory://x", group="g", grup="g")  # type: ignore[call-overload]  # pyright: ignore
    with pytest.raises(TypeError, match="group"):
        Lifespan("memory://x")  # type: ignore[call-overload]  # pyright: ignore
