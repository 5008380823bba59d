"""A JetStream stream as a source: `open_source("nats://HOST:PORT", "ORDERS")`.

What it promises is `Source`'s, and how:

- offset n is the message with the sequence n + 1. Messages that were deleted one by one, or whose subject was overwritten, are
  holes; what retention took from the beginning is a `LedgerGap`;
- one stream is one partition. A topic of a NATS ledger that was made with several is several streams, and has them all;
- a record's key is the subject that it was published on: within a stream that is what tells one sort of message from another.
  What a ledger of pares has appended has no key. Headers are not shown;
- reading leaves no mark on the stream, acknowledges nothing, and works where many read. A stream that forgets what was consumed
  (retention `workqueue` or `interest`) is refused: it is shared out by the server, and not by who reads it;
- a stream that was deleted and made anew is noticed at the next fetch that has nothing left of the one before, and no record of
  the new one is returned before `identity` was asked.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from pares.core.errors import ConfigError, LedgerRewound, LedgerUnavailable
from pares.ledger.address import Address, Options
from pares.ledger.base import no_such_partition
from pares.ledger.handle_state import Lifetime, keep_after_fork
from pares.ledger.nats.epoch import Epoch
from pares.ledger.nats.link import Link
from pares.ledger.nats.pull import Pull
from pares.ledger.nats.settings import Settings, take
from pares.ledger.nats.stream import Stream, Streams, stream_of
from pares.ledger.source import Fetched, another, check_fetch

QUIET: Final = 1.0
"""Seconds for which an answer of the servers on what the stream is counts."""


class JetStreamSource:
    """See `Source`."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._topic = settings.stream_name(name)
        self._url = f"nats://{','.join(settings.servers)}/{self._topic}"
        self._lifetime = Lifetime(self._url)
        self._looking = threading.Lock()
        self._asked = -QUIET
        self._identity = self._told = ""
        self._partitions = 0
        self._pulls: dict[int, Pull] = {}
        self._link = Link(settings, self._lifetime)
        self._streams = Streams(settings)
        keep_after_fork(self)
        try:
            self._link.connect()
            self._inspect()
            self._look(0.0)
            self._told = self._identity
        except BaseException:
            self.close()
            raise

    def _inspect(self) -> None:
        """Raise unless there is such a stream, and it can be read so."""
        found = self._described(0, self._settings.connect)
        if found is None:
            raise ConfigError(f"{self._url}: there is no stream {self._topic}: correct the name, or make it")
        kept = found.config.get("retention", "limits")
        if kept != "limits":
            raise ConfigError(
                f"{self._url}: the stream {self._topic} forgets what was consumed (retention={kept}): the server shares it out"
                ". Make it with retention=limits, or another stream that has it as its source"
            )

    @property
    def name(self) -> str:
        return self._name

    @property
    def identity(self) -> str:
        self._lifetime.check()
        self._look(0.0 if self._told != self._identity else QUIET)
        if self._told != self._identity:
            self._told = self._identity
            for pull in [*self._pulls.values()]:
                self._link.call(_forgotten(pull))
        return self._told

    def partitions(self) -> int:
        self._lifetime.check()
        self._look(QUIET)
        return self._partitions

    def start(self, partition: int) -> int:
        return self._bounds(partition).first

    def end(self, partition: int) -> int:
        return self._bounds(partition).end

    def ends(self, partitions: Collection[int]) -> dict[int, int]:
        """A stream is asked for by itself, so all are at once."""
        self._lifetime.check()
        there = [partition for partition in partitions if partition >= 0]

        async def work(epoch: Epoch) -> list[Stream | None]:
            names = [stream_of(self._topic, partition) for partition in there]
            return await asyncio.gather(*(self._streams.describe(name, epoch) for name in names))

        answers = self._link.call(self._link.within(self._settings.timeout, work, "look at the streams"))
        found = {number: stream.end for number, stream in zip(there, answers, strict=True) if stream is not None}
        if there and not found:
            raise self._gone(there[0])
        return found

    def changed(self, places: Mapping[int, int]) -> Collection[int]:
        self._lifetime.check()
        if self._told != self._identity:
            return places
        pulls = self._pulls
        return [n for n, offset in places.items() if (pull := pulls.get(n)) is None or not pull.is_still(offset)]

    def fetch(self, partition: int, offset: int, *, max_records: int, max_bytes: int, timeout: float) -> Fetched:
        check_fetch(offset, max_records, max_bytes)
        self._lifetime.check()
        if self._told != self._identity:
            raise another(self._url)
        self._has(partition)
        pull = self._pulls.get(partition)
        if pull is None:
            stream = stream_of(self._topic, partition)
            pull = self._pulls.setdefault(partition, Pull(self._link, self._streams, stream, self._url, partition))
        try:
            return self._link.call(pull.take(offset, max_records, max_bytes, max(0.0, timeout)))
        except LedgerRewound:
            self._look(0.0)  # from now on this is known: it may be another stream
            raise

    def close(self) -> None:
        if self._lifetime.end():
            self._link.close()

    # What the stream is ----------------------------------------------------------------------------------------------

    def _look(self, age: float) -> None:
        """Know what the servers say of the stream, no longer ago than so many seconds."""
        began = time.monotonic()
        if began < self._asked + age:
            return
        with self._looking:
            if self._asked >= began or time.monotonic() < self._asked + age:
                return  # another thread has asked meanwhile
            asked = time.monotonic()
            found = self._described(0)
            if found is None:
                raise self._gone(0)
            self._partitions = self._link.call(self._link.within(self._settings.timeout, self._count, "count streams"))
            self._identity, self._asked = found.identity, asked

    async def _count(self, epoch: Epoch) -> int:
        return await self._streams.count(self._topic, epoch)

    def _described(self, partition: int, seconds: float | None = None) -> Stream | None:
        async def work(epoch: Epoch) -> Stream | None:
            return await self._streams.describe(stream_of(self._topic, partition), epoch)

        return self._link.call(self._link.within(seconds or self._settings.timeout, work, "look at the stream"))

    def _has(self, partition: int) -> None:
        """Raise unless there is such a partition."""
        if not 0 <= partition < self._partitions:
            self._look(0.0)
            if not 0 <= partition < self._partitions:
                raise no_such_partition(partition, self._partitions, self._url)

    def _bounds(self, partition: int) -> Stream:
        self._lifetime.check()
        self._has(partition)
        found = self._described(partition)
        if found is None:
            raise self._gone(partition)
        return found

    def _gone(self, partition: int) -> LedgerUnavailable:
        stream = stream_of(self._topic, partition)
        return LedgerUnavailable(f"{self._url}: the stream {stream} is gone: it was deleted, or is being made anew")


async def _forgotten(pull: Pull) -> None:
    pull.forget()


def open_jetstream(address: Address, options: Options, topic: str) -> JetStreamSource:
    """The source of a stream on the servers of a `nats://` URL, whose path may be missing."""
    return JetStreamSource(replace(take(address, options), readonly=True), topic)
