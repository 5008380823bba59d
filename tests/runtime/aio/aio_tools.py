"""What the tests of the member for asyncio share: running one, waiting in it, members of one group."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from runtime_tools import CALM, PATIENCE

from pares import aio

T = TypeVar("T")


def run(what: Coroutine[Any, Any, T]) -> T:
    """Runs a test's body, and with it the end of asyncio.run: no task and no thread of its executor may hang."""

    async def bounded() -> T:
        async with asyncio.timeout(2 * PATIENCE):
            return await what

    return asyncio.run(bounded())


async def soon(what: Callable[[], object], saying: str) -> None:
    """Waits until `what()` says something true."""
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
