"""`pares.frameworks.asgi` in a real Starlette and FastAPI. (On real servers: tests/examples/test_web.py.)"""

from __future__ import annotations

import asyncio
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


def test_an_application_that_cannot_join_does_not_start() -> None:
    app = Starlette(lifespan=Lifespan("memory://x", group="", roles=["A"]))

    async def main() -> None:
        async with app.router.lifespan_context(app):
            raise AssertionError("it serves")

    with pytest.raises(pares.ConfigError):
        asyncio.run(main())
