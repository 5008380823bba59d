"""An asyncio program that has no server: it works while it leads, and hands over when it is told to end.

asyncio.run(serve(poll_outbox, "sqlite:///app.db", group="app", role="outbox"))
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Unpack

from pares.ledger import Bus, Ledger
from pares.runtime import aio
from pares.runtime.config.arguments import SettingsOfOneRole


async def serve(
    work: Callable[[aio.Term], Awaitable[object]],
    ledger: str | Ledger | Bus,
    *,
    group: str,
    role: str,
    signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT),
    **settings: Unpack[SettingsOfOneRole],
) -> None:
    """Awaits `work(term)` again and again while this process leads `role`, until one of `signals` comes. `settings` are those
    of `pares.Member`.

    Promised: `work` is cancelled when its term ends, and when a signal comes; then this hands over, leaves and returns, and
    nobody waits for a session. What `work` raises is raised here, after the same. Not promised: that `work` ends at once: it
    may block the event loop, or go on after its cancellation; so `term.token`, and a fence. To be awaited on the main thread;
    raises `RuntimeError` elsewhere, as asyncio does, unless `signals` is empty, and what `pares.Member` raises.
    """
    told = asyncio.Event()
    with _heard(signals, told):
        async with aio.Member(ledger, group=group, roles=[role], **settings) as member:
            tasks = [asyncio.create_task(_work(member, role, work)), asyncio.create_task(told.wait())]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
        # It has left, after waiting for the work as for any (`barrier_timeout`).
        await asyncio.wait(tasks)
        if not tasks[0].cancelled():
            tasks[0].result()


async def _work(member: aio.Member, role: str, work: Callable[[aio.Term], Awaitable[object]]) -> None:
    async for term in member.terms(role):
        while term:
            async with term:
                await work(term)


@contextlib.contextmanager
def _heard(signals: Sequence[signal.Signals], told: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in signals}
    for number in signals:
        loop.add_signal_handler(number, told.set)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            if handler is not None:
                signal.signal(number, handler)
