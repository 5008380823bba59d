"""The streams behind a log: made when they are missing, looked over when they are there, and what is asked of them.

One partition is one stream, as a log's offsets are its partition's own: partition 0 of the log `work` is the stream `work`,
partition 1 is `work=1`. Two numbers are kept by the server as stored offsets, which it carries along whatever it deletes:

| number | where | what |
|---|---|---|
| `pares` | in the stream itself, when it is made | which stream this is, drawn at random |
| that number, in hexadecimal | in the stream `work=starts` | where the partition begins since it was trimmed |

The first one takes the stream's place 0. So offset n of the log is place n + 1. The server has no way to delete entries one by
one: it drops whole segments by age (`max_age`, twice the ledger's `retention`), and what was trimmed is hidden until then.

Another trait of the server is used: it answers requests in order, and sends what is there for a new subscription before the
answer to the next request. So a subscription that is ended in the same breath reads what is there now, and no more.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger.rabbitmq.errors import NO_OFFSET, NO_RIGHT, NO_STREAM, NOT_AVAILABLE, PRECONDITION, THERE, Refused
from pares.ledger.rabbitmq.settings import Settings
from pares.ledger.rabbitmq.wire import Wire

ID: Final = "pares"
"""Under which the number of a stream is stored in it."""
_ABOVE: Final = 1 << 62
"""Added to all that is stored: the server forgets stored offsets below the first one that it still has."""
_SEGMENT: Final = 16 << 20
"""Bytes of a segment, the least that is deleted at once."""
_STARTS_BYTES: Final = 8 << 20
_PAUSE: Final = 0.05
_FIRST_FRESH: Final = 1.0
"""Seconds for which the first place that a stream still has is believed."""
_AT_ONCE: Final = 16


class Bounds(NamedTuple):
    identity: int
    start: int
    end: int
    last: Any | None
    """The stream's last chunk, if it has one."""


