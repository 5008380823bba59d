"""NATS JetStream as a ledger: `nats://HOST:PORT[,HOST:PORT...]/STREAM`. Partition 0 is that stream.

What it promises is `Log`'s, and how:

- one total order: the stream's leader gives out the sequences; offset n is sequence n + 1. Messages that somebody deletes one
  by one leave holes;
- acknowledged records stay: three replicas where there are three servers, on disk. Whether the servers sync each write to the
  disk is for them to say: `pares doctor` asks (a server's own default, every two minutes, loses acknowledged records with the
  power);
- all or nothing: an append of up to 1000 payloads is an atomic batch (servers from 2.12 on); more go in several, in order, and
  may end after any of them;
- **an append whose outcome is unknown** (`LedgerUnavailable` with `unknown=True`) may still land: until an append of the same
  ledger to the same partition is acknowledged, never after; see `nats.append`. There is at most one such append a partition
  and ledger;
- a reader is told of urgent appends: the server pushes them (see `nats.tail`). An empty answer of `read` is at most 0.6 s old,
  and only if the server is slow to push: it never misses what this ledger has appended, or what an `end` of it has told of.
  Where many appends are not urgent nothing is pushed but a bell for those that are, and `read` asks the server;
- a stream that was deleted and made anew has another identity, and is noticed within two seconds by its followers; where
  nothing is pushed, by their next append, or within some seconds. One that is gone is made anew when a member looks which log
  it is; an append never makes one.

It is also a `Bus`, of core NATS (see `nats.bus`): what is published there is not kept. Without a stream the URL means that
alone: `pares.ledger.open_bus`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar
from urllib.parse import quote

from pares.core.errors import ConfigError
from pares.ledger.address import Address, Options
from pares.ledger.base import Entry, Log, check_partitions, grown_partitions
from pares.ledger.handle_state import Lifetime, keep_after_fork
from pares.ledger.nats.append import Appender
from pares.ledger.nats.bus import CoreNats, NatsBus
from pares.ledger.nats.checks import checks
from pares.ledger.nats.epoch import Epoch
from pares.ledger.nats.link import Link
from pares.ledger.nats.read import fetch, news
from pares.ledger.nats.settings import Settings, log, take
from pares.ledger.nats.stream import Stream, Streams, stream_of, topic_of
from pares.ledger.nats.tail import Tails
from pares.ledger.service_log import Known, TailedLog
from pares.ledger.source import Source
from pares.ledger.window import Window

T = TypeVar("T")

_PAUSE: Final = 0.02
_LOOK: Final = 5.0
_LARGE: Final = 4.0
"""Seconds that reading the most that a read may return may take, beyond any other request."""


class _Shared:
    """What a ledger and its topics have in common: one connection, and what is done over it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lifetime = Lifetime(settings.url)
        self.link = Link(settings, self.lifetime)
        self.streams = Streams(settings)
        self.appender = Appender(self.link, self.streams, lambda stream: self.replaced(topic_of(stream)))
        self.tails = Tails(self.link, self.streams, self.replaced)
        self.bus = NatsBus(self.link, settings.stream)
        self.known = Known()
        keep_after_fork(self)

    def look(self, topic: str) -> tuple[str, int]:
        asked = time.monotonic()
        found, partitions = self._do(partial(self._look, topic), "look at the log")
        self.known.put(topic, found.identity, partitions, asked)
        return found.identity, partitions

    async def _look(self, topic: str, epoch: Epoch) -> tuple[Stream, int]:
        found = await self._stream(topic, 0, epoch)
        return found, await self.streams.count(topic, epoch)

    def replaced(self, topic: str) -> None:
        self.known.doubt(topic)

    def refresh(self, topic: str) -> None:
        """Nothing is kept of a stream that could be old but is not noticed."""

    def ends(self, topic: str, partition: int, least: int = 0) -> tuple[int, int]:
        asked = time.monotonic()
        found = self._do(partial(self._ends, topic, partition, least), "ask for the log's bounds")
        known = self.known.get(topic)
        if partition == 0 and known is not None:
            self.known.put(topic, found.identity, known[1], asked)
        return found.first, found.end

    async def _ends(self, topic: str, partition: int, least: int, epoch: Epoch) -> Stream:
        """The stream as its leader has it. Of several replicas, one that has just become it may have to learn first."""
        until = time.monotonic() + self.settings.timeout / 2
        while True:
            found = await self._stream(topic, partition, epoch)
            several = int(found.config.get("num_replicas", 1)) > 1
            if found.end >= least or not several or time.monotonic() > until:
                return found
            await asyncio.sleep(_PAUSE)

    async def _stream(self, topic: str, partition: int, epoch: Epoch) -> Stream:
        found = await self.streams.describe(stream_of(topic, partition), epoch)
        if found is None:
            if partition == 0:
                self.known.forget(topic)
            raise self.streams.gone(stream_of(topic, partition))
        return found

    def fetch(self, topic: str, partition: int, offset: int, end: int, max_records: int) -> list[Entry]:
        stream = stream_of(topic, partition)

        async def work(epoch: Epoch) -> list[Entry]:
            return await fetch(epoch, stream, offset, end, max_records)

        return self._do(work, f"read at offset {offset}", self.settings.timeout + _LARGE)

    def append(self, topic: str, payloads: Sequence[bytes], partition: int, urgent: bool) -> list[int]:
        bell = self.window(topic, partition).readers_may_be_lazy
        return self.appender.append(stream_of(topic, partition), payloads, urgent=urgent, bell=bell)

    def catch_up(self, window: Window) -> bool:
        life, stream = window.life, stream_of(window.topic, window.partition)

        async def work(epoch: Epoch) -> tuple[list[Entry], set[int]]:
            return await news(epoch, stream, window.high, window.known)

        entries, quiet = self._do(work, f"read at offset {window.high}", self.settings.timeout + _LARGE)
        if entries:  # only the leader knows that there is nothing
            window.put(entries, 0, quiet, life=life)
        return bool(entries)

    def stuck(self, window: Window) -> None:
        """Its task makes the consumer anew when it hears nothing."""

    def trim(self, topic: str, partition: int, before: int) -> None:
        self._do(partial(self.streams.trim, stream_of(topic, partition), before), "trim")

    def window(self, topic: str, partition: int) -> Window:
        return self.tails.window(topic, partition)

    def follow(self, window: Window, offset: int) -> None:
        self.tails.follow(window, offset)

    def follows(self, topic: str) -> bool:
        """A lazy tail hears of nothing but bells: then the stream is looked at now and then."""
        known = self.known.get(topic)
        late = known is None or time.monotonic() > known[2] + _LOOK
        return self.tails.follows(topic) and not (late and self.tails.lazy(topic))

    def settle(self, topic: str, partitions: int) -> None:
        """See to it that the log is there."""
        self._do(partial(self.streams.settle, topic, partitions), f"make the stream {topic}", self.settings.connect)

    def remake(self, topic: str, partitions: int) -> bool:
        missing = self._do(partial(self.streams.describe, topic), "look for the log") is None
        self.settle(topic, partitions)
        return missing

    def found(self, topic: str) -> None:
        """Raise `ConfigError` unless the log is there."""
        if self._do(partial(self.streams.describe, topic), "look for the log", self.settings.connect) is None:
            raise ConfigError(
                f"{self.settings.url}: there is no stream {topic}, and readonly makes nothing: start a member first"
            )
        self.look(topic)

    def grow(self, topic: str, there: int, partitions: int) -> None:
        async def work(epoch: Epoch) -> None:
            for partition in range(there, partitions):
                await self.streams.make(topic, partition, epoch)

        self._do(work, f"add partitions to {topic}", self.settings.connect)

    def checks(self) -> list[tuple[str, str]]:
        async def work(epoch: Epoch) -> tuple[Stream | None, int]:
            return await self.streams.describe(self.settings.stream, epoch), epoch.max_payload

        settings = self.settings
        found, largest = self._do(work, "look over the stream", settings.connect)
        return [*checks(found, settings.stream, settings.retention, largest, settings.monitors, settings.connect)]

    def _do(self, work: Callable[[Epoch], Awaitable[T]], doing: str, seconds: float | None = None) -> T:
        return self.link.call(self.link.within(seconds or self.settings.timeout, work, doing))

    def close(self) -> None:
        if self.lifetime.end():
            self.tails.close()
            self.bus.close()
            self.link.close()


