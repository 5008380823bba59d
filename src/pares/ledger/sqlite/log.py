"""The embedded ledger: one SQLite file for all processes of one host, no server.

What it promises is `Log`'s, and how:

- one total order: every append holds SQLite's one write lock while it takes the next offset, so offsets have no holes;
- acknowledged records stay: `synchronous=FULL` by default, so an acknowledged append survives a power cut. With
  `normal` a power cut may lose the newest ones, and then their offsets are given out again;
- all or nothing: `append_many` is one transaction;
- a reader is told of appends by a bell (see `bell`) and otherwise asks; asking when nothing is new costs microseconds.

What it does not promise: appends while a writer is frozen inside its transaction. That writer blocks all others until it goes
on or dies; their appends raise `LedgerUnavailable` after the busy timeout, and nothing was appended.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger import base
from pares.ledger.address import Address, Options
from pares.ledger.base import Bell, Capabilities, Entry
from pares.ledger.bell import FileBell, awaited, ring
from pares.ledger.handle_state import Lifetime
from pares.ledger.local.anchor import still_there
from pares.ledger.local.mounts import refuse_network
from pares.ledger.local.stamp import NO_CLOCK, SHARED, clock, not_ahead, stopwatch
from pares.ledger.source import Record
from pares.ledger.sqlite.checks import checks
from pares.ledger.sqlite.connections import LedgerFile, Side
from pares.ledger.sqlite.schema import add_partitions, check_writable, create, inspect
from pares.ledger.sqlite.statements import delete, fetch, fetch_keyed, fetch_stamps, insert, insert_keys
from pares.ledger.topics.keyed import PARTITIONS, KeyedAppends

R = TypeVar("R", Entry, Record)

_BUSY_TIMEOUT: Final = 1.0
_TRIM_SLICE: Final = 0.004
"""Seconds for which a trim may keep others from writing, about, and for which it then lets them."""


class _Shared:
    """What a ledger and its topics have in common."""

    def __init__(self, file: LedgerFile, url: str, retention: float | None, readonly: bool) -> None:
        self.file = file
        self.retention = retention
        self.readonly = readonly
        self.lifetime = Lifetime(url)
        self.bell_path = f"{file.path}-bell"
        self.clock = clock()
        """Which stopwatch this process reads."""

    def new_bell(self) -> FileBell | None:
        try:
            return FileBell(self.bell_path, create=not self.readonly)
        except OSError:
            return None

    def close(self) -> None:
        if self.lifetime.end():
            self.file.close()


class SqliteLog:
    """One topic of a SQLite ledger; the one with the empty name is the ledger's own log."""

    kind = "sqlite"

    def __init__(self, shared: _Shared, topic: str, url: str) -> None:
        self._shared = shared
        self._topic = topic
        self._closed = False
        self.url = url

    @property
    def capabilities(self) -> Capabilities:
        can: dict[str, Any] = {"one_bell": True, "topics": True, "stamps": SHARED, "anchors": True, "whole_reads": True}
        return Capabilities(readonly=self._shared.readonly, scope="host", **can)

    @property
    def retention(self) -> float | None:
        return self._shared.retention

    @property
    def place(self) -> Path | None:
        return Path(f"{self._shared.file.path}-locks")

    @property
    def partitions(self) -> int:
        return self._file().read(lambda side, connection: self._count(connection))

    def append(self, payload: bytes, partition: int = 0) -> int:
        base.check_payload(payload)
        return self._append((payload,), partition, urgent=True)[0]

    def append_many(self, payloads: Sequence[bytes], partition: int = 0, *, urgent: bool = True) -> list[int]:
        base.check_payloads(payloads)
        return self._append(payloads, partition, urgent=urgent)

    def _append(
        self, payloads: Sequence[bytes], partition: int, keys: Sequence[bytes | None] | None = None, *, urgent: bool
    ) -> list[int]:
        began = stopwatch()
        with self._file(writing=True).transaction("append") as (side, connection):
            log = self._log(side, connection, partition)
            if not payloads:
                return []
            first = insert(connection, log, payloads, began, self._shared.clock)
            if keys is not None:
                insert_keys(connection, log, first, keys)
        if urgent:
            ring(self._shared.bell_path)
        return list(range(first, first + len(payloads)))

    def append_each(self, payloads: Sequence[tuple[int, bytes]], *, urgent: bool = True) -> list[int]:
        """Appends each payload to the partition that is named with it, all or nothing, for the price of one append."""
        base.check_payloads([payload for _, payload in payloads])
        began = stopwatch()
        offsets: list[int] = []
        with self._file(writing=True).transaction("append") as (side, connection):
            for partition, payload in payloads:
                log = self._log(side, connection, partition)
                offsets.append(insert(connection, log, (payload,), began, self._shared.clock))
        if urgent:
            ring(self._shared.bell_path)
        return offsets

    def read(self, offset: int, partition: int = 0, max_records: int = 1000, timeout: float = 0.0) -> list[Entry]:
        base.check_records(max_records)
        get = partial(fetch, offset=offset, max_records=max_records)
        return awaited(lambda: self._read(offset, partition, get), self._shared.new_bell, timeout)

    def _read(self, offset: int, partition: int, get: Callable[[sqlite3.Connection, int], list[R]]) -> list[R]:
        """What `get` has of that log from `offset` on. Raises as `read`, if the log begins behind it or ends before it."""

        def once(side: Side, connection: sqlite3.Connection) -> list[R]:
            log = self._log(side, connection, partition)
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            reached = -1
            while side.tails.get(log) != (version, offset):
                entries = get(connection, log)
                if entries and entries[0].offset == offset:
                    return entries
                # Nothing at this offset. Both bounds only grow, so they may be read after the entries were.
                first, after = connection.execute("SELECT first, next FROM logs WHERE log = ?", (log,)).fetchone()
                if offset < first:
                    raise base.gap(self.url, partition, offset, first)
                if offset > after:
                    raise base.rewound(self.url, partition, offset, after)
                if offset == after:
                    side.tails[log] = (version, after)
                elif reached > offset:
                    # The log was longer than this before the last look, and has nothing here: rows were taken out of the file
                    # by other hands. What follows is given, as of a log that may have holes. [looking again never ends]
                    return entries
                # Else it was appended in between: look again.
                reached = after
            return []

        return self._file().read(once)

    def read_stamped(
        self, offset: int, partition: int = 0, max_records: int = 1000
    ) -> tuple[list[Entry], list[int | None]]:
        base.check_records(max_records)
        entries = self._read(offset, partition, partial(fetch, offset=offset, max_records=max_records))
        return entries, not_ahead(self._stamps(entries, partition))

    def has(self, offset: int, payload: bytes, partition: int = 0) -> bool:
        """See `Anchored`."""
        return still_there(self, offset, payload, partition)

    def _stamps(self, entries: list[Entry], partition: int) -> list[int | None]:
        """When the append of each began by this process' stopwatch, None where that isn't known, or they are gone meanwhile."""
        clock = self._shared.clock
        if not entries or clock == NO_CLOCK:
            return [None] * len(entries)

        def once(side: Side, connection: sqlite3.Connection) -> list[int | None]:
            if not side.has_stamps():
                return [None] * len(entries)
            log = self._log(side, connection, partition)
            stamps = fetch_stamps(connection, log, entries[0].offset, entries[-1].offset, clock)
            return [stamps.get(entry.offset) for entry in entries]

        return self._file().read(once)

    def changed(self, offsets: Sequence[int]) -> list[int]:
        """The partitions n, of the first `len(offsets)`, where a `read` from `offsets[n]` on would bring something, or raise.
        One look for all of them: reading each costs as many as there are, and mostly for nothing."""

        def once(side: Side, connection: sqlite3.Connection) -> list[int]:
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            tails = [(version, offset) for offset in offsets]
            logs = [self._log(side, connection, partition) for partition in range(len(offsets))]
            unsure = [n for n, log in enumerate(logs) if side.tails.get(log) != tails[n]]
            if not unsure:
                return []
            rows = connection.execute("SELECT log, next FROM logs WHERE topic = ?", (self._topic,)).fetchall()
            ends: dict[int, int] = dict(rows)
            for n in unsure:
                if ends.get(logs[n]) == offsets[n]:
                    side.tails[logs[n]] = tails[n]
            return [n for n in unsure if ends.get(logs[n]) != offsets[n]]

        return self._file().read(once)

    def start(self, partition: int = 0) -> int:
        return self._bounds(partition)[0]

    def end(self, partition: int = 0) -> int:
        return self._bounds(partition)[1]

    def _bounds(self, partition: int) -> tuple[int, int]:
        def once(side: Side, connection: sqlite3.Connection) -> tuple[int, int]:
            log = self._log(side, connection, partition)
            return connection.execute("SELECT first, next FROM logs WHERE log = ?", (log,)).fetchone()

        return self._file().read(once)

    def trim(self, before: int, partition: int = 0) -> None:
        # Many short transactions: a long one would keep all beats out of the log, and cost leaders their leases.
        while self._trim_some(before, partition):
            time.sleep(_TRIM_SLICE)
        while self._file(writing=True).give_back():
            time.sleep(_TRIM_SLICE)

    def _trim_some(self, before: int, partition: int) -> bool:
        """Delete for a few milliseconds; True if there is more to do."""
        with self._file(writing=True).transaction("trim") as (side, connection):
            log = self._log(side, connection, partition)
            first, after = connection.execute("SELECT first, next FROM logs WHERE log = ?", (log,)).fetchone()
            if before > after:
                raise base.rewound(self.url, partition, before, after)
            began, rows = time.monotonic(), 16
            while first < before and (spent := time.monotonic() - began) < _TRIM_SLICE:
                if spent < _TRIM_SLICE / 4:
                    rows *= 2
                upto = min(before, first + rows)
                delete(connection, log, first, upto, 2 * rows)
                first = upto
            connection.execute("UPDATE logs SET first = max(first, ?) WHERE log = ?", (first, log))
            return first < before

    def identity(self) -> str:
        def once(side: Side, connection: sqlite3.Connection) -> str:
            return f"sqlite:{side.id}:{side.inode[0]}:{side.inode[1]}" + (f"/{self._topic}" if self._topic else "")

        return self._file().read(once)

    def bell(self, partition: int = 0) -> Bell | None:
        self._file()
        return self._shared.new_bell()

    def close(self) -> None:
        self._closed = True

    def _file(self, *, writing: bool = False) -> LedgerFile:
        self._shared.lifetime.check()
        if self._closed:
            raise Lifetime.closed_error(self.url)
        if writing and self._shared.readonly:
            raise CapabilityError(f"{self.url} was opened read-only: open it without readonly to write")
        return self._shared.file

    def _count(self, connection: sqlite3.Connection) -> int:
        (count,) = connection.execute("SELECT count(*) FROM logs WHERE topic = ?", (self._topic,)).fetchone()
        return int(count)

    def _log(self, side: Side, connection: sqlite3.Connection, partition: int) -> int:
        """The number of the log that is this partition."""
        known = side.logs.get((self._topic, partition))
        if known is not None:
            return known
        row = connection.execute(
            "SELECT log FROM logs WHERE topic = ? AND partition = ?", (self._topic, partition)
        ).fetchone()
        if row is None:
            there = self._count(connection)
            if not there:
                raise LedgerUnavailable(f"{self.url} is gone: the ledger was begun anew; ask it for the topic again")
            raise base.no_such_partition(partition, there, self.url)
        side.logs[self._topic, partition] = row[0]
        return int(row[0])


