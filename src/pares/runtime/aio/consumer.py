"""A consumer for asyncio: `pares.Consumer`, of which whatever may wait is awaited."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from pares.core.errors import ClosedError
from pares.runtime.config.arguments import arguments_of
from pares.runtime.consume.batch import Batch
from pares.runtime.consume.consumer import Consumer as SyncConsumer
from pares.runtime.consume.handling import failed
from pares.runtime.consume.item import Item
from pares.runtime.here import here
from pares.runtime.views import Claim, Health, State

T = TypeVar("T")
STEP: Final = 0.5
"""Seconds after which the thread that waits for a batch looks whether it is still wanted."""
NO_THREAD: Final = -1
"""The owner of records that a task has: none of a pool's threads."""


class Consumer:
    """`pares.Consumer` for asyncio. Takes the same arguments, and promises the same.

        async with pares.aio.Consumer(url, group="billing", topics=["orders"]) as consumer:
            async for batch in consumer.batches():
                await handle(batch.records)
                batch.done()

    It opens the ledger and joins in ``async with``, on a thread. Batches are those of `pares.Consumer`: `done` and
    `transaction` are plain calls. A body that is cancelled leaves its batch undone, so it is given out again.
    """

    @arguments_of(SyncConsumer.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._make = functools.partial(SyncConsumer, *args, **kwargs)
        self._made: SyncConsumer | None = None
        self._unwanted = False
        self._host = here()
        self._making = self._host.lock()

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self._enter)
        except asyncio.CancelledError:
            self._host.spawn(self._give_up, "pares: giving up")  # the thread that makes it can't be cancelled
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _enter(self) -> None:
        with self._making:
            if not self._unwanted and self._made is None:
                self._made = self._make()

    def _give_up(self) -> None:
        with self._making:
            self._unwanted, made = True, self._made
        if made is not None:
            made.close()

    @property
    def _consumer(self) -> SyncConsumer:
        if self._made is None:
            raise ClosedError("this consumer is not entered: use `async with`")
        return self._made

    def batches(self, timeout: float | None = None) -> AsyncGenerator[Batch, None]:
        """Batches as they come, as `pares.Consumer.batches`; several tasks may iterate, each batch goes to one of them."""
        return self._each(self._next, timeout)

    def records(self, timeout: float | None = None) -> AsyncGenerator[Item, None]:
        """Records one by one, as `pares.Consumer.records`; several tasks may iterate. `done` and `retry` are plain calls;
        `reject` waits for the dead-letter stream: ``await asyncio.to_thread(record.reject, why)``."""
        return self._each(functools.partial(self._some, 1), timeout)

    async def _each(
        self, fetch: Callable[[float], Awaitable[list[T]]], timeout: float | None
    ) -> AsyncGenerator[T, None]:
        """What `fetch(seconds)` brings, until nothing has come for `timeout` seconds, or nothing will come any more."""
        clock = asyncio.get_running_loop().time
        end = None if timeout is None else clock() + timeout
        while True:
            step = STEP if end is None else min(STEP, end - clock())
            if step < 0:
                return
            found = await fetch(step)
            for one in found:
                yield one
                end = None if timeout is None else clock() + timeout
            if not found and self._consumer.ended:
                return

    async def _next(self, timeout: float) -> list[Batch]:
        consumer = self._consumer
        batch = await _kept(functools.partial(consumer.next_batch, timeout), functools.partial(_put_back, consumer))
        return [] if batch is None else [batch]

    async def _some(self, most: int, timeout: float) -> list[Item]:
        consumer = self._consumer
        fetch = functools.partial(consumer.next_records, most, timeout, thread=NO_THREAD)
        return await _kept(fetch, functools.partial(_put_records_back, consumer))

    async def run(self, handler: Callable[[Item], Awaitable[object]]) -> None:
        """Awaits `handler(record)` for each record, `concurrency` of them at a time, until this consumer is closed.

        As `pares.Consumer.run`: a handler that returns has done its record, one that raises is tried again. A handler that has
        outlived its claim, so that nothing that it does counts, is cancelled. When this call is cancelled its handlers are, and
        their records are given out again.
        """
        consumer, tasks = self._consumer, dict[asyncio.Task[None], Item]()
        try:
            while not consumer.ended:
                room = consumer.concurrency - len(tasks)
                if room:
                    for item in await self._some(room, STEP):
                        tasks[asyncio.create_task(self._handle(handler, item))] = item
                else:
                    await asyncio.wait(tasks, timeout=STEP, return_when=asyncio.FIRST_COMPLETED)
                for task in [task for task in tasks if task.done()]:
                    item = tasks.pop(task)
                    if task.cancelled():
                        self._cancelled(item)
                    else:
                        task.result()
                for task, item in tasks.items():
                    if consumer.is_lost(item):
                        task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            consumer.raise_failure()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for task, item in tasks.items():
                if task.cancelled():
                    self._cancelled(item)

    async def _handle(self, handler: Callable[[Item], Awaitable[object]], item: Item) -> None:
        consumer = self._consumer
        try:
            await handler(item)
        except asyncio.CancelledError:
            self._cancelled(item)
        except Exception as error:
            # On a thread, and to its end: a call that still waits for a thread when this task is cancelled would never be made,
            # and the record would be this consumer's for ever.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(asyncio.to_thread(failed, consumer, item, error))
        else:
            if not item.settled:
                item.done()

    def _cancelled(self, item: Item) -> None:
        """Its handler was, perhaps before it had begun."""
        if self._consumer.is_lost(item):
            item.done()  # which says that it has outlived its claim
        else:
            self._consumer.put_back_record(item, seen=True)

    def claims(self, *, all: bool = False) -> list[Claim]:
        """As `pares.Consumer.claims`."""
        return self._consumer.claims(all=all)

    async def lag(self) -> int:
        """As `pares.Consumer.lag`."""
        return await asyncio.to_thread(self._consumer.lag)

    def load(self) -> int:
        """As `pares.Consumer.load`."""
        return self._consumer.load()

    async def flush(self) -> None:
        """As `pares.Consumer.flush`."""
        await asyncio.to_thread(self._consumer.flush)

    def health(self) -> Health:
        """As `pares.Member.health`."""
        return self._consumer.health()

    @property
    def id(self) -> str:
        """`name~incarnation`."""
        return self._consumer.id

    @property
    def name(self) -> str:
        """The name it was made with, or that of host, process id and time."""
        return self._consumer.name

    @property
    def group(self) -> str:
        """The group whose consumers share the work."""
        return self._consumer.group

    @property
    def state(self) -> State:
        """joining, live, closing, closed or failed."""
        return self._consumer.state

    async def close(self, timeout: float | None = None) -> None:
        """As `pares.Consumer.close`: waits for batches that other tasks have in their hands."""
        if self._made is not None:
            await asyncio.to_thread(self._made.close, timeout)


async def _kept(fetch: Callable[[], T], put_back: Callable[[asyncio.Future[T]], object]) -> T:
    """What `fetch` brings, on a thread. What comes after this task was cancelled is put back: nothing that was given out is
    lost."""
    coming = asyncio.ensure_future(asyncio.to_thread(fetch))
    try:
        return await asyncio.shield(coming)
    except asyncio.CancelledError:
        coming.add_done_callback(put_back)
        raise


def _put_back(consumer: SyncConsumer, coming: asyncio.Future[Batch | None]) -> None:
    with contextlib.suppress(Exception):
        batch = coming.result()
        if batch is not None:
            consumer.put_back(batch)


def _put_records_back(consumer: SyncConsumer, coming: asyncio.Future[list[Item]]) -> None:
    with contextlib.suppress(Exception):
        for item in coming.result():
            consumer.put_back_record(item)
