"""RabbitMQ streams as a ledger: `rabbitmq-stream://[USER@]HOST:PORT/STREAM`. Partition 0 is that stream.

What it promises is `Log`'s, and how:

- one total order: the stream's, by the node that keeps it. Offset n is the stream's place n + 1. A place that the server uses
  for itself, when it begins a segment, is a hole;
- all or nothing: an append of several payloads is one entry of the stream, as far as it fits into a frame of the server
  (`stream.frame_max`, 1 MiB in a stock one). What does not goes in several, in order, and may end after any of them;
- **acknowledged records stay** while the machine runs: a server that is killed loses nothing. RabbitMQ never syncs a stream to
  the disk, so a crash of the machine may lose the last of what it has acknowledged. That breaks A1; opening warns of it, and
  `pares doctor` says so. Each process that had seen what is gone notices when it connects again (R12) and begins anew. Offsets
  are given out twice then, so a fence may see a token again;
- **an append whose outcome is unknown** (`LedgerUnavailable` with `unknown=True`) may still land until the next append of the
  same ledger to that partition is acknowledged, never after; see `rabbitmq.feed`;
- a reader is told of everything, and woken by urgent entries only. An empty answer of `read` is at most `FRESH` seconds old,
  and never misses what this ledger has appended, or what an `end` of it has told of;
- a log that is gone (a server that restarts empty, a stream that was deleted) is made anew when a member looks which log it is,
  and is another one.

A log is kept by one node: replicas of RabbitMQ lag behind what was acknowledged, and are refused. Each ledger has one
connection.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from functools import partial
from typing import Final
from urllib.parse import quote

from pares.core.errors import ConfigError, LedgerUnavailable
from pares.ledger import base
from pares.ledger.address import Address, Options
from pares.ledger.base import MAX_READ_BYTES, Entry
from pares.ledger.handle_state import Lifetime, keep_after_fork
from pares.ledger.rabbitmq.checks import checks, kept
from pares.ledger.rabbitmq.errors import NO_STREAM, Lost, Refused
from pares.ledger.rabbitmq.feed import Feed, Vanished
from pares.ledger.rabbitmq.frames import records
from pares.ledger.rabbitmq.link import Link
from pares.ledger.rabbitmq.settings import Settings, check_most, log, take
from pares.ledger.rabbitmq.streams import Bounds, Streams, peek
from pares.ledger.rabbitmq.wire import Wire
from pares.ledger.service_log import Gone, Known, TailedLog
from pares.ledger.window import Window, Windows

FRESH: Final = 0.5
"""Seconds for which the server's last word on the end of a partition is taken for its end."""
_LARGE: Final = 4.0
"""Seconds that reading the most that a read may return may take, beyond any other request."""
_CHUNKS: Final = 500
"""Chunks that are asked for at once, at the most; the first one is asked for alone."""
_AT_ONCE: Final = 8 << 20
"""Bytes that are asked for at once, by what chunks had so far."""