class SqliteTopic(KeyedAppends, SqliteLog):
    """A topic: a log with keys, which stand in a table of their own."""

    def records(
        self, offset: int, partition: int = 0, max_records: int = 1000, max_bytes: int = 1 << 20, timeout: float = 0.0
    ) -> list[Record]:
        base.check_records(max_records)
        get = partial(fetch_keyed, offset=offset, max_records=max_records, max_bytes=max_bytes)
        return awaited(lambda: self._read(offset, partition, get), self._shared.new_bell, timeout)


class SqliteLedger(SqliteLog):
    """`sqlite:///relative.db`, `sqlite:////absolute.db`; the file is made when missing, in a folder that is there.

    Options: `retention` (seconds, or "none"), `partitions` (grows an existing ledger), `synchronous` ("full" or
    "normal"), `busy_timeout` (seconds to wait for other writers), `readonly` (to look on only; makes nothing), `create` (makes
    missing folders too: without it a mistyped path is an error, and not a second world in which one leads alone).
    """

    def __init__(self, address: Address, options: Options) -> None:
        retention = options.seconds("retention", base.DEFAULT_RETENTION, none=True)
        partitions = options.whole("partitions")
        synchronous = options.choice("synchronous", ("full", "normal"))
        busy_timeout = options.seconds("busy_timeout", _BUSY_TIMEOUT) or _BUSY_TIMEOUT
        readonly = options.flag("readonly")
        folders = options.flag("create")
        options.finish()
        path = _path(address)
        if partitions is not None:
            base.check_partitions(partitions, address.shown)
        if readonly and folders:
            raise ConfigError(f"{address.shown}: readonly makes nothing, and create asks to: leave one of them out")
        _prepare(path, partitions or 1, readonly=readonly, folders=folders)
        url = f"sqlite:///{quote(path)}{options.query(leave_out=('create',))}"
        file = LedgerFile(path, readonly=readonly, synchronous=synchronous, busy_timeout=busy_timeout)
        super().__init__(_Shared(file, url, retention, readonly), "", url)
        try:
            self._settle(partitions)
        except BaseException:
            self.close()
            raise

    def _settle(self, asked: int | None) -> None:
        """Look at the ledger for the first time, and let it grow if it was asked to."""
        there = self.partitions
        if base.grown_partitions(self.url, there, asked) > there:
            with self._file(writing=True).transaction("add partitions") as (_, connection):
                there = self._count(connection)
                add_partitions(connection, "", there, max(there, asked or 0))

    def has_topic(self, name: str) -> bool:
        """Whether such a topic is there: asking makes none."""
        return SqliteLog(self._shared, name, self.url).partitions > 0

    def topic(self, name: str, partitions: int | None = None) -> SqliteTopic:
        base.check_name(name, "a topic's name")
        if partitions is not None:
            base.check_partitions(partitions, f"topic {name!r}")
        topic = SqliteTopic(self._shared, name, f"{self.url}#{quote(name, safe='')}")
        there = topic.partitions
        if not there or base.grown_partitions(topic.url, there, partitions) > there:
            with self._file(writing=True).transaction("make a topic") as (_, connection):
                there = topic._count(connection)
                wanted = base.grown_partitions(topic.url, there, partitions) if there else partitions
                add_partitions(connection, name, there, wanted or PARTITIONS)
        return topic

    def checks(self) -> list[tuple[str, str]]:
        """What `pares doctor` is to say of the files: (good, note, warning or problem, and the text)."""
        return [*checks(self._file().path)]

    def close(self) -> None:
        super().close()
        self._shared.close()


def _path(address: Address) -> str:
    if address.host:
        raise ConfigError(
            f"{address.shown} names a host: write three slashes for a relative path "
            f"({address.shown.replace('//', '///', 1)}) or four for an absolute one (sqlite:////...)"
        )
    path = address.path[1:]
    if path in ("", "/") or path.endswith("/"):
        raise ConfigError(f"{address.shown} names no file: write sqlite:///relative.db or sqlite:////absolute.db")
    if path == ":memory:":
        raise ConfigError(f"{address.shown}: a ledger inside one process is memory://NAME")
    if "\0" in path:
        raise ConfigError(f"{address.shown} has a NUL in its path: remove it")
    return os.path.realpath(path)


def _prepare(path: str, partitions: int, *, readonly: bool, folders: bool) -> None:
    """Make the ledger if it isn't there; raise if what is there can't be used."""
    refuse_network(path)
    try:
        os.stat(path)
    except FileNotFoundError:
        if readonly:
            raise ConfigError(f"{path} is not there, and readonly makes nothing: start a member first") from None
        create(path, partitions, folders=folders)
    except OSError as error:
        raise ConfigError(f"{path} can't be reached: {error.strerror}; use another path") from error
    inspect(path)
    if not readonly:
        check_writable(path)
