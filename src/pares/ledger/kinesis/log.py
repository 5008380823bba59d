"""Kinesis data streams as a ledger: `kinesis://REGION/STREAM`. Partition 0 is that stream, which has one shard.

It was shown to work on moto, an emulator; opening says so. What it promises is `Log`'s, and how:

- one total order: the shard's. Offsets are counted (see `kinesis.fold`), as the service's own numbers have 186 bits;
- all or nothing: an append of several payloads is one record, or several of which the last one counts (`counted.records`);
- **acknowledged records stay** for as long as the stream keeps them, a day unless it is set up otherwise; then the service
  drops them, whatever `retention` says;
- **an append whose outcome is unknown** (`LedgerUnavailable` with `unknown=True`) may still land at any later time. It is never
  sent again from here: the client's own retries are off;
- a reader at the end of the log is as late as the pace at which a shard may be read (`poll`), and no bell rings sooner. An
  empty answer of `read` is at most `3 * poll` old. AWS may show a record to one reader a moment before another;
- a log that is gone (an emulator that restarts, a stream that was deleted) is made anew when a member looks which log it is,
  and is another one.

Enhanced fan-out (SubscribeToShard) would push records to up to twenty registered consumers, each for itself. It is not used: a
member would be a registration in the account that somebody has to delete after each crash, five subscriptions a second and
minutes of their own life are its limits, and no emulator shows whether it works.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple
from urllib.parse import quote

from pares.core.errors import ConfigError
from pares.ledger import base
from pares.ledger.address import Address, Options
from pares.ledger.base import Entry
from pares.ledger.handle_state import Lifetime, keep_after_fork
from pares.ledger.kinesis.checks import SHOWN, checks
from pares.ledger.kinesis.client import Client
from pares.ledger.kinesis.errors import Broken, Refused, unavailable
from pares.ledger.kinesis.reads import Reads
from pares.ledger.kinesis.settings import Settings, check_most, log, take
from pares.ledger.kinesis.streams import FRESH, Stream, Streams, raised
from pares.ledger.kinesis.tail import Tail
from pares.ledger.kinesis.writer import Writer
from pares.ledger.service_log import Known, TailedLog
from pares.ledger.window import Window, Windows

GRACE: Final = 0.5
"""Seconds for which `close` leaves an append that is under way to be read back, beyond the pace of reading."""


class _Part(NamedTuple):
    """One partition."""

    tail: Tail
    writer: Writer
    reads: Reads


class _Shared:
    """What a ledger and its topics have in common: the client, and what is done by it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lifetime = Lifetime(settings.url)
        self.client = Client(settings, self.lifetime)
        self.streams = Streams(settings, self.client)
        self.known = Known()
        self._windows = Windows(3 * (settings.poll or 0.0))
        self._parts: dict[tuple[str, int], _Part] = {}
        self._counts: dict[str, tuple[int, float]] = {}
        keep_after_fork(self)

    def part(self, topic: str, partition: int) -> _Part:
        """Made when it is first asked for."""
        found = self._parts.get((topic, partition))
        if found is None:
            settings, name = self.settings, self.settings.name(topic, partition)
            writer = Writer(settings, self.client)
            tail = Tail(settings, self.client, self.streams, name, self.window(topic, partition), writer.took)
            writer.tail = tail
            found = self._parts.setdefault((topic, partition), _Part(tail, writer, Reads(settings, self.client, tail)))
        return found

    @contextmanager
    def asking(self, doing: str, name: str) -> Generator[None]:
        try:
            yield
        except (Refused, Broken) as error:
            self.lifetime.check()
            raise raised(self.settings.where, doing, name, error) from None

    def look(self, topic: str) -> tuple[str, int]:
        name, asked = self.settings.base(topic), time.monotonic()
        with self.asking("look at the log", name):
            try:
                stream = self.streams.look(name)
            except Refused:
                self.replaced(topic)
                self.known.forget(topic)
                self._counts.pop(topic, None)
                raise
            if not stream.active:
                raise unavailable(self.settings.where, "look at the log", f"the stream {name} is still being made")
            partitions = self._count(topic)
        for (other, _), part in [*self._parts.items()]:
            seen = part.tail.seen
            if other == topic and part.tail.name == name and seen is not None and seen.stream.id != stream.id:
                self.replaced(topic)
        identity = f"kinesis:{stream.id}"
        self.known.put(topic, identity, partitions, asked)
        return identity, partitions

    def _count(self, topic: str) -> int:
        found, asked = self._counts.get(topic, (1, 0.0))
        if self.settings.poll is None or time.monotonic() > asked + 10 * FRESH:
            found = self.streams.count(topic, found)
            self._counts[topic] = found, time.monotonic()
        return found

    def replaced(self, topic: str) -> None:
        for (other, _), part in [*self._parts.items()]:
            if other == topic:
                self.streams.forget(part.tail.name)
                part.tail.forget()

    def refresh(self, topic: str) -> None:
        """Nothing is kept of a stream that could be old but is not noticed."""

    def ends(self, topic: str, partition: int, least: int = 0) -> tuple[int, int]:
        self.look(topic)
        part = self.part(topic, partition)
        with self.asking("ask for the log's bounds", part.tail.name):
            seen = part.writer.settled()
            if (seen.next or 0) < least and self.settings.poll is not None:
                seen = part.writer.settled()  # AWS may not show at once to everybody what it has acknowledged
            first, end = part.reads.start(seen), seen.next or 0
        part.tail.window.trimmed(min(first, end))  # it has what the stream has forgotten meanwhile
        return first, end

    def fetch(self, topic: str, partition: int, offset: int, end: int, max_records: int) -> list[Entry]:
        part = self.part(topic, partition)
        with self.asking(f"read at offset {offset}", part.tail.name):
            return part.reads.fetch(offset, end, max_records, part.tail.seen or part.writer.settled())

    def append(self, topic: str, payloads: Sequence[bytes], partition: int, urgent: bool) -> list[int]:
        part = self.part(topic, partition)
        part.tail.window.used = time.monotonic()
        with self.asking("append", part.tail.name):
            return part.writer.append(payloads, urgent)

    def catch_up(self, window: Window) -> bool:
        """No window is lazy here: everything is read."""
        return False

    def stuck(self, window: Window) -> None:
        self.part(window.topic, window.partition).tail.forget()

    def trim(self, topic: str, partition: int, before: int) -> None:
        part = self.part(topic, partition)
        with self.asking("trim", part.tail.name):
            part.writer.trim(before)

    def window(self, topic: str, partition: int) -> Window:
        return self._windows.get(topic, partition)

    def follow(self, window: Window, offset: int) -> None:
        self.part(window.topic, window.partition).tail.follow()

    def follows(self, topic: str) -> bool:
        """The tail hears of nothing: who stands under a name has to be asked, which is done every few seconds at most."""
        return False

    # Making ----------------------------------------------------------------------------------------------------------

    def remake(self, topic: str, partitions: int) -> bool:
        """AWS takes some seconds for that, in which the log is out of reach."""
        return self.settle(topic, partitions, wait=False)

    def settle(self, topic: str, partitions: int, there: int = 0, *, wait: bool = True) -> bool:
        """See to it that the log has its streams, from number `there` on; whether any was made. The first one is made last: a
        log that is there has them all, but while it grows. `wait`: until they can be used."""
        any_made = False
        if not there and self.there(topic):
            partitions = 1
        for partition in reversed(range(there, partitions)):
            name = self.settings.name(topic, partition)
            with self.asking(f"make the stream {name}", name):
                made = not self.streams.there(name) and self.streams.make(name)
                any_made = any_made or made
                if wait:
                    self.streams.settled(name, made)
        self._counts.pop(topic, None)
        return any_made

    def there(self, topic: str) -> bool:
        name = self.settings.base(topic)
        with self.asking("look for the log", name):
            return self.streams.there(name)

    def found(self, topic: str) -> None:
        """Raise `ConfigError` unless the log is there."""
        if not self.there(topic):
            what = f"topic {topic!r}" if topic else f"stream {self.settings.stream}"
            raise ConfigError(
                f"{self.settings.url}: there is no {what}, and readonly makes nothing: start a member first"
            )
        self.look(topic)

    def stream(self) -> Stream:
        with self.asking("look over the stream", self.settings.stream):
            return self.streams.look(self.settings.stream, fresh=True)

    def close(self) -> None:
        parts = [*self._parts.values()]
        if not self.lifetime.closed and not self.lifetime.forked:
            for part in parts:
                part.writer.finish(GRACE + (self.settings.poll or 0.0))
        if self.lifetime.end():
            for part in parts:
                part.tail.ending.set()
            for part in parts:
                part.tail.end()
            self._windows.shut()
            self.client.close()