class _Shared:
    """What a ledger and its topics have in common: the connection, and what is done over it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lifetime = Lifetime(settings.url)
        self.link = Link(settings, self.lifetime)
        self.link.begun = self._begun
        self.streams = Streams(settings)
        self.known = Known()
        self._writer = secrets.randbits(63) + 1
        self._windows = Windows(FRESH)
        self._feeds: dict[tuple[str, int], Feed] = {}
        keep_after_fork(self)

    def _begun(self, wire: Wire) -> None:
        wire.gone = self._vanished

    def _vanished(self, stream: str) -> None:
        for (topic, _), feed in [*self._feeds.items()]:
            if feed.stream == stream:
                feed.vanished()
                self.known.doubt(topic)

    def feed(self, topic: str, partition: int) -> Feed:
        """In the loop."""
        found = self._feeds.get((topic, partition))
        if found is None:
            window = self.window(topic, partition)
            found = Feed(
                self.link, self.settings.name(topic, partition), self._writer, window, lambda: self.known.doubt(topic)
            )
            self._feeds[topic, partition] = found
        return found

    def look(self, topic: str) -> tuple[str, int]:
        asked = time.monotonic()
        identity, partitions = self.link.do(partial(self._look, topic), "look at the log")
        self.known.put(topic, identity, partitions, asked)
        return identity, partitions

    async def _look(self, topic: str, wire: Wire) -> tuple[str, int]:
        try:
            found = await self.streams.identity(wire, self.settings.base(topic))
        except Refused as error:
            if error.code == NO_STREAM:
                raise self.gone(topic) from None
            raise
        if found is None:
            raise self.gone(topic)
        partitions = await self.streams.count(wire, topic)
        lost = sum(feed.lost for (name, _), feed in self._feeds.items() if name == topic)
        return f"rabbitmq:{found:x}" + (f":lost-{lost}" if lost else ""), partitions

    def gone(self, topic: str) -> LedgerUnavailable:
        self.known.forget(topic)
        return Gone(
            f"{self.settings.where}: the stream {self.settings.base(topic)} is gone: the server was started again without its "
            "data, or somebody has deleted it; a member that looks for it makes it anew"
        )

    def replaced(self, topic: str) -> None:
        self.known.doubt(topic)

    def refresh(self, topic: str) -> None:
        """Nothing is kept of a stream that could be old but is not noticed."""

    def ends(self, topic: str, partition: int, least: int = 0) -> tuple[int, int]:
        found = self.link.do(
            partial(self._ends, topic, partition), "ask for the log's bounds", self.settings.timeout + _LARGE
        )
        return found.start, found.end

    async def _ends(self, topic: str, partition: int, wire: Wire) -> Bounds:
        feed = self.feed(topic, partition)
        last = feed.last  # now: more may come while the server answers
        try:
            found = await self.streams.bounds(wire, feed.stream)
        except Refused as error:
            if error.code == NO_STREAM:
                feed.forget()
                raise self.gone(topic) from None
            raise
        if feed.identity not in (None, found.identity):
            feed.forget()
        elif feed.last is not None:
            feed.compare(last, found.last)
        return found

    def fetch(self, topic: str, partition: int, offset: int, end: int, max_records: int) -> list[Entry]:
        stream = self.settings.name(topic, partition)
        work = partial(self._fetch, stream, offset, end, max_records)
        return self.link.do(work, f"read at offset {offset}", self.settings.timeout + _LARGE)

    async def _fetch(self, stream: str, offset: int, end: int, max_records: int, wire: Wire) -> list[Entry]:
        from rstream.constants import OffsetType

        found: list[Entry] = []
        size, credit, at = 0, 1, offset
        while at < end and len(found) < max_records and size < MAX_READ_BYTES:
            chunks = await peek(wire, stream, OffsetType.OFFSET, at + 1, credit)
            if not chunks:
                break
            for chunk in chunks:
                for record in records(chunk, at + 1, max_records - len(found)):
                    found.append(Entry(record.place - 1, chunk.timestamp, record.payload))
                    size += len(record.payload)
                if len(found) >= max_records:
                    break
                at = max(at, chunk.chunk_first_offset + chunk.num_records - 1)
            each = sum(chunk.data_length for chunk in chunks) // len(chunks) + 1
            credit = max(1, min(_CHUNKS, max_records - len(found), _AT_ONCE // each))
        return base.limited(found, max_records)

    def append(self, topic: str, payloads: Sequence[bytes], partition: int, urgent: bool) -> list[int]:
        return self.link.call(self._append(topic, payloads, partition, urgent))

    async def _append(self, topic: str, payloads: Sequence[bytes], partition: int, urgent: bool) -> list[int]:
        feed = self.feed(topic, partition)
        feed.window.used = time.monotonic()
        try:
            return await feed.append(payloads, urgent, lambda wire: self._end(topic, partition, wire))
        finally:
            self._keep(feed)

    async def _end(self, topic: str, partition: int, wire: Wire) -> int:
        return (await self._ends(topic, partition, wire)).end

    def catch_up(self, window: Window) -> bool:
        """No window is lazy here: everything is pushed."""
        return False

    def stuck(self, window: Window) -> None:
        """The server has what it has not sent: it is asked to on a new connection."""

        async def work() -> None:
            if (wire := self.link.now) is not None:
                wire.end("the server does not send what it has")

        self.link.post(work())

    def trim(self, topic: str, partition: int, before: int) -> None:
        self.link.do(partial(self._trim, topic, partition, before), "trim")

    async def _trim(self, topic: str, partition: int, before: int, wire: Wire) -> None:
        await self.streams.trim(wire, self.settings.name(topic, partition), before)

    def window(self, topic: str, partition: int) -> Window:
        return self._windows.get(topic, partition)

    def follow(self, window: Window, offset: int) -> None:
        if not window.open:
            self.link.call(self._follow(window, offset))

    async def _follow(self, window: Window, offset: int) -> None:
        feed = self.feed(window.topic, window.partition)
        window.used = time.monotonic()
        wire = self.link.now
        if wire is None or feed.followed:
            return  # out of reach: the next read that reaches the log has it followed
        try:
            async with asyncio.timeout(self.settings.timeout):
                await feed.follow(wire, offset)
        except (Vanished, Refused, Lost, TimeoutError) as error:
            log.debug("%s: the tail of %s: %r", self.settings.where, feed.stream, error)
        self._keep(feed)

    def _keep(self, feed: Feed) -> None:
        if not feed.followed and feed.window.open:
            feed.followed = True
            self.link.start(feed.keep())

    def follows(self, topic: str) -> bool:
        """Whether the tail would hear of it if the log were another one."""
        return any(window.open for window in self._windows.of(topic))

    # Making ----------------------------------------------------------------------------------------------------------

    def remake(self, topic: str, partitions: int) -> bool:
        return self.settle(topic, partitions)

    def settle(self, topic: str, partitions: int) -> bool:
        """See to it that the log is there; whether it was made."""
        return self.link.do(
            lambda wire: self.streams.settle(wire, topic, partitions),
            f"make the stream {self.settings.base(topic)}",
            max(self.settings.connect, self.settings.timeout),
        )

    def grow(self, topic: str, there: int, partitions: int) -> None:
        async def work(wire: Wire) -> None:
            for partition in range(there, partitions):
                await self.streams.make(wire, self.settings.name(topic, partition))

        self.link.do(
            work, f"add partitions to {self.settings.base(topic)}", max(self.settings.connect, self.settings.timeout)
        )

    def there(self, topic: str) -> bool:
        return self.link.do(lambda wire: self.streams.there(wire, self.settings.base(topic)), "look for the log")

    def found(self, topic: str) -> None:
        """Raise `ConfigError` unless the log is there."""
        if not self.there(topic):
            what = f"topic {topic!r}" if topic else f"stream {self.settings.stream}"
            raise ConfigError(
                f"{self.settings.url}: there is no {what}, and readonly makes nothing: start a member first"
            )
        self.look(topic)

    def close(self) -> None:
        if self.lifetime.end():
            self._windows.shut()
            self.link.close()


class RabbitLog(TailedLog):
    """The streams of one topic as a log."""

    kind = "rabbitmq-stream"
    teller = log

    def __init__(self, shared: _Shared, topic: str, url: str) -> None:
        super().__init__(shared, topic, url)
        self._shared = shared

    def broker_time(self) -> bool:
        """Entries carry the time of the server, of when it put them into the stream. Clients can't set it."""
        return True


