"""Redis as a ledger: `redis://USER@HOST:PORT/DB?stream=pares`. A partition is a stream.

What it promises is `Log`'s, and how:

- one total order: an append is one script, which the server carries out alone (see `redis.scripts`). Offsets are integers of
  our own, contiguous but for a hole where the server was started again or failed over;
- all or nothing: `append_many` is one script, too;
- **acknowledged records stay** as far as the server keeps them, which a Redis says by its settings. Replication is behind: a
  failover may lose what was acknowledged, and so may a restart without `appendonly`, or a crash with
  `appendfsync everysec`. That breaks A1. Opening warns of it, `pares doctor` says it. What holds then: each process that had
  read, or appended, what is gone notices at its next request (R12) and begins anew; no offset is given out twice, so tokens
  rise and a fence refuses the older term. What doesn't: two members may believe in one role until the older one's lease ends;
- **an append whose outcome is unknown** (`LedgerUnavailable` with `unknown=True`) may still happen while the server works off
  what it has been sent. It is never sent again from here;
- a log that is gone (a server that restarts empty, a key that was evicted or deleted) is made anew when a member looks which
  log it is, and is another one.

A reader is woken by urgent entries only (see `redis.tail`). Each ledger needs two connections.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger import base
from pares.ledger.address import Address, Options
from pares.ledger.base import Bell, Entry
from pares.ledger.handle_state import Lifetime, keep_after_fork
from pares.ledger.redis.anchors import Anchor, Anchors
from pares.ledger.redis.checks import PROBLEM, WARNING, kept, looked_over
from pares.ledger.redis.errors import Refused
from pares.ledger.redis.link import Link
from pares.ledger.redis.scripts import APPEND, BOUNDS, LAYOUT, MAKE, READ, TRIM, Script
from pares.ledger.redis.settings import Settings, log, take
from pares.ledger.redis.tail import Tails
from pares.ledger.service_log import ServiceHandle

_GLANCE: Final = 0.05
"""Seconds between two looks of a waiting `read`: what is not urgent is not published."""
_LIMIT: Final = 1 << 53
"""No offset is as high: beyond it the server's numbers have holes."""


class _Answer:
    """What a script says of a log."""

    def __init__(self, answer: list[Any]) -> None:
        self.status, self.log = answer[0].decode(), answer[1].decode()
        self.partitions, self.next = int(answer[2]), int(answer[3])
        self.more: Any = answer[4] if len(answer) > 4 else None


class _Shared:
    """What a ledger and its topics have in common: the connections, and what is done over them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lifetime = Lifetime(settings.url)
        self.link = Link(settings, self.lifetime)
        self.anchors = Anchors()
        self.tails = Tails(settings, self.link)
        self.partitions: dict[str, int] = {}
        """How many each log has, as far as is known."""
        keep_after_fork(self)

    def ask(self, script: Script, topic: str, partition: int, values: Sequence[object], doing: str) -> _Answer:
        """A script about one partition, but an append. Raises unless the log is there, with all that was seen of it."""
        anchor = self.anchors.of((topic, partition))
        given = [partition, *anchor, *values]
        answer = _Answer(self.link.run(script, self._keys(topic, partition), given, doing))
        self.heed(answer, topic, partition, anchor)
        return answer

    def append(self, topic: str, partition: int, payloads: Sequence[bytes], urgent: bool) -> list[int]:
        key, settings = (topic, partition), self.settings
        anchor, word = self.anchors.of(key), secrets.token_urlsafe(9)
        channel = settings.channel(topic, partition) if urgent else ""
        given = [partition, *anchor, word, channel, *payloads]
        answer = _Answer(self.link.append(APPEND, self._keys(topic, partition), given))
        self.heed(answer, topic, partition, anchor)
        first = int(answer.more)
        self.anchors.saw(key, answer.log, answer.next - 1, word)
        return list(range(first, first + len(payloads)))

    def heed(self, answer: _Answer, topic: str, partition: int, anchor: Anchor) -> None:
        if answer.status == "gone":
            raise self.gone(topic)
        self.partitions[topic] = answer.partitions
        if answer.status == "none":
            raise base.no_such_partition(partition, answer.partitions, self.settings.url)
        if answer.status == "lost":
            self.anchors.lost((topic, partition), anchor)
            raise LedgerUnavailable(
                f"{self.settings.where}: the server lacks entries that were seen here: a failover, a restart or a restored "
                "copy has lost them; it is another log from now on"
            )

    def look(self, topic: str) -> _Answer:
        """What the server says of a log, whatever that is; what is lost of it is noted."""
        anchor = self.anchors.of((topic, 0))
        answer = _Answer(self.link.run(BOUNDS, self._keys(topic, 0), [0, *anchor], "look at the log"))
        if answer.status == "lost":
            self.anchors.lost((topic, 0), anchor)
        return answer

    def gone(self, topic: str) -> LedgerUnavailable:
        self.partitions.pop(topic, None)
        self.anchors.forget(topic)
        what = f"the topic {topic!r}" if topic else "the log"
        return LedgerUnavailable(
            f"{self.settings.where}: {what} is gone: the server was started again without its data, or somebody has "
            "deleted or evicted it; a member that looks for it makes it anew"
        )

    def _keys(self, topic: str, partition: int) -> list[str]:
        return [self.settings.meta(topic), self.settings.key(topic, partition)]

    def fsync(self) -> str | None:
        """How the server syncs; None if that can't be asked for: many services allow it to nobody."""
        with self.link.wire("look over the server") as wire:
            try:
                return wire.ask("CONFIG", "GET", "appendfsync")[1].decode()
            except (Refused, IndexError):
                return None

    # Making ----------------------------------------------------------------------------------------------------------

    def there(self, topic: str) -> bool:
        """Whether there is such a log."""
        with self.link.wire("look for the log") as wire:
            return wire.ask("EXISTS", self.settings.meta(topic)) == 1

    def found(self, topic: str) -> None:
        """Raise `ConfigError` unless the log is there."""
        if not self.there(topic):
            what = f"topic {topic!r}" if topic else "log there"
            raise ConfigError(
                f"{self.settings.url}: there is no {what}, and readonly makes nothing: start a member first"
            )
        self.ask(BOUNDS, topic, 0, [], "look at the log")

    def make(self, topic: str, partitions: int, *, grow: bool = False) -> bool:
        """See to it that a log is there, with so many partitions if it is made or may grow; whether it was made."""
        settings = self.settings
        values = [settings.base(topic), partitions, secrets.token_hex(12), int(grow)]
        with self.link.wire(f"make the log {topic!r}" if topic else "make the log") as wire:
            try:
                status, what, *rest = wire.run(MAKE, [settings.meta(topic)], values)[0]
            except Refused as error:
                if error.code == "WRONGTYPE":
                    raise self._foreign(settings.meta(topic)) from None
                raise
        if status == b"foreign":
            raise self._foreign(what.decode())
        if status == b"newer":
            raise CapabilityError(
                f"{settings.where}: the log is of layout {what.decode()}, made by a newer pares; this one knows layouts up to "
                f"{LAYOUT}: upgrade pares in this process"
            )
        self.partitions[topic] = int(rest[0])
        return status == b"made"

    def _foreign(self, key: str) -> ConfigError:
        return ConfigError(
            f"{self.settings.where}: the key {key} is there, and of no pares ledger; it was left as it is: name another one by "
            "?stream="
        )

    def close(self) -> None:
        if self.lifetime.end():
            self.tails.close()
            self.link.close()


