"""Starlette's side of it (FastAPI takes the same `lifespan`): a member for as long as the worker lives, and its probes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Mount

import pares
from examples.web import jobs

member: pares.aio.Member | None = None


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    global member
    async with pares.aio.Member(jobs.LEDGER, group=jobs.GROUP, roles=[jobs.ROLE], session=jobs.SESSION) as member:
        me = member

        async def work() -> None:
            jobs.tick(me.term(jobs.ROLE))
            await asyncio.sleep(jobs.EVERY)

        me.background(work, jobs.ROLE, stuck_after=10)
        yield


app = Starlette(routes=[Mount("/pares", pares.health_app(lambda: member))], lifespan=lifespan)
