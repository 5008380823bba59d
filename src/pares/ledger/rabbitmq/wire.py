"""One connection to a RabbitMQ server, from its beginning to its end. It never reconnects, and sends nothing twice.

Of rstream only the protocol's frames are used. Its client reads 256 bytes at a time, drops a publish in silence when the
connection has ended, and takes 0.2 s to close; its producer and consumer reconnect by themselves, and a consumer then begins
elsewhere than where it was.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from pares.core.errors import CapabilityError
from pares.ledger.client_options import MAYBE_NO_TLS, tls_advice
from pares.ledger.rabbitmq.errors import OK, Lost, Refused
from pares.ledger.rabbitmq.settings import Settings

OLDEST: Final = (3, 10)
"""The oldest version that will do."""
BEAT: Final = 5
"""Seconds after which an idle side says so; twice as many of silence end the connection."""
_SUBSCRIPTIONS: Final = 256
_MOST_FRAME: Final = 64 << 20


class Wire(asyncio.Protocol):
    """All methods are for the loop's thread."""

    def __init__(self, settings: Settings) -> None:
        self.server = settings.server
        self.version = ""
        self.largest = 0
        """Bytes that a frame may have; 0: any number."""
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why it ended."""
        self.gone: Callable[[str], None] = lambda stream: None
        """Hears of a stream that is no longer to be had."""
        self._settings = settings
        self._numbers = itertools.count(1)
        self._waiting: dict[tuple[Any, int | None], asyncio.Future[Any]] = {}
        self._takers: dict[int, Callable[[Any], None]] = {}
        self._publishers: dict[int, Callable[[int, int], None]] = {}
        self._buffer = bytearray()
        self._heard = 0.0
        self._transport: asyncio.Transport | None = None
        self._shut = asyncio.Event()
        """Set once the socket is given back."""

    # The beginning and the end ---------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Introduce oneself. Raises `Lost`, `Refused` and `CapabilityError`."""
        from rstream import schema

        settings = self._settings
        said = await self.ask(
            schema.PeerPropertiesResponse,
            schema.PeerProperties(
                self.next(), [schema.Property("product", "pares"), schema.Property("platform", "Python")]
            ),
        )
        self.version = {each.key: each.value for each in said.properties}.get("version", "")
        version = tuple(int(part) for part in self.version.split(".")[:2] if part.isdecimal())
        if version < OLDEST:
            raise CapabilityError(
                f"{settings.where}: the server is a RabbitMQ {self.version or 'of unknown version'}: a ledger needs "
                f"{'.'.join(map(str, OLDEST))} or newer; upgrade the server"
            )
        await self.ask(schema.SaslHandshakeResponse, schema.SaslHandshake(self.next()))
        tune = self._expect(schema.Tune, None)
        login = b"\0".join((b"", settings.user.encode(), settings.password.encode()))
        await self.ask(schema.SaslAuthenticateResponse, schema.SaslAuthenticate(self.next(), "PLAIN", login))
        limits = await tune
        self.largest = limits.frame_max
        self.send(schema.Tune(limits.frame_max, BEAT))
        await self.ask(schema.OpenResponse, schema.Open(self.next(), settings.vhost))
        self._beat()

    def _beat(self) -> None:
        from rstream.schema import Heartbeat

        loop = asyncio.get_running_loop()
        if self.over.done():
            return
        if loop.time() > self._heard + 2.5 * BEAT:
            self.end(f"{self.server} has been silent for {loop.time() - self._heard:.0f} s")
            return
        self.send(Heartbeat())
        loop.call_later(BEAT, self._beat)

    def end(self, why: str) -> None:
        """Now, and what the system has not delivered yet is taken back. What waits for an answer hears of it."""
        transport, self._transport = self._transport, None
        if transport is not None:
            plug: socket.socket | None = transport.get_extra_info("socket")
            if plug is not None:
                try:
                    plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                except OSError:
                    pass  # it is closed already
            transport.abort()
        self._over(why)

    async def leave(self, seconds: float) -> None:
        """End it in good order, for which TLS waits for the server: for so many seconds."""
        from rstream.schema import Close

        transport = self._transport
        if transport is not None:
            self.send(Close(self.next(), OK, "OK"))
            transport.close()
            self._transport = None
        self._over("closed")
        if transport is None:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._shut.wait()
        except TimeoutError:
            transport.abort()
            await asyncio.sleep(0)  # the transport closes its socket in the loop's next round

    def _over(self, why: str) -> None:
        if not self.over.done():
            self.over.set_result(why)
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(Lost(why))
                future.exception()  # not every one is waited for

    # Requests --------------------------------------------------------------------------------------------------------

    def next(self) -> int:
        """A number for a request."""
        return next(self._numbers)

    def send(self, frame: Any) -> None:
        from rstream.encoding import encode_frame

        self.send_raw(encode_frame(frame))

    def send_raw(self, data: bytes) -> None:
        """Raises `Lost` if the connection has ended: then nothing was sent."""
        if self._transport is None:
            raise Lost(self.over.result() if self.over.done() else "the connection is closed")
        self._transport.write(data)

    def begin_asking(self, answer: type[Any], frame: Any) -> asyncio.Future[Any]:
        """A request whose answer is waited for later. The server answers in order."""
        future = self._expect(answer, frame.correlation_id)
        self.send(frame)
        return future

    async def ask(self, answer: type[Any], frame: Any) -> Any:
        """The answer. Raises `Refused` and `Lost`."""
        return await self.begin_asking(answer, frame)

    def _expect(self, answer: type[Any], number: int | None) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.over.done():
            raise Lost(self.over.result())
        self._waiting[answer.key, number] = future
        return future

    def subscription(self, taker: Callable[[Any], None]) -> int:
        """A free number for a subscription, whose chunks go to `taker`."""
        for number in range(_SUBSCRIPTIONS):
            if number not in self._takers:
                self._takers[number] = taker
                return number
        raise Lost(f"more than {_SUBSCRIPTIONS} partitions are in use over one connection: use fewer")

    def end_subscription(self, number: int) -> None:
        """Nothing comes any more by then."""
        self._takers.pop(number, None)

    def publisher(self, heed: Callable[[int, int], None]) -> int:
        """A free number for a publisher; `heed` hears which of its appends were refused, and the code."""
        for number in range(_SUBSCRIPTIONS):
            if number not in self._publishers:
                self._publishers[number] = heed
                return number
        raise Lost(f"more than {_SUBSCRIPTIONS} partitions are in use over one connection: use fewer")

    def end_publisher(self, number: int) -> None:
        self._publishers.pop(number, None)

    # What comes ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._heard = asyncio.get_running_loop().time()
        plug: socket.socket | None = transport.get_extra_info("socket")
        if plug is not None:
            plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._shut.set()
        why = self._settings.scrubbed(str(exc)) if exc is not None else "the server has closed the connection"
        self._over(f"{self.server}: {why}")

    def data_received(self, data: bytes) -> None:
        from rstream.encoding import decode_frame

        self._heard = asyncio.get_running_loop().time()
        self._buffer += data
        while len(self._buffer) >= 4:
            if self._buffer.startswith(b"AMQP"):
                self.end(
                    f"{self.server} speaks AMQP there: name the port of the plugin rabbitmq_stream, 5552 unless it is set up "
                    "otherwise"
                )
                return
            if self._buffer.startswith(b"\x15\x03"):
                self.end(
                    f"{self.server} speaks TLS there: write rabbitmq-stream+tls://, or name the port that does not"
                )
                return
            size = int.from_bytes(self._buffer[:4], "big")
            if size > _MOST_FRAME:
                self.end(f"{self.server} speaks no protocol of RabbitMQ streams: check the port")
                return
            if len(self._buffer) < 4 + size:
                return
            frame = bytes(memoryview(self._buffer)[4 : 4 + size])
            del self._buffer[: 4 + size]
            try:
                self._take(decode_frame(frame))
            except (ValueError, KeyError, IndexError) as error:
                self.end(f"{self.server} has sent what nobody understands ({error}): check the port")
                return

    def _take(self, frame: Any) -> None:
        from rstream import schema

        match frame:
            case schema.Deliver():
                taker = self._takers.get(frame.subscription_id)
                if taker is not None:
                    taker(frame)
            case schema.PublishError():
                for error in frame.errors:
                    if (heed := self._publishers.get(frame.publisher_id)) is not None:
                        heed(error.publishing_id, error.response_code)
            case schema.MetadataUpdate():
                self.gone(frame.metadata_info.stream)
            case schema.Close():
                self.end(f"{self.server} has closed the connection: {self._settings.scrubbed(frame.reason)}")
            case _:
                future = self._waiting.pop((frame.key, frame.corr_id), None)
                if future is not None and not future.done():
                    code = getattr(frame, "response_code", OK)
                    if code == OK:
                        future.set_result(frame)
                    else:
                        future.set_exception(Refused(code))
                        future.exception()


async def connect(settings: Settings) -> Wire:
    """A connection that has let the user in. Raises `Lost`, `Refused`, `CapabilityError` and `ConfigError`."""
    loop = asyncio.get_running_loop()
    host, port = settings.address
    tls = settings.tls()
    wire = Wire(settings)
    try:
        await loop.create_connection(lambda: wire, host, port, ssl=tls)
    except ConnectionRefusedError:
        raise Lost(
            f"{settings.server} refuses connections: look whether the server runs, and its plugin rabbitmq_stream is enabled"
        ) from None
    except OSError as error:
        why = settings.scrubbed(str(error)) or "the server has closed the connection"
        if tls is not None:
            why += tls_advice(why) or (MAYBE_NO_TLS if isinstance(error, ConnectionError) else "")
        raise Lost(f"{settings.server}: {why}") from None
    try:
        await wire.begin()
    except BaseException as error:
        wire.end(str(error))
        raise
    return wire
