"""Pulsar as a ledger: `pulsar://HOST:PORT/TENANT/NAMESPACE/TOPIC`. Partition 0 is that topic, which has none of Pulsar's own.

What it promises is `Log`'s, and how:

- one total order: the topic's, by the broker that owns it. Offsets are counted (see `pulsar.fold`), as Pulsar's own ids have
  holes;
- all or nothing: an append of several payloads is one message, or several of which the last one counts (`counted.records`);
- **acknowledged records stay** as Pulsar keeps them: on as many bookies as the namespace says, each of which syncs to its disk.
  A durable subscription, `pares`, keeps brokers from deleting what was not trimmed; a message TTL, an evicting backlog quota
  and an expiry of subscriptions do so all the same, and `pares doctor` looks for them;
- **an append whose outcome is unknown** (`LedgerUnavailable` with `unknown=True`) may still land until the next append of the
  same ledger to that partition has, never after. What the client sends twice counts once;
- a reader is told of everything, and woken by urgent entries only. An empty answer of `read` is at most `FRESH` seconds old,
  and never misses what this ledger has appended, or what an `end` of it has told of;
- a log that is gone (a cluster that restarts empty, a topic that was deleted) is made anew when a member looks which log it is,
  and is another one.

The times on entries are their writers', as the client does not show the broker's: exclusive NELI is refused.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from pares.core.errors import ConfigError, LedgerUnavailable
from pares.ledger import base
from pares.ledger.address import Address, Options
from pares.ledger.base import Entry
from pares.ledger.handle_state import Lifetime, keep_after_fork
from pares.ledger.pulsar.admin import Admin
from pares.ledger.pulsar.checks import checks
from pares.ledger.pulsar.client import Client
from pares.ledger.pulsar.errors import BAD_LOGIN, NO_RIGHT, NO_TOPIC, Broken, Refused, raised
from pares.ledger.pulsar.feed import Feed
from pares.ledger.pulsar.reads import Reads
from pares.ledger.pulsar.settings import Settings, check_most, log, take
from pares.ledger.pulsar.topics import Topics
from pares.ledger.pulsar.writer import Writer
from pares.ledger.service_log import Gone, Known, TailedLog
from pares.ledger.window import Window, Windows

FRESH: Final = 0.1
"""Seconds for which the broker's last word on the end of a partition is taken for its end."""
_GRACE: Final = 0.5
"""Seconds for which `close` leaves an append that is under way to its answer."""
_SOON: Final = 0.1


class _Part(NamedTuple):
    """One partition."""

    feed: Feed
    writer: Writer
    reads: Reads