class RabbitLedger(RabbitLog):
    """A RabbitMQ of 3.10 or newer with the plugin `rabbitmq_stream`, and in it the stream that the URL names; made when it is
    missing.

    Options: `vhost` (`/`), `partitions` (grows an existing log; at most 200), `retention` (seconds, or "none"), `timeout`
    (seconds that a request may take before it is given up; 1), `readonly` (to look on only: it makes nothing, and needs no
    right to write), `config` (a properties file with client settings) and `options` (the same as a dictionary): `username`,
    `password`, `ssl` with `ssl_ca_certs`, `ssl_certfile`, `ssl_keyfile`, `ssl_password`, `ssl_check_hostname`.

    Opening warns (logger `pares.rabbitmq`) of what may be lost. Raises `CapabilityError` for a stream with replicas, and for a
    server that is too old.
    """

    def __init__(self, address: Address, options: Options) -> None:
        settings = take(address, options)
        shared = _Shared(settings)
        super().__init__(shared, "", settings.url)
        try:
            shared.link.connect()
            if settings.readonly:
                shared.found("")
                return
            shared.settle("", settings.partitions or 1)
            there = shared.look("")[1]
            if (wanted := base.grown_partitions(self.url, there, settings.partitions)) > there:
                shared.grow("", there, wanted)
                shared.look("")
            log.warning("%s: %s", settings.where, kept()[1])
        except BaseException:
            self.close()
            raise

    def has_topic(self, name: str) -> bool:
        """Whether such a topic is there: asking makes none."""
        self._open()
        base.check_name(name, "a topic's name")
        return self._shared.there(name)

    def topic(self, name: str, partitions: int = 4) -> RabbitLog:
        self._open()
        base.check_name(name, "a topic's name")
        base.check_partitions(partitions, f"topic {name!r}")
        check_most(partitions, f"topic {name!r}")
        if self._shared.settings.readonly:
            self._shared.found(name)
        else:
            self._shared.settle(name, partitions)
            self._shared.look(name)
        return RabbitLog(self._shared, name, f"{self.url}#{quote(name, safe='')}")

    def checks(self) -> list[tuple[str, str]]:
        """What `pares doctor` is to say of the server: (good, note or warning, and the text)."""
        self._open()
        first, end = self._ends(0)

        async def work(wire: Wire) -> tuple[str, int]:
            return wire.version, wire.largest

        version, largest = self._shared.link.do(work, "look over the server")
        return [*checks(version, self._shared.settings.stream, end - first, largest)]

    def close(self) -> None:
        super().close()
        self._shared.close()
