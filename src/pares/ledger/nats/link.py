"""The connection of one NATS ledger: a thread with an event loop, and one client after the other in it.

NATS' client for Python is asyncio, a ledger is called from any thread. So each ledger has one private thread that runs a loop,
and a caller waits for the result of its coroutine. A loop of the caller's own would stand still whenever the caller does, and
then leave the server's questions unanswered. With one loop for all ledgers of a process, trouble of one ledger would reach all,
and there would be no time at which to give everything back.

**Epochs.** The client is never asked to reconnect by itself: a client that does so keeps what was published meanwhile, and what
was on its way when the connection broke, and sends it later, when it is no longer true. Here a connection that ends takes its
client with it, with everything that was not sent; a new connection is a new client and a new *epoch*. A caller that publishes
without one is told so.

**Silence.** A connection on which nothing has come for half of `timeout` is asked (PING); no answer within `timeout` ends the
epoch, and the socket is reset, so that the system does not deliver later what it could not deliver so far. What has reached the
server's machine is the server's: it may be carried out when the server goes on.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger.handle_state import Lifetime, keep_after_fork
from pares.ledger.nats.epoch import NO_ANSWERS, Denied, Epoch, Lost
from pares.ledger.nats.settings import Settings, log

T = TypeVar("T")

_SOON: Final = 0.01
_LATER: Final = 0.2
"""Seconds between two rounds of attempts to connect: the first ones, and the later ones."""
REFUSED: Final = ("authorization violation", "authentication", "invalid user", "credentials", NO_ANSWERS.lower())


class Link:
    """What a ledger reaches NATS by. `call`, `connect` and `close` are for any thread, all else for the loop's own."""

    def __init__(self, settings: Settings, lifetime: Lifetime) -> None:
        _client_library(settings.url)
        self.settings = settings
        self.hooks: list[Callable[[Epoch], Awaitable[None]]] = []
        """What is to be done on each new connection before it is used."""
        self.numbers = 0
        """How many connections there have been; the number of the one there is, or was."""
        self._lifetime = lifetime
        self._pool = [*settings.servers]
        self._told: dict[str, str] = {}
        self._refused: set[str] = set()
        self._tried: set[str] = set()
        self._epoch: Epoch | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"pares {settings.where}", daemon=True)
        keep_after_fork(self)

    def connect(self) -> None:
        """Start, and wait for the first connection, for `settings.connect` seconds.

        Raises `LedgerUnavailable` if no server answers, `ConfigError` if all that answer refuse the credentials.
        """
        self.settings.connection()  # raises here, if anywhere
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
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise self._lifetime.closed_error(self.settings.url) from None
        except BaseException:
            future.cancel()
            raise

    def post(self, work: Coroutine[Any, Any, None]) -> None:
        """Have it run in the loop, and don't wait; nothing happens after `close`."""
        try:
            asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()

    @property
    def now(self) -> Epoch | None:
        """The connection there is."""
        return self._epoch

    async def epoch(self) -> Epoch:
        """The connection; waits for one if there is none."""
        while self._epoch is None:
            await self._news.wait()
        return self._epoch

    async def within(self, seconds: float, work: Callable[[Epoch], Awaitable[T]], doing: str) -> T:
        """`work` on the connection. Raises `LedgerUnavailable` if it takes too long: for what may be asked twice."""
        epoch = None
        try:
            async with asyncio.timeout(seconds):
                epoch = await self.epoch()
                return await work(epoch)
        except (TimeoutError, Lost) as error:
            raise self.unavailable(epoch, doing, str(error)) from None
        except Denied as error:
            raise self.denied(doing, error) from None

    def unavailable(
        self, epoch: Epoch | None, doing: str, why: str = "", *, unknown: bool = False
    ) -> LedgerUnavailable:
        """The error for a request that got no answer, or found no connection."""
        if epoch is None:
            why = f"no server answers ({self.trouble()}); look whether they run and can be reached"
        else:
            self._loop.create_task(self._doubt(epoch))
            why = why or f"no answer in time from {epoch.server}; look whether the servers run, and enough of them"
        outcome = "; whether it happened is unknown" if unknown else ""
        return LedgerUnavailable(f"{self.settings.where}: could not {doing}{outcome}: {why}", unknown=unknown)

    def denied(self, doing: str, error: Denied) -> LedgerUnavailable:
        """The error for a request that the user may not make."""
        return LedgerUnavailable(
            f"{self.settings.where}: could not {doing}: the user has no right to do that ({error}); change the permissions"
        )

    def trouble(self) -> str:
        """What the servers, or the system, have said last."""
        return "; ".join(f"{server}: {said}" for server, said in self._told.items()) or "nothing was heard of any"

    def close(self) -> None:
        """End the connection, the loop, the thread. What others wait for is given up."""
        if self._thread.ident is None:
            self._loop.close()
            return
        asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # In the loop -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.create_task(self._keep())
        self._loop.run_forever()

    async def _leave(self) -> None:
        mine = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not mine]
        epoch, self._epoch = self._epoch, None
        if epoch is not None:
            await epoch.leave()
        while tasks:
            for task in tasks:
                task.cancel()
            # Again, if need be: the client may swallow it.
            _, left = await asyncio.wait(tasks, timeout=0.1)
            tasks = [*left]

    async def _first(self) -> None:
        settings = self.settings
        try:
            async with asyncio.timeout(settings.connect):
                while self._epoch is None:
                    if self._tried and self._refused == self._tried >= {*settings.servers}:
                        raise ConfigError(
                            f"{settings.where}: the servers refuse these credentials ({self.trouble()}); check user, password, "
                            "token, creds or nkey in options= or config="
                        )
                    await self._news.wait()
        except TimeoutError:
            raise self.unavailable(None, "connect") from None

    async def _keep(self) -> None:
        """One connection after the other, as long as the loop runs."""
        at, failed = 0, 0
        while True:
            server = self._pool[at % len(self._pool)]
            at += 1
            epoch = Epoch(self.numbers + 1, server, self.settings)
            try:
                await epoch.begin()
                for hook in self.hooks:
                    await hook(epoch)
            except (ConnectionError, Lost) as error:
                self._failed(server, str(error))
                epoch.end("it never began")
                await epoch.gone()
                failed += 1
                if failed % len(self._pool) == 0:
                    await asyncio.sleep(_SOON if failed < 10 * len(self._pool) else _LATER)
                continue
            except Exception as error:
                self._failed(server, f"{error!r}")
                epoch.end("it never began")
                log.exception("%s: could not connect to %s", self.settings.where, server)
                await asyncio.sleep(_LATER)
                continue
            failed = 0
            self.numbers, self._epoch = epoch.number, epoch
            self._told.pop(server, None)
            self._refused.clear()
            self._tell()
            self._told[server] = await epoch.over
            self._learn(epoch)
            self._epoch = None
            self._tell()
            log.debug("%s: %s", self.settings.where, self._told[server])
            # Beside what comes next: to let go of a connection to a server that stands still may take a second.
            task = self._loop.create_task(epoch.gone())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
            await asyncio.sleep(_SOON)  # for a server that takes connections and ends them at once

    def _failed(self, server: str, said: str) -> None:
        self._tried.add(server)
        self._told[server] = said
        if any(sign in said.lower() for sign in REFUSED):
            self._refused.add(server)
        else:
            self._refused.discard(server)
        self._tell()

    def _tell(self) -> None:
        """Wake all that wait for news of the connection."""
        self._news.set()
        self._news = asyncio.Event()

    def _learn(self, epoch: Epoch) -> None:
        """Servers that the cluster has told of, beside those that the URL names."""
        for server in epoch.client.servers:
            if server.netloc and server.netloc.rpartition("@")[2] not in self._pool:
                self._pool.append(server.netloc.rpartition("@")[2])

    async def _doubt(self, epoch: Epoch) -> None:
        if not epoch.over.done():
            await epoch.check()


def _client_library(url: str) -> None:
    try:
        import nats.aio.client  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise CapabilityError(f"{url}: NATS ledgers need nats-py ({error}): pip install 'pares[nats]'") from error