class _Shared:
    """What a ledger and its topics have in common: the client, and what is done by it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lifetime = Lifetime(settings.url)
        self.admin = Admin(settings)
        self.client = Client(settings, self.lifetime)
        self.topics = Topics(settings, self.client, self.admin)
        self.known = Known()
        self._windows = Windows(FRESH)
        self._parts: dict[tuple[str, int], _Part] = {}
        keep_after_fork(self)
        # A thread that waits inside of the client when the interpreter ends would end the process by a signal.
        atexit.register(self.close)

    def part(self, topic: str, partition: int) -> _Part:
        """Made when it is first asked for."""
        found = self._parts.get((topic, partition))
        if found is None:
            settings, name = self.settings, self.settings.name(topic, partition)
            writer = Writer(settings, self.client, self.admin)
            window = self.window(topic, partition)
            feed = Feed(settings, self.client, self.admin, name, window, writer.took, lambda: self.known.doubt(topic))
            writer.feed = feed
            found = self._parts.setdefault((topic, partition), _Part(feed, writer, Reads(settings, self.client, feed)))
        return found

    @contextmanager
    def asking(self, doing: str, topic: str) -> Generator[None]:
        try:
            yield
        except Refused as error:
            self.lifetime.check()
            if error.code == NO_TOPIC:
                self.known.forget(topic)
                raise Gone(f"{self.settings.where}: could not {doing}: {error}") from None
            raise raised(self.settings.where, doing, error) from None
        except Broken as error:
            self.lifetime.check()
            raise raised(self.settings.where, doing, error) from None
        except LedgerUnavailable:
            self.lifetime.check()
            raise

    def connect(self) -> None:
        """Wait for the first answer. Raises `ConfigError` for a login that is refused, `CapabilityError` for a server that is
        too old, and `LedgerUnavailable`."""
        until = time.monotonic() + self.settings.connect
        while True:
            try:
                self.topics.check_version()
                return
            except Refused as error:
                if error.code in (BAD_LOGIN, NO_RIGHT):
                    raise ConfigError(f"{self.settings.where}: {error}") from None
                raise raised(self.settings.where, "connect", error) from None
            except Broken as error:
                if time.monotonic() > until:
                    raise raised(self.settings.where, "connect", error) from None
            time.sleep(_SOON)

    def look(self, topic: str) -> tuple[str, int]:
        asked = time.monotonic()
        with self.asking("look at the log", topic):
            mark = self.topics.mark(self.settings.name(topic, 0))
            partitions = self.topics.count(topic)
        feeds = [part.feed for (other, _), part in [*self._parts.items()] if other == topic]
        for feed in feeds:
            if feed.name == self.settings.name(topic, 0) and feed.seen is not None and feed.seen.log != mark:
                self.replaced(topic)
        lost = sum(feed.lost for feed in feeds)
        identity = f"pulsar:{mark}" + (f":lost-{lost}" if lost else "")
        self.known.put(topic, identity, partitions, asked)
        return identity, partitions

    def replaced(self, topic: str) -> None:
        for (other, _), part in [*self._parts.items()]:
            if other == topic:
                part.feed.again()
        self.known.doubt(topic)

    def refresh(self, topic: str) -> None:
        """Nothing is kept of a topic that could be old but is not noticed."""

    def ends(self, topic: str, partition: int, least: int = 0) -> tuple[int, int]:
        with self.asking("ask for the log's bounds", topic):
            seen = self.part(topic, partition).feed.look()
            return seen.start.offset, seen.next

    def fetch(self, topic: str, partition: int, offset: int, end: int, max_records: int) -> list[Entry]:
        part = self.part(topic, partition)
        with self.asking(f"read at offset {offset}", topic):
            return part.reads.fetch(offset, end, max_records, part.feed.seen or part.feed.look())

    def append(self, topic: str, payloads: Sequence[bytes], partition: int, urgent: bool) -> list[int]:
        with self.asking("append", topic):
            return self.part(topic, partition).writer.append(payloads, urgent)

    def catch_up(self, window: Window) -> bool:
        """No window is lazy here: everything is pushed."""
        return False

    def stuck(self, window: Window) -> None:
        self.part(window.topic, window.partition).feed.again()

    def trim(self, topic: str, partition: int, before: int) -> None:
        with self.asking("trim", topic):
            self.part(topic, partition).writer.trim(before)

    def window(self, topic: str, partition: int) -> Window:
        return self._windows.get(topic, partition)

    def follow(self, window: Window, offset: int) -> None:
        self.part(window.topic, window.partition).feed.follow()

    def follows(self, topic: str) -> bool:
        """Whether the tail would hear of it if the log were another one: a topic that is deleted ends its connections."""
        return any(
            part.feed.seen is not None for (other, at), part in [*self._parts.items()] if other == topic and at == 0
        )

    # Making ----------------------------------------------------------------------------------------------------------

    def remake(self, topic: str, partitions: int) -> bool:
        return self.settle(topic, partitions)

    def settle(self, topic: str, partitions: int) -> bool:
        """See to it that the log is there; whether it was made."""
        with self.asking(f"make the topic {self.settings.base(topic)}", topic):
            return self.topics.settle(topic, partitions)

    def grow(self, topic: str, there: int, partitions: int) -> None:
        with self.asking(f"add partitions to {self.settings.base(topic)}", topic):
            self.topics.grow(topic, there, partitions)

    def there(self, topic: str) -> bool:
        with self.asking("look for the log", topic):
            return self.topics.there(topic)

    def found(self, topic: str) -> None:
        """Raise `ConfigError` unless the log is there."""
        if not self.there(topic):
            what = f"topic {topic!r}" if topic else f"topic {self.settings.topic} of a ledger"
            raise ConfigError(
                f"{self.settings.url}: there is no {what}, and readonly makes nothing: start a member first"
            )
        self.look(topic)

    def policies(self) -> dict[str, Any] | None:
        try:
            return self.admin.policies()
        except Refused as error:
            if error.code in (NO_RIGHT, BAD_LOGIN):
                return None
            raise

    def close(self) -> None:
        atexit.unregister(self.close)
        parts = [*self._parts.values()]
        if not self.lifetime.closed and not self.lifetime.forked:
            for part in parts:
                part.writer.finish(_GRACE)
        if self.lifetime.end():
            for part in parts:
                part.feed.ending.set()
            for part in parts:
                part.writer.close()
                part.feed.end()
            self._windows.shut()
            self.client.close()


class PulsarLog(TailedLog):
    """The topics of one log."""

    kind = "pulsar"
    teller = log

    def __init__(self, shared: _Shared, topic: str, url: str) -> None:
        super().__init__(shared, topic, url)
        self._shared = shared
        self.kind = shared.settings.scheme

    def broker_time(self) -> bool:
        """Entries carry the time of their writers: the client does not show the broker's."""
        return False


