"""What a type checker has to find, and what it has to let pass. Each `pyright: ignore` stands where an error is wanted: one
that is not needed is an error itself. Read by pyright alone (`test_types.py`, `make check`); nobody runs it."""
# pyright: strict, reportUnnecessaryTypeIgnoreComment=true, reportPrivateUsage=false

from __future__ import annotations

import asyncio
from typing import assert_type

import pares
from pares.frameworks.asgi import Lifespan
from pares.frameworks.service import serve
from pares.testing import FakeMember
from pares.testing.aio import FakeMember as AioFakeMember

URL = "memory://types"


# Wrong spellings ------------------------------------------------------------------------------------------------------


def protocols() -> None:
    pares.Member(URL, group="g", protocol="nely")  # pyright: ignore[reportArgumentType]
    pares.aio.Member(URL, group="g", protocol="nely")  # pyright: ignore[reportArgumentType]
    pares.Member(URL, group="g", protocol=pares.Neli)  # pyright: ignore[reportArgumentType]
    pares.Neli(t=2.0)  # pyright: ignore[reportCallIssue]
    pares.Neli(T="2")  # pyright: ignore[reportArgumentType]
    pares.AllCall(order="age")  # pyright: ignore[reportArgumentType]
    pares.AllCall(when_isolated="panic")  # pyright: ignore[reportArgumentType]
    pares.Neli().T = 3.0  # pyright: ignore[reportAttributeAccessIssue]


def keywords() -> None:
    pares.Member(URL, grup="g")  # pyright: ignore[reportCallIssue]
    pares.Member(URL, group="g", T=2.0)  # pyright: ignore[reportCallIssue]
    pares.Member(URL, group="g", seats="2")  # pyright: ignore[reportArgumentType]
    pares.Member.from_env(grup="g")  # pyright: ignore[reportCallIssue]
    pares.aio.Member.from_env(session="2")  # pyright: ignore[reportArgumentType]
    pares.aio.Member(URL, group="g", lease=2.0)  # pyright: ignore[reportCallIssue]
    pares.Member(URL, group="g", connect="later")  # pyright: ignore[reportArgumentType]
    Lifespan(URL, group="g", connect="later")  # pyright: ignore[reportArgumentType]
    FakeMember(grup="g")  # pyright: ignore[reportCallIssue]
    AioFakeMember(rols=["x"])  # pyright: ignore[reportCallIssue]


def frameworks() -> None:
    Lifespan(URL, grup="g")  # pyright: ignore[reportCallIssue]
    Lifespan(URL, group="g", protocol="nely")  # pyright: ignore[reportArgumentType]
    Lifespan(FakeMember())  # pyright: ignore[reportArgumentType]
    serve(_work, URL, group="g", role="r", sesion=1.0)  # pyright: ignore[reportCallIssue]


def words(me: pares.Member, admin: pares.Admin) -> None:
    me.add_role("x", spread="rack")  # pyright: ignore[reportArgumentType]
    admin.add_role("x", spread="rack")  # pyright: ignore[reportArgumentType]
    if me.state == "lve":  # pyright: ignore[reportUnnecessaryComparison]
        return
    if me.health().state == "lve":  # pyright: ignore[reportUnnecessaryComparison]
        return


async def words_of_asyncio(me: pares.aio.Member) -> None:
    await me.add_role("x", spread="rack")  # pyright: ignore[reportArgumentType]
    if me.state == "lve":  # pyright: ignore[reportUnnecessaryComparison]
        return


# Right ones -----------------------------------------------------------------------------------------------------------


async def _work(term: pares.aio.Term) -> None: ...


async def right(me: pares.aio.Member) -> None:
    @me.only("x")
    async def ran(number: int) -> str:
        return str(number)

    task = asyncio.create_task(ran(1))
    assert_type(await task, str | None)
    Lifespan(AioFakeMember(roles=["x"]))
    Lifespan(URL, group="g", roles=["x"], protocol=pares.FastNeli(heartbeat_timeout=2.0))
    await serve(_work, URL, group="g", role="x", session=2.0, protocol="nele")


def right_too() -> None:
    with pares.Member(URL, group="g", protocol=pares.AllCall(order="rank", when_isolated="step_down")) as me:
        assert me.state == "live"
        me.add_role("x", spread="zone")
    assert_type(pares.Member.from_env(roles=["x"]), pares.Member)
    assert_type(pares.aio.Member.from_env(URL, group="g"), pares.aio.Member)
    assert_type(AioFakeMember().lead("x"), pares.aio.Term)