class Streams:
    """All methods are for the loop's thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._firsts: dict[int, tuple[int, float]] = {}

    # What is asked ---------------------------------------------------------------------------------------------------

    async def identity(self, wire: Wire, stream: str) -> int | None:
        """Which stream it is; None if it is there and has no number. Raises `Refused` if there is none."""
        return await stored(wire, stream, ID)

    async def bounds(self, wire: Wire, stream: str) -> Bounds:
        """What the server has of it now. Raises `Refused`, and `LedgerUnavailable` for a stream that is none of ours."""
        from rstream.constants import OffsetType

        last = peek(wire, stream, OffsetType.LAST, None, 1)
        asked = asking(wire, stream, ID)
        chunks = await last
        found = await answered(asked)
        if found is None:
            raise LedgerUnavailable(f"{self._settings.where}: the stream {stream} is no longer one of a pares ledger")
        trimmed = await self._start(wire, found)
        end = chunks[-1].chunk_first_offset + chunks[-1].num_records - 1 if chunks else 0
        first, at = self._firsts.get(found, (0, -_FIRST_FRESH))
        if chunks and time.monotonic() > at + _FIRST_FRESH:
            begin = await peek(wire, stream, OffsetType.FIRST, None, 1)
            first = begin[0].chunk_first_offset - 1 if begin else 0
            self._firsts[found] = first, time.monotonic()
        return Bounds(found, max(first, trimmed), max(end, trimmed), chunks[-1] if chunks else None)

    async def _start(self, wire: Wire, identity: int) -> int:
        try:
            return await stored(wire, self._settings.starts, _name(identity)) or 0
        except Refused as error:
            if error.code == NO_STREAM:
                return 0
            raise

    async def count(self, wire: Wire, topic: str) -> int:
        """How many partitions a log has whose first one is there."""
        from rstream import schema

        found = 1
        while True:
            names = [self._settings.name(topic, partition) for partition in range(found, found + _AT_ONCE)]
            said = await wire.ask(schema.MetadataResponse, schema.Metadata(wire.next(), names))
            codes = {each.name: each.response_code for each in said.metadata}
            for name in names:
                if codes.get(name) in (None, NO_STREAM):
                    return found
                found += 1

    # Making ----------------------------------------------------------------------------------------------------------

    async def there(self, wire: Wire, stream: str) -> bool:
        try:
            await self.identity(wire, stream)
        except Refused as error:
            if error.code == NO_STREAM:
                return False
            raise
        return True

    async def _begun(self, wire: Wire, stream: str) -> bool:
        """Whether it is there. A server that was just started lets clients in before it has begun its streams."""
        until = time.monotonic() + self._settings.connect / 2
        while True:
            try:
                return await self.there(wire, stream)
            except Refused as error:
                if error.code != NOT_AVAILABLE or time.monotonic() > until:
                    raise
            await asyncio.sleep(_PAUSE)

    async def settle(self, wire: Wire, topic: str, partitions: int) -> bool:
        """See to it that the log is there; whether it was made. The first partition is made last: a log that is there has
        them all, but while it grows."""
        if await self._begun(wire, self._settings.base(topic)):
            await self._ours(wire, self._settings.base(topic))
            return False
        for partition in reversed(range(partitions)):
            await self.make(wire, self._settings.name(topic, partition))
        return True

    async def make(self, wire: Wire, stream: str) -> None:
        retention = self._settings.retention
        settings = {
            "queue-leader-locator": "client-local",
            "initial-cluster-size": "1",
            "stream-max-segment-size-bytes": str(_SEGMENT),
            **({} if retention is None else {"max-age": f"{max(1, round(2 * retention))}s"}),
        }
        if await self._create(wire, stream, settings):
            await store(wire, stream, ID, secrets.randbits(60))
        await self._ours(wire, stream)

    async def _create(self, wire: Wire, stream: str, settings: dict[str, str]) -> bool:
        """Whether it was made here."""
        from rstream import schema

        named = [schema.Property(name, value) for name, value in settings.items()]
        try:
            await wire.ask(schema.CreateResponse, schema.Create(wire.next(), stream, named))
        except Refused as error:
            if error.code in (THERE, PRECONDITION):
                return False  # the latter: with other settings, or as a queue of another kind
            if error.code == NO_RIGHT:
                raise LedgerUnavailable(
                    f"{self._settings.where}: there is no stream {stream}, and the user may not make it: give it the right to "
                    "configure, write and read it, or have the stream made by a user that may"
                ) from None
            raise
        return True

    async def _ours(self, wire: Wire, stream: str) -> None:
        """Raise `ConfigError` unless it can carry a log."""
        until = time.monotonic() + self._settings.timeout / 2
        while True:
            try:
                found = await self.identity(wire, stream)
            except Refused as error:
                # It is there, says the server, and no stream.
                if error.code == NO_STREAM:
                    raise self._foreign(f"a queue {stream}") from None
                if error.code != NOT_AVAILABLE or time.monotonic() > until:
                    raise
                found = None
            if found is not None:
                break
            if time.monotonic() > until:
                await self._adopt(wire, stream)
                break
            await asyncio.sleep(_PAUSE)
        await self._alone(wire, stream)

    async def _adopt(self, wire: Wire, stream: str) -> None:
        """A stream without a number: its maker has ended between two steps, or it is somebody else's."""
        from rstream.constants import OffsetType

        if await peek(wire, stream, OffsetType.FIRST, None, 1):
            raise self._foreign(f"a stream {stream} with entries of somebody else")
        await store(wire, stream, ID, secrets.randbits(60))
        if await self.identity(wire, stream) is None:
            raise LedgerUnavailable(
                f"{self._settings.where}: the stream {stream} is empty and unmarked, and the user may not write to it"
            )

    async def _alone(self, wire: Wire, stream: str) -> None:
        from rstream import schema

        said = await wire.ask(schema.MetadataResponse, schema.Metadata(wire.next(), [stream]))
        for each in said.metadata:
            if each.replicas_refs:
                raise CapabilityError(
                    f"{self._settings.where}: the stream {stream} has replicas on other nodes: a reader at a replica is behind "
                    "what was acknowledged, so a log is kept by one node; delete the stream, and pares makes one without"
                )

    def _foreign(self, what: str) -> ConfigError:
        return ConfigError(
            f"{self._settings.where}: there is {what}, of no pares ledger; it was left as it is: name another stream in the URL"
        )

    async def trim(self, wire: Wire, stream: str, before: int) -> None:
        """Hide what is below `before`. The server says nothing to a number that is to be stored: it is asked for it again."""
        found = await self.identity(wire, stream)
        if found is None:
            raise Refused(NO_STREAM)
        if await self._start(wire, found) >= before:
            return
        starts = self._settings.starts
        if not await self.there(wire, starts):
            await self._create(
                wire,
                starts,
                {
                    "queue-leader-locator": "client-local",
                    "initial-cluster-size": "1",
                    "stream-max-segment-size-bytes": str(_STARTS_BYTES // 8),
                    "max-length-bytes": str(_STARTS_BYTES),
                },
            )
        await store(wire, starts, _name(found), before)
        if await self._start(wire, found) < before:
            raise Refused(NO_RIGHT)


def _name(identity: int) -> str:
    return f"{identity:016x}"


async def store(wire: Wire, stream: str, name: str, value: int) -> None:
    """Nothing says whether it was done."""
    from rstream.schema import StoreOffset

    wire.send(StoreOffset(name, stream, value + _ABOVE))


def asking(wire: Wire, stream: str, name: str) -> asyncio.Future[Any]:
    from rstream import schema

    return wire.begin_asking(schema.QueryOffsetResponse, schema.QueryOffset(wire.next(), name, stream))


async def answered(asked: asyncio.Future[Any]) -> int | None:
    try:
        return (await asked).offset - _ABOVE
    except Refused as error:
        if error.code == NO_OFFSET:
            return None
        raise


async def stored(wire: Wire, stream: str, name: str) -> int | None:
    return await answered(asking(wire, stream, name))


def subscribe(
    wire: Wire, stream: str, kind: Any, place: int | None, credit: int, taker: Callable[[Any], None]
) -> tuple[int, asyncio.Future[Any]]:
    """A subscription, and the answer that is still to come."""
    from rstream import schema

    number = wire.subscription(taker)
    spec = schema.OffsetSpec.from_params(kind, place)
    return number, wire.begin_asking(
        schema.SubscribeResponse, schema.Subscribe(wire.next(), number, stream, spec, credit, [])
    )


def unsubscribe(wire: Wire, number: int) -> asyncio.Future[Any]:
    from rstream import schema

    return wire.begin_asking(schema.UnsubscribeResponse, schema.Unsubscribe(wire.next(), number))


def peek(wire: Wire, stream: str, kind: Any, place: int | None, credit: int) -> asyncio.Future[list[Any]]:
    """The chunks that are there from a place on, at most `credit`. Sent before this returns. Raises `Refused`."""
    chunks: list[Any] = []
    number, begun = subscribe(wire, stream, kind, place, credit, chunks.append)
    ended = unsubscribe(wire, number)

    async def wait() -> list[Any]:
        try:
            await begun
            await ended
        finally:
            if ended.done() or wire.over.done():
                wire.end_subscription(number)
            else:
                ended.add_done_callback(lambda _: wire.end_subscription(number))
        return chunks

    return asyncio.ensure_future(wait())
