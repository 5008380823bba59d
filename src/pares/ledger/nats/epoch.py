"""One connection to a NATS server, from its beginning to its end: requests, subscriptions, and whether it still answers.

An epoch never reconnects. When it ends, each caller that waits for an answer gets an error, and what was not sent is dropped,
by the system, too. `nats.link` relies on that.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import socket
import struct
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from pares.ledger.nats.settings import Settings, log

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

_GOODBYE: Final = 1.0
"""Seconds that an orderly end may take."""


NO_ANSWERS: Final = "the user may not subscribe to _INBOX.>, where answers come; change the permissions"


class Lost(Exception):
    """The connection ended, or nothing came in time, after the request was handed over: nobody knows what became of it."""


class Nobody(Exception):
    """Nobody serves that subject: the request was not carried out."""


class Denied(Exception):
    """The user may not publish on that subject: the request was not carried out."""


class Epoch:
    """One connection, from its beginning to its end. All methods are for the loop's thread."""

    def __init__(self, number: int, server: str, settings: Settings) -> None:
        from nats.aio.client import Client

        self.number = number
        self.server = server
        self.client: Client = Client()
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why it ended."""
        self._settings = settings
        self._prefix = f"_INBOX.{secrets.token_hex(11)}."
        self._numbers = itertools.count(1)
        self._requests: dict[str, tuple[str, asyncio.Future[Msg]]] = {}
        self._handlers: dict[str, Callable[[Msg], Awaitable[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._errors: list[str] = []
        self._denied: deque[tuple[float, str]] = deque(maxlen=100)
        """What the server has said of things that the user may not do, and when."""

    async def begin(self) -> None:
        """Connect. Raises `ConnectionError` with what the server, or the system, said."""
        import nats.errors

        patience = max(1.0, self._settings.timeout)
        told = self._settings.connection()
        try:
            async with asyncio.timeout(patience):
                await self.client.connect(
                    servers=[f"nats://{self.server}"],
                    name="pares",
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    connect_timeout=patience,  # pyright: ignore[reportArgumentType]
                    ping_interval=3600,  # `_watch` does it
                    error_cb=self._on_error,
                    disconnected_cb=self._on_end,
                    **told,
                )
                client: Any = self.client
                client._reading_task.add_done_callback(self._on_deaf)
                if "tls" in told and self._writer().get_extra_info("ssl_object") is None:
                    raise ConnectionError("it speaks no TLS, and tls_ settings were given")
                await self.subscribe(f"{self._prefix}*", self._on_message)
                await self.flush()
                if self._denied:
                    # Without answers everything would end in silence.
                    raise ConnectionError(f"{NO_ANSWERS} ({self._denied[-1][1]})")
        except (OSError, TimeoutError, nats.errors.Error) as error:
            self.end("it never began")
            said = str(error) if isinstance(error, ConnectionError) else ""
            said = self._errors[-1] if self._errors and not said else said or str(error)
            raise ConnectionError(said or f"no answer in {patience:g} s") from None
        except BaseException:
            self.end("it never began")
            raise
        self._start(self._watch())

    @property
    def max_payload(self) -> int:
        """Bytes that a message may have, headers included, by the server."""
        return self.client.max_payload

    @property
    def has_jetstream(self) -> bool:
        """Whether the server itself runs JetStream."""
        client: Any = self.client
        return bool(client._server_info.get("jetstream"))

    async def request(self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None) -> Msg:
        """One request and its answer; the caller bounds the time. Raises `Lost`, `Nobody`, `Denied`."""
        token = str(next(self._numbers))
        future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._requests[token] = (subject, future)
        try:
            await self.publish(subject, payload, reply=self._prefix + token, headers=headers)
            return await future
        finally:
            del self._requests[token]
            if future.done() and not future.cancelled():
                future.exception()  # it was looked at

    async def publish(
        self, subject: str, payload: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """Hand over to the connection. Raises `Lost` if there is none any more."""
        import nats.errors

        if self.over.done():
            raise Lost(self.over.result())
        try:
            await self.client.publish(subject, payload, reply, dict(headers) if headers else None)
        except (nats.errors.Error, OSError) as error:
            raise Lost(str(error)) from None
        _heed()

    async def subscribe(self, subject: str, handler: Callable[[Msg], Awaitable[None]]) -> Subscription:
        """Have every message on the subject handed over; none is dropped here."""
        client: Any = self.client
        return await client.subscribe(subject, cb=handler, pending_msgs_limit=0, pending_bytes_limit=0)

    def denied(self, subject: str, since: float) -> str | None:
        """What the server has said since then (`time.monotonic`) of a subject that the user has no right to, if anything."""
        name = f'"{subject.lower()}"'
        return next((text for at, text in self._denied if at >= since and name in text.lower()), None)

    def new_inbox(self) -> str:
        """A subject that nobody else has, for a subscription."""
        return f"_INBOX.{secrets.token_hex(11)}"

    def inbox(self, handler: Callable[[Msg], Awaitable[None]], subject: str) -> tuple[str, asyncio.Future[Msg]]:
        """A subject of this connection's own, for answers to a request on `subject`: they are for `handler`, until `forget`.
        What comes with it never has a result; it fails if the user may not ask that (`Denied`), or when the connection ends
        (`Lost`)."""
        token = str(next(self._numbers))
        self._handlers[token] = handler
        failure: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._requests[token] = (subject, failure)
        return self._prefix + token, failure

    def forget(self, inbox: str) -> None:
        token = inbox[len(self._prefix) :]
        self._handlers.pop(token, None)
        _, failure = self._requests.pop(token, ("", None))
        if failure is not None and failure.done() and not failure.cancelled():
            failure.exception()  # it was looked at

    async def flush(self) -> None:
        """A round trip behind everything that was handed over so far. Raises whatever comes in between."""
        client: Any = self.client
        # A PING of the client's overtakes what waits to be written: so that first.
        await client._flush_pending(force_flush=True)
        _heed()
        await client.flush()
        if client._reading_task is None or client._reading_task.done():
            raise Lost("its client has ceased to read")  # then a flush asks nobody

    async def check(self) -> None:
        """End it unless the server answers."""
        try:
            async with asyncio.timeout(self._settings.timeout):
                await self.flush()
        except Exception as error:
            self.end(f"{self.server} does not answer ({str(error) or type(error).__name__})")

    def end(self, why: str) -> None:
        """It is over: nothing is sent any more, and nobody need wait for an answer."""
        if self.over.done():
            return
        self.over.set_result(why)
        for _, future in self._requests.values():
            if not future.done():
                future.set_exception(Lost(why))
        for task in self._tasks:
            task.cancel()
        self._reset()

    async def leave(self) -> None:
        """An orderly end: what was published is sent."""
        try:
            async with asyncio.timeout(_GOODBYE):
                await self.flush()
        except Exception as error:
            log.debug("%s: %s", self.server, error)
        self.end("it was closed")
        await self.gone()

    async def gone(self) -> None:
        """Wait until the client has let go of everything."""
        try:
            async with asyncio.timeout(_GOODBYE):
                await self.client.close()
        except Exception as error:
            log.debug("%s: %s", self.server, error)
        _heed()

    async def _watch(self) -> None:
        """Ask a server that has been silent for a while."""
        heard = -1
        while not self.over.done():
            await asyncio.sleep(self._settings.timeout / 2)
            if self.client.stats["in_msgs"] == heard:
                await self.check()
            heard = self.client.stats["in_msgs"]

    async def _on_message(self, message: Msg) -> None:
        token = message.subject[len(self._prefix) :]
        handler = self._handlers.get(token)
        if handler is not None:
            await handler(message)
            return
        _, future = self._requests.get(token, ("", None))
        if future is None or future.done():
            return  # it was given up
        if message.headers and message.headers.get("Status") == "503":
            future.set_exception(Nobody())
        else:
            future.set_result(message)

    async def _on_error(self, error: Exception) -> None:
        number = error.errno if isinstance(error, OSError) else None
        said = os.strerror(number) if number is not None and number > 0 else str(error)
        text = self._settings.scrubbed(said or type(error).__name__)
        log.debug("%s: %s", self.server, text)
        self._errors = [*self._errors[-8:], text]
        if "permissions violation" in text.lower():
            # The client hears of it beside the answers, in small letters.
            self._denied.append((time.monotonic(), text))
            for subject, future in self._requests.values():
                if not future.done() and f'"{subject.lower()}"' in text.lower():
                    future.set_exception(Denied(text))

    async def _on_end(self) -> None:
        self._closed()

    def _on_deaf(self, reading: asyncio.Task[None]) -> None:
        """The client reads no more. It says so to nobody if the connection broke with something in its hands: it tries to send
        that, fails, and stops in the middle of its end."""
        if not reading.cancelled():
            reading.exception()  # it was looked at
        self._closed()

    def _closed(self) -> None:
        said = self.client.last_error
        self.end(f"{self.server} closed the connection" + (f" ({self._settings.scrubbed(str(said))})" if said else ""))

    def _writer(self) -> asyncio.StreamWriter:
        client: Any = self.client
        return client._transport._io_writer

    def _reset(self) -> None:
        """Take back from the system what it has not delivered yet. (The client has no public way to its socket.)"""
        try:
            writer = self._writer()
            plug: socket.socket = writer.get_extra_info("socket")
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        except (AttributeError, OSError):
            pass  # there never was one, or it is closed

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _heed() -> None:
    """The client swallows a cancellation that meets it while it writes; callers that have waited for the client ask here."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