class RedisLog(ServiceHandle[_Shared]):
    """One topic as a log."""

    kind: Final = "redis"

    def __init__(self, shared: _Shared, topic: str, url: str) -> None:
        super().__init__(shared, topic, url)
        self._had = 1
        """How many partitions there were, should the log have to be made anew."""

    @property
    def partitions(self) -> int:
        return self._open().ask(BOUNDS, self._topic, 0, [], "look at the log").partitions

    def _append(self, payloads: Sequence[bytes], partition: int, urgent: bool) -> list[int]:
        self._open()
        self._may_write()
        shared = self._there(partition)
        return shared.append(self._topic, partition, payloads, urgent) if payloads else []

    def read(self, offset: int, partition: int = 0, max_records: int = 1000, timeout: float = 0.0) -> list[Entry]:
        base.check_records(max_records)
        shared = self._there(partition)
        if timeout <= 0:
            return self._read(shared, offset, partition, max_records)
        deadline = time.monotonic() + timeout
        channel = shared.tails.channel(shared.settings.channel(self._topic, partition))
        while True:
            news = channel.news
            found = self._read(shared, offset, partition, max_records)
            left = deadline - time.monotonic()
            if found or left <= 0:
                return found
            shared.tails.wait(channel, news, min(left, _GLANCE))
            self._open()

    def _read(self, shared: _Shared, offset: int, partition: int, most: int) -> list[Entry]:
        if not 0 <= offset < _LIMIT:
            raise self._astray(shared, offset, partition)
        answer = shared.ask(READ, self._topic, partition, [offset, most], f"read at offset {offset}")
        if offset > answer.next:
            raise base.rewound(self.url, partition, offset, answer.next)
        if offset == answer.next:
            return []
        entries, before, word = list[Entry](), -1, b""
        for place, at, own, link, payload in answer.more:
            # Each names the one before it: nothing is missing in between, but where the offsets have a hole.
            named = int(link.partition(b":")[0] or -1)
            if named >= offset if not entries else named != before:
                break
            before, word = int(place), own
            entries.append(Entry(before, int(at) // 1000, payload))
        if not entries:
            raise self._astray(shared, offset, partition)
        shared.anchors.saw((self._topic, partition), answer.log, before, word.decode())
        return entries

    def _astray(self, shared: _Shared, offset: int, partition: int) -> Exception:
        """Why there is nothing at an offset."""
        first, end = self._bounds(shared, partition)
        if offset < first:
            return base.gap(self.url, partition, offset, first)
        if offset > end:
            return base.rewound(self.url, partition, offset, end)
        key = shared.settings.key(self._topic, partition)
        return LedgerUnavailable(
            f"{self.url}: entries from {offset} on are missing in the middle of the log: somebody has deleted them (XDEL). "
            f"Nobody can read past them: end all members, then delete the log (DEL {shared.settings.meta(self._topic)} {key})"
        )

    def start(self, partition: int = 0) -> int:
        return self._bounds(self._there(partition), partition)[0]

    def end(self, partition: int = 0) -> int:
        return self._bounds(self._there(partition), partition)[1]

    def _bounds(self, shared: _Shared, partition: int) -> tuple[int, int]:
        answer = shared.ask(BOUNDS, self._topic, partition, [], "ask for the log's bounds")
        return int(answer.more), answer.next

    def trim(self, before: int, partition: int = 0) -> None:
        self._open()
        self._may_write()
        shared = self._there(partition)
        first, end = self._bounds(shared, partition)
        if before > end:
            raise base.rewound(self.url, partition, before, end)
        if before > first:
            shared.ask(TRIM, self._topic, partition, [before], "trim")

    def identity(self) -> str:
        """By the server, each time. A log that is gone is made anew here, unless this handle only looks on: the service that it
        is for must not wait until somebody opens it again."""
        shared = self._open()
        answer = shared.look(self._topic)
        if answer.status == "gone" and not shared.settings.readonly:
            if shared.make(self._topic, self._had):
                log.warning("%s: the log was gone, and was made anew: it is another one", shared.settings.where)
            answer = shared.look(self._topic)
        if answer.status == "gone":
            raise shared.gone(self._topic)
        self._had = shared.partitions[self._topic] = answer.partitions
        return shared.anchors.identity(self._topic, answer.log)

    def bell(self, partition: int = 0) -> Bell | None:
        shared = self._there(partition)
        return shared.tails.bell(shared.settings.channel(self._topic, partition))

    def broker_time(self) -> bool:
        """Entries carry the server's time, read within the append. Clients can't set it by an append."""
        return True

    def _there(self, partition: int) -> _Shared:
        """What to ask; raises unless the log is open and has this partition."""
        shared = self._open()
        known = shared.partitions.get(self._topic, 0)
        if not 0 <= partition < known:
            known = shared.ask(BOUNDS, self._topic, 0, [], "look at the log").partitions
            if not 0 <= partition < known:
                raise base.no_such_partition(partition, known, self.url)
        self._had = known
        return shared


class RedisLedger(RedisLog):
    """A database of a Redis 6.2 or newer (Valkey too), and in it the keys that begin with the stream's name; made when they are
    missing.

    Options: `stream` (`pares`), `sentinel` (what Sentinels call the master; then the hosts are Sentinels), `replicas` (how
    many of them an append waits for; 0), `partitions` (grows an existing log), `retention` (seconds, or "none"), `timeout`
    (seconds that the server may be silent before a request is given up; 1), `readonly` (to look on only: it makes nothing,
    and needs no right to write), `config` (a properties file with client settings) and `options` (the same as a dictionary):
    `username`, `password`, `ssl` with `ssl_ca_certs` and others of redis-py's, `sentinel_username`, `sentinel_password`.

    Opening warns (logger `pares.redis`) of what the server may lose. Raises `CapabilityError` for a node of a Redis Cluster
    and for a server that is too old.
    """

    def __init__(self, address: Address, options: Options) -> None:
        settings = take(address, options)
        shared = _Shared(settings)
        super().__init__(shared, "", settings.url)
        try:
            if settings.readonly:
                shared.found("")
                return
            shared.make("", settings.partitions or 1)
            there = shared.partitions[""]
            if (wanted := base.grown_partitions(self.url, there, settings.partitions)) > there:
                shared.make("", wanted, grow=True)
            for level, text in kept(shared.link.server, settings, shared.fsync()):
                if level in (WARNING, PROBLEM):
                    log.warning("%s: %s", settings.where, text)
        except BaseException:
            self.close()
            raise

    def has_topic(self, name: str) -> bool:
        """Whether such a topic is there: asking makes none."""
        self._open()
        base.check_name(name, "a topic's name")
        return self._service.there(name)

    def topic(self, name: str, partitions: int = 4) -> RedisLog:
        self._open()
        base.check_name(name, "a topic's name")
        base.check_partitions(partitions, f"topic {name!r}")
        if self._service.settings.readonly:
            self._service.found(name)
        else:
            self._service.make(name, partitions)
        return RedisLog(self._service, name, f"{self.url}#{quote(name, safe='')}")

    def checks(self) -> list[tuple[str, str]]:
        """What `pares doctor` is to say of the server: (good, note, warning or problem, and the text)."""
        shared = self._open()
        info = shared.link.info("look over the server")
        entries = 0
        with shared.link.wire("look over the server") as wire:
            try:
                for partition in range(shared.partitions[""]):
                    entries += wire.ask("XLEN", shared.settings.key("", partition))
            except Refused:
                pass  # it can be done without
        return [*looked_over(info, shared.settings, shared.fsync(), entries)]

    def close(self) -> None:
        super().close()
        self._service.close()
