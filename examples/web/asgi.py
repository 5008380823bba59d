"""Starlette's side of it (FastAPI takes the same `lifespan`): a member for as long as the worker lives, and its probes."""

from __future__ import annotations

import asyncio

from starlette.applications import Starlette
from starlette.routing import Mount

from examples.web import jobs
from pares.frameworks.asgi import Lifespan

lifespan = Lifespan(jobs.LEDGER, group=jobs.GROUP, roles=[jobs.ROLE], session=jobs.SESSION)


@lifespan.background(jobs.ROLE, stuck_after=10)
async def work() -> None:
    jobs.tick(lifespan.term(jobs.ROLE))
    await asyncio.sleep(jobs.EVERY)


app = Starlette(routes=[Mount("/pares", lifespan.probes)], lifespan=lifespan)