class NatsLog(TailedLog):
    """The streams of one topic as a log."""

    kind = "nats"
    teller = log
    notes = True

    def __init__(self, shared: _Shared, topic: str, url: str) -> None:
        super().__init__(shared, topic, url)
        self._shared = shared

    def broker_time(self) -> bool:
        """Entries carry the time of the server that took them: that of the stream's leader. Clients can't set it."""
        return True


class NatsLedger(NatsLog):
    """A NATS server or cluster with JetStream, and in it the stream that the URL names; made when it is missing.

    Options: `partitions` (grows an existing log), `replication` (of new streams), `retention` (seconds, or "none"), `timeout`
    (seconds that a request may take before it is given up; 1), `prefix` (before the names of the streams that `topic` is asked
    for), `readonly` (to look on only: it makes nothing, and needs no right to write), `monitor` (HOST:PORT of each server's
    monitoring, for `pares doctor`), `config` (a properties file with client settings) and `options` (the same as a dictionary):
    `user` and `password`, `token`, `creds` or `nkey` (files), `tls_ca`, `tls_cert`, `tls_key` (PEM files), `tls_hostname`,
    `tls_first`.

    Opening waits longer for a server's first answer, 5 seconds, unless `timeout` is given: then so long.

    `topic(name)` is the stream of that name, where NATS allows the name. It is also a `Bus`.
    """

    def __init__(self, settings: Settings) -> None:
        shared = _Shared(settings)
        super().__init__(shared, settings.stream, settings.url)
        try:
            shared.link.connect()
            if settings.readonly:
                shared.found(settings.stream)
                return
            shared.settle(settings.stream, settings.partitions or 1)
            there = shared.look(settings.stream)[1]
            if (wanted := grown_partitions(self.url, there, settings.partitions)) > there:
                shared.grow(settings.stream, there, wanted)
                shared.look(settings.stream)
        except BaseException:
            self.close()
            raise

    def topic(self, name: str, partitions: int = 4) -> Log:
        self._open()
        full = self._shared.settings.stream_name(name)
        check_partitions(partitions, f"topic {name!r}")
        if self._shared.settings.readonly:
            self._shared.found(full)
        else:
            self._shared.settle(full, partitions)
            self._shared.look(full)
        return NatsLog(self._shared, full, f"{self.url}#{quote(name, safe='')}")

    def source(self, topic: str) -> Source:
        """The source of a stream, named as `topic` names it; see `nats.source`. It has a connection of its own."""
        from pares.ledger.nats.source import JetStreamSource

        self._open()
        return JetStreamSource(self._shared.settings, topic)

    def publish(self, subject: str, payload: bytes) -> None:
        self._open()
        self._shared.bus.publish(subject, payload)

    def listen(self, subject: str, on_message: Callable[[bytes], None]) -> Callable[[], None]:
        self._open()
        return self._shared.bus.listen(subject, on_message)

    @property
    def epoch(self) -> int:
        """The number of the connection that there is; see `NatsBus.epoch`."""
        return self._shared.bus.epoch

    def checks(self) -> list[tuple[str, str]]:
        """What `pares doctor` is to say of the stream and the servers: (good, note, warning or problem, and the text)."""
        self._open()
        return self._shared.checks()

    def close(self) -> None:
        super().close()
        self._shared.close()


def open_nats(address: Address, options: Options) -> NatsLedger | CoreNats:
    """The ledger of a `nats://` URL: with a stream a log and a bus, without one a bus."""
    settings = take(address, options)
    return NatsLedger(settings) if settings.stream else CoreNats(settings)