class PulsarLedger(PulsarLog):
    """A topic of Pulsar without partitions, named by the URL; made when it is missing.

    Options: `admin` (`http://HOST:PORT`: where the cluster answers HTTP; port 8080 of the first host, by HTTPS 8443),
    `partitions` (grows an existing log; at most 200), `retention` (seconds, or "none"), `timeout` (seconds that a request may
    take before it is given up; 3), `readonly` (to look on only: it makes nothing, and needs no right to write), `config` (a
    properties file with client settings) and `options` (the same as a dictionary): `token`, or `username` and `password`;
    with pulsar+ssl:// `tls_trust_certs_file_path`, `tls_certificate_file_path`, `tls_private_key_file_path`,
    `tls_validate_hostname`.

    Opening warns (logger `pares.pulsar`) of settings of the namespace by which brokers drop what the log needs. Raises
    `ConfigError` for a topic of somebody else's, and for a login that is refused; `CapabilityError` for a server that is too
    old; `LedgerUnavailable`.
    """

    def __init__(self, address: Address, options: Options) -> None:
        settings = take(address, options)
        shared = _Shared(settings)
        super().__init__(shared, "", settings.url)
        try:
            shared.connect()
            if settings.readonly:
                shared.found("")
                return
            shared.settle("", settings.partitions or 1)
            there = shared.look("")[1]
            if (wanted := base.grown_partitions(self.url, there, settings.partitions)) > there:
                shared.grow("", there, wanted)
                shared.look("")
            with shared.asking("look over the namespace", ""):
                found = [*checks(settings, "", 0, 0, shared.policies())]
            for level, text in found:
                if level == "problem":
                    log.warning("%s: %s", settings.where, text)
        except BaseException:
            self.close()
            raise

    def has_topic(self, name: str) -> bool:
        """Whether such a topic is there: asking makes none."""
        self._open()
        base.check_name(name, "a topic's name")
        return self._shared.there(name)

    def topic(self, name: str, partitions: int = 4) -> PulsarLog:
        self._open()
        base.check_name(name, "a topic's name")
        base.check_partitions(partitions, f"topic {name!r}")
        check_most(partitions, f"topic {name!r}")
        if self._shared.settings.readonly:
            self._shared.found(name)
        else:
            self._shared.settle(name, partitions)
            self._shared.look(name)
        return PulsarLog(self._shared, name, f"{self.url}#{quote(name, safe='')}")

    def checks(self) -> list[tuple[str, str]]:
        """What `pares doctor` is to say of the server: (good, note, warning or problem, and the text)."""
        self._open()
        first, end = self._ends(0)
        shared = self._shared
        with shared.asking("look over the server", ""):
            version, policies = shared.admin.version(), shared.policies()
        foreign = shared.part("", 0).feed.foreign
        return [*checks(shared.settings, version, end - first, foreign, policies)]

    def close(self) -> None:
        super().close()
        self._shared.close()
