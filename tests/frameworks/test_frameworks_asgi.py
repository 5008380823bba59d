"""`pares.frameworks.asgi` in a real Starlette and FastAPI. (On real servers: tests/examples/test_web.py.)"""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette

import pares
from pares.frameworks.asgi import Lifespan

PATIENCE = 30.0


@pytest.mark.parametrize("framework", [Starlette, FastAPI])
def test_a_member_and_its_work_for_as_long_as_the_application_lives(framework: type[Any]) -> None:
    lifespan = Lifespan(f"memory://{uuid.uuid4().hex}", group="g", roles=["A"], session=5.0)
    tokens: list[int] = []
    cancelled: list[bool] = []

    @lifespan.background("A", stuck_after=10)
    async def work() -> None:
        term = lifespan.term("A")
        assert term is not None
        tokens.append(term.token)
        await asyncio.sleep(0.01)

    @lifespan.background("A")
    async def for_ever() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            cancelled.append(True)

    app = framework(lifespan=lifespan)
    assert lifespan.member is None
    assert lifespan.term("A") is None

    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            async with app.router.lifespan_context(app):
                while len(tokens) < 3:
                    await asyncio.sleep(0.005)
                with pytest.raises(pares.ConfigError, match="has started"):
                    lifespan.background("A")
            assert cancelled
            seen = len(tokens)
            await asyncio.sleep(0.05)
            assert len(tokens) == seen

    asyncio.run(main())
    assert lifespan.member is not None
    assert lifespan.member.state == "closed"
    assert len({*tokens}) == 1


def test_background_work_runs_every_so_often() -> None:
    lifespan = Lifespan(f"memory://{uuid.uuid4().hex}", group="g", roles=["A"], session=5.0)
    began: list[float] = []
    many: list[float] = []

    @lifespan.background("A", 0.8)
    async def seldom() -> None:
        began.append(time.monotonic())

    @lifespan.background("A", every=0.0)
    async def often() -> None:
        many.append(time.monotonic())
        await asyncio.sleep(0)

    with pytest.raises(pares.ConfigError, match="every is -1"):
        lifespan.background("A", every=-1)
    app = Starlette(lifespan=lifespan)

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), app.router.lifespan_context(app):
            while len(began) < 3:
                await asyncio.sleep(0.005)

    asyncio.run(main())
    assert began[-1] - began[0] >= 0.8, "two pauses, less what the first run was late by"
    assert len(many) > 4 * len(began), "the other one does not wait"


def test_an_application_starts_while_its_ledger_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """`connect="background"`: it serves, says that it is not ready, and its work begins when the ledger is there."""
    away = True

    def opens(url: str, **options: Any) -> Any:
        if away:
            raise pares.LedgerUnavailable("no broker answers, by the test")
        return pares.open(url, **options)

    monkeypatch.setattr("pares.runtime.os_host.open_ledger", opens)
    url = f"memory://{uuid.uuid4().hex}"
    lifespan = Lifespan(url, group="g", roles=["A"], session=5.0, connect="background")
    runs: list[int] = []

    @lifespan.background("A", every=0.01)
    async def work() -> None:
        term = lifespan.term("A")
        assert term is not None
        runs.append(term.token)

    app = Starlette(lifespan=lifespan)

    async def main() -> None:
        nonlocal away
        async with asyncio.timeout(PATIENCE), app.router.lifespan_context(app):
            assert lifespan.member is not None
            while "no broker answers" not in (lifespan.member.health().unreachable or ""):
                await asyncio.sleep(0.01)
            assert await status(lifespan.probes, "/livez") == 200
            assert await status(lifespan.probes, "/readyz") == 503
            assert lifespan.term("A") is None
            assert not runs
            away = False
            while not runs:
                await asyncio.sleep(0.01)
            assert await status(lifespan.probes, "/readyz") == 200

    asyncio.run(main())
    assert lifespan.member is not None
    assert lifespan.member.state == "closed"


async def status(app: Any, path: str) -> int:
    said: list[int] = []

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            said.append(message["status"])

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    await app({"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}, receive, send)
    return said[0]


def test_an_application_that_cannot_join_does_not_start() -> None:
    app = Starlette(lifespan=Lifespan("memory://x", group="", roles=["A"]))

    async def main() -> None:
        async with app.router.lifespan_context(app):
            raise AssertionError("it serves")

    with pytest.raises(pares.ConfigError):
        asyncio.run(main())
