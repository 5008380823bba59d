"""A service without a server: asyncio in each of the processes that `deployment` keeps running.

SIGTERM ends it: the work is cancelled, and the member hands over. Nobody waits for a session.
"""

from __future__ import annotations

import asyncio

import pares
from examples.web import jobs
from pares.frameworks.service import serve


async def work(term: pares.aio.Term) -> None:
    jobs.tick(term)
    await asyncio.sleep(jobs.EVERY)


if __name__ == "__main__":
    asyncio.run(serve(work, jobs.LEDGER, group=jobs.GROUP, role=jobs.ROLE, session=jobs.SESSION))
