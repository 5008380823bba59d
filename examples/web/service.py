"""A service without a server: asyncio in each of the processes that `deployment` keeps running.

SIGTERM ends the wait below: the work is cancelled, and leaving the member's block hands over. Nobody waits for a session.
"""

from __future__ import annotations

import asyncio
import signal

import pares
from examples.web import jobs


async def lead(me: pares.aio.Member) -> None:
    async for term in me.terms(jobs.ROLE):
        while term:
            jobs.tick(term)
            await asyncio.sleep(jobs.EVERY)


async def main() -> None:
    told_to_go = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told_to_go.set)
    async with (
        pares.aio.Member(jobs.LEDGER, group=jobs.GROUP, roles=[jobs.ROLE], session=jobs.SESSION) as me,
        asyncio.TaskGroup() as tasks,
    ):
        work = tasks.create_task(lead(me))
        await told_to_go.wait()
        work.cancel()


if __name__ == "__main__":
    asyncio.run(main())