class KinesisLog(TailedLog):
    """The streams of one topic as a log."""

    kind = "kinesis"
    teller = log

    def __init__(self, shared: _Shared, topic: str, url: str) -> None:
        super().__init__(shared, topic, url)
        self._shared = shared


class KinesisLedger(KinesisLog):
    """A data stream of Kinesis with one shard, named by the URL; made when it is missing.

    Options: `endpoint` (`http://HOST:PORT`: an emulator), `partitions` (grows an existing log; each is a stream), `retention`
    (seconds, or "none"; no more than the stream keeps), `poll` (seconds between two reads of a stream, 1; raise it where more
    than five processes read one; "none" for an emulator without limits), `timeout` (seconds that a request may take, and an
    append until it is read back; 5), `readonly` (to look on only: it makes nothing, and needs no right to write), `config` (a
    properties file with client settings) and `options` (the same as a dictionary): `aws_access_key_id`,
    `aws_secret_access_key`, `aws_session_token`, `profile_name`, `ca_bundle`.

    Opening warns (logger `pares.kinesis`) that this was shown on an emulator. Raises `CapabilityError` for a stream with
    several shards, on demand, or resharded.
    """

    def __init__(self, address: Address, options: Options) -> None:
        settings = take(address, options)
        shared = _Shared(settings)
        super().__init__(shared, "", settings.url)
        try:
            if settings.readonly:
                shared.found("")
                return
            shared.settle("", settings.partitions or 1)
            there = shared.look("")[1]
            if (wanted := base.grown_partitions(self.url, there, settings.partitions)) > there:
                shared.settle("", wanted, there)
                shared.look("")
            log.warning("%s: %s", settings.where, SHOWN)
        except BaseException:
            self.close()
            raise

    def has_topic(self, name: str) -> bool:
        """Whether such a topic is there: asking makes none."""
        self._open()
        base.check_name(name, "a topic's name")
        return self._shared.there(name)

    def topic(self, name: str, partitions: int = 4) -> KinesisLog:
        self._open()
        base.check_name(name, "a topic's name")
        base.check_partitions(partitions, f"topic {name!r}")
        check_most(partitions, f"topic {name!r}")
        if self._shared.settings.readonly:
            self._shared.found(name)
        else:
            self._shared.settle(name, partitions)
            self._shared.look(name)
        return KinesisLog(self._shared, name, f"{self.url}#{quote(name, safe='')}")

    def checks(self) -> list[tuple[str, str]]:
        """What `pares doctor` is to say of the stream: (good, note or warning, and the text)."""
        self._open()
        first, end = self._ends(0)
        shared = self._shared
        tail = shared.part("", 0).tail
        return [*checks(shared.settings, shared.stream(), end - first, tail.foreign, tail.pace.throttled)]

    def close(self) -> None:
        super().close()
        self._shared.close()
