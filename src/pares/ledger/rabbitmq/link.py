"""The connection of one RabbitMQ ledger: a thread with an event loop, and one connection after the other in it.

A ledger is called from any thread, and one thread does all that goes over the connection: so TLS is used by one thread alone,
answers come in the order of the requests, and what is pushed is in its window before the answer to a later request is. A
connection that breaks takes with it what was not sent; the next one begins with nothing.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable, ParesError
from pares.ledger.client_options import MAYBE_NO_TLS
from pares.ledger.handle_state import Lifetime, keep_after_fork
from pares.ledger.rabbitmq.errors import BAD_LOGIN, NO_VHOST, NOT_FROM_HERE, Lost, Refused, unavailable
from pares.ledger.rabbitmq.settings import Settings, log
from pares.ledger.rabbitmq.wire import Wire, connect

T = TypeVar("T")

_SOON: Final = 0.02
_LATER: Final = 0.2
"""Seconds between two attempts to connect: the first ones, and the later ones."""
_GRACE: Final = 0.5
"""Seconds for which `close` leaves a request that is under way to its answer."""
_NEVER: Final = (BAD_LOGIN, NOT_FROM_HERE, NO_VHOST)
"""Codes by which a server says that it will not let this user in."""


class Link:
    """`call`, `post`, `connect` and `close` are for any thread, all else for the loop's own."""

    def __init__(self, settings: Settings, lifetime: Lifetime) -> None:
        _client_library(settings.url)
        self.settings = settings
        self.begun: Callable[[Wire], None] = lambda wire: None
        """Hears of each new connection."""
        self._lifetime = lifetime
        self._wire: Wire | None = None
        self._why = "nothing was heard of the server"
        self._final: ParesError | None = None
        self._news = asyncio.Event()
        self._calls: set[concurrent.futures.Future[Any]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"pares {settings.where}", daemon=True)
        keep_after_fork(self)

    def connect(self) -> None:
        """Start, and wait for the first connection. Raises `ConfigError` if the server refuses the user, `CapabilityError` if
        it is too old, and `LedgerUnavailable`."""
        self.settings.tls()  # raises here, if anywhere
        self._thread.start()
        self.call(self._first())

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it in the loop, and return what it comes to."""
        try:
            self._lifetime.check()
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except BaseException as error:
            work.close()
            raise self._lifetime.closed_error(self.settings.url) if isinstance(error, RuntimeError) else error from None
        self._calls.add(future)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise self._lifetime.closed_error(self.settings.url) from None
        except BaseException:
            future.cancel()
            raise
        finally:
            self._calls.discard(future)

    def do(self, work: Callable[[Wire], Awaitable[T]], doing: str, seconds: float | None = None) -> T:
        """`work` on the connection, for what may be asked twice. Raises `LedgerUnavailable`, also if it takes longer than
        `seconds` (None: than any request may)."""
        return self.call(self._within(work, doing, seconds or self.settings.timeout))

    def post(self, work: Coroutine[Any, Any, None]) -> None:
        """Have it run in the loop, and don't wait; nothing happens after `close`."""
        try:
            asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()

    def close(self) -> None:
        """End the connection, the loop, the thread. What others wait for is given up."""
        if self._thread.ident is None:
            self._loop.close()
            return
        # What is under way is about to be answered; an append that was cut off here would be of unknown outcome.
        concurrent.futures.wait([*self._calls], _GRACE)
        asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # In the loop -----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> Wire | None:
        """The connection there is."""
        return self._wire

    async def wire(self) -> Wire:
        """The connection; waits for one if there is none."""
        while self._wire is None:
            await self._news.wait()
        return self._wire

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _within(self, work: Callable[[Wire], Awaitable[T]], doing: str, seconds: float) -> T:
        wire = None
        try:
            async with asyncio.timeout(seconds):
                wire = await self.wire()
                return await work(wire)
        except TimeoutError:
            raise self.late(wire, doing) from None
        except (Lost, Refused) as error:
            raise unavailable(self.settings.where, doing, str(error)) from None

    def late(self, wire: Wire | None, doing: str, *, unknown: bool = False) -> LedgerUnavailable:
        """The error for a request that got no answer in time, or found no connection. The connection is given up."""
        if wire is None:
            why = f"no connection: {self._why}"
        else:
            why = f"{wire.server} does not answer in time"
            wire.end(why)
        return unavailable(self.settings.where, doing, why, unknown=unknown)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.create_task(self._keep())
        self._loop.run_forever()

    async def _first(self) -> None:
        try:
            async with asyncio.timeout(self.settings.connect):
                while self._wire is None:
                    if self._final is not None:
                        raise self._final
                    await self._news.wait()
        except TimeoutError:
            raise self.late(None, "connect") from None

    async def _keep(self) -> None:
        """One connection after the other, as long as the loop runs."""
        failed = 0
        while True:
            try:
                async with asyncio.timeout(self.settings.connect):
                    wire = await connect(self.settings)
            except TimeoutError:
                silent = f"{self.settings.server} does not answer in time"
                self._failed(silent + (MAYBE_NO_TLS if self.settings.client.get("ssl") else ""), None)
            except Lost as error:
                self._failed(str(error), None)
            except Refused as error:
                final = ConfigError(f"{self.settings.where}: {error}") if error.code in _NEVER else None
                self._failed(str(error), final)
            except (CapabilityError, ConfigError) as error:
                self._failed(str(error), error)
            except Exception as error:
                log.exception("%s: could not connect", self.settings.where)
                self._failed(repr(error), None)
            else:
                failed, self._final, self._wire = 0, None, wire
                self._tell()
                self.begun(wire)
                self._why = await wire.over
                self._wire = None
                log.debug("%s: %s", self.settings.where, self._why)
                await asyncio.sleep(_SOON)
                continue
            failed += 1
            await asyncio.sleep(_SOON if failed < 10 else _LATER)

    def _failed(self, why: str, final: ParesError | None) -> None:
        self._why, self._final = why, final
        self._tell()

    def _tell(self) -> None:
        """Wake all that wait for news of the connection."""
        self._news.set()
        self._news = asyncio.Event()

    async def _leave(self) -> None:
        mine = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not mine]
        wire, self._wire = self._wire, None
        for task in tasks:
            task.cancel()
        if wire is not None:
            await wire.leave(_GRACE)
        if tasks:
            await asyncio.wait(tasks)


def _client_library(url: str) -> None:
    try:
        import rstream.encoding  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise CapabilityError(
            f"{url}: RabbitMQ ledgers need rstream ({error}): pip install 'pares[rabbitmq]'"
        ) from error
