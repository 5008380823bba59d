"""The embedded ledger without a lock: a folder of files that are only ever appended to, for all processes of one host.

What it promises is `Log`'s, and how:

- one total order: an append is one `write` to a descriptor opened with O_APPEND, and the kernel puts each whole behind all
  others. No process, frozen or killed, can be inside one, so nobody waits for another;
- acknowledged records stay. What is urgent has been synced, and with it all before it, when `append` returns, so it survives a
  power cut; beats need not. `sync=always` syncs each append. With `sync=never` a power cut may take the newest records of all
  kinds, though no offset is given out twice;
- all or nothing: `append_many` writes one frame, which passes its check whole or not at all;
- a reader is told of appends by a bell (see `bell`) and otherwise asks, which costs two microseconds.

What it does not promise: that an append is quick while the kernel itself keeps a writer in it (a process whose CPU quota is
used up there, or that has to wait for a disk because too much memory is yet to be written).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from itertools import repeat
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote

from msgspec.structs import replace

from pares.core.errors import CapabilityError, ConfigError
from pares.ledger.address import Address, Options
from pares.ledger.base import (
    DEFAULT_RETENTION,
    MAX_READ_BYTES,
    Bell,
    Capabilities,
    Entry,
    check_name,
    check_partitions,
    check_payload,
    check_payloads,
    check_records,
    ends_here,
    grown_partitions,
    no_such_partition,
)
from pares.ledger.bell import FileBell, Ringer, awaited
from pares.ledger.file.appending import Appender, Sync
from pares.ledger.file.chain import Chain
from pares.ledger.file.checks import checks
from pares.ledger.file.folder import Home, begin, prepare
from pares.ledger.file.keys import packed, unpacked
from pares.ledger.file.segment import unavailable
from pares.ledger.handle_state import Lifetime
from pares.ledger.local.anchor import still_there
from pares.ledger.local.mounts import refuse_network
from pares.ledger.local.stamp import SHARED, not_ahead
from pares.ledger.source import Record
from pares.ledger.topics.keyed import PARTITIONS, KeyedAppends

SEGMENT: Final = 1 << 20
"""Bytes after which a segment is sealed."""
_OPEN: Final = 256
"""Partitions of one log whose files stay open; with more of them each is opened for each use."""


class _Shared:
    """What a ledger and its topics have in common."""

    def __init__(self, root: str, url: str, retention: float | None, sync: Sync, limit: int, *, readonly: bool) -> None:
        self.root = root
        self.retention = retention
        self.sync: Sync = sync
        self.limit = limit
        self.readonly = readonly
        self.lifetime = Lifetime(url)
        self.bell_path = f"{root}/bell"
        self.ringer = Ringer(self.bell_path)
        self.logs: list[FileLog] = []

    def new_bell(self) -> FileBell | None:
        try:
            return FileBell(self.bell_path, create=not self.readonly)
        except OSError:
            return None


class FileLog:
    """One topic of a file ledger; the one with the empty name is the ledger's own log."""

    kind = "file"

    def __init__(self, shared: _Shared, topic: str, url: str) -> None:
        self._shared = shared
        self._topic = topic
        self._lifetime = shared.lifetime
        self._home = Home(shared.root, topic)
        self._chains: dict[int, tuple[Chain, Appender]] = {}
        self._making = threading.Lock()
        self._closed = False
        self.url = url
        shared.logs.append(self)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            readonly=self._shared.readonly,
            scope="host",
            one_bell=True,
            topics=True,
            lazy_sync=self._shared.sync == "urgent",
            stamps=SHARED,
            anchors=True,
            whole_reads=True,
        )

    @property
    def retention(self) -> float | None:
        return self._shared.retention

    @property
    def place(self) -> Path | None:
        return Path(f"{self._shared.root}/locks")

    @property
    def partitions(self) -> int:
        self._check()
        return self._home.partitions()

    def append(self, payload: bytes, partition: int = 0) -> int:
        check_payload(payload)
        return self._append((payload,), partition, urgent=True)[0]

    def append_many(self, payloads: Sequence[bytes], partition: int = 0, *, urgent: bool = True) -> list[int]:
        check_payloads(payloads)
        return self._append(payloads, partition, urgent=urgent)

    def _append(
        self, payloads: Sequence[bytes], partition: int, keys: Sequence[bytes | None] | None = None, *, urgent: bool
    ) -> list[int]:
        chain, appender = self._writing(partition)
        if not payloads:
            return []
        first = appender.append(payloads, urgent=urgent)
        if urgent:
            self._shared.ringer.ring()
        self._done_with(chain)
        return list(range(first, first + len(payloads)))

    def read(self, offset: int, partition: int = 0, max_records: int = 1000, timeout: float = 0.0) -> list[Entry]:
        check_records(max_records)
        if timeout <= 0:
            return self._find(offset, partition, max_records)[0]
        return awaited(lambda: self._find(offset, partition, max_records)[0], self._shared.new_bell, timeout)

    def _find(
        self, offset: int, partition: int, max_records: int, max_bytes: int = MAX_READ_BYTES
    ) -> tuple[list[Entry], list[int | None]]:
        chain, _ = self._chain(partition)
        found = chain.read(offset, max_records, max_bytes)
        self._done_with(chain)
        return found

    def read_stamped(
        self, offset: int, partition: int = 0, max_records: int = 1000
    ) -> tuple[list[Entry], list[int | None]]:
        check_records(max_records)
        entries, stamps = self._find(offset, partition, max_records)
        chain, _ = self._chain(partition)
        while entries and entries[-1].offset + 1 < chain.seen_end and ends_here(entries, max_records):
            # Up to the end of a segment.
            more, of_more = self._find(entries[-1].offset + 1, partition, max_records - len(entries))
            if not more:
                break
            entries, stamps = entries + more, stamps + of_more
        return entries, not_ahead(stamps)

    def has(self, offset: int, payload: bytes, partition: int = 0) -> bool:
        """See `Anchored`."""
        known = self._chain(partition)[0].known(offset)
        return still_there(self, offset, payload, partition) if known is None else known == payload

    def _done_with(self, chain: Chain) -> None:
        if len(self._chains) > _OPEN:
            chain.rest()

    def start(self, partition: int = 0) -> int:
        return self._chain(partition)[0].bounds()[0]

    def end(self, partition: int = 0) -> int:
        return self._chain(partition)[0].bounds()[1]

    def trim(self, before: int, partition: int = 0) -> None:
        self._writing(partition)[0].trim(before)

    def identity(self) -> str:
        self._check()
        _, which = self._home.look()
        ledger = Home(self._shared.root, "").look()[1] if self._topic else which
        chains = [chain for chain, _ in list(self._chains.values())]
        for chain in chains:
            chain.look_around()
        altered = sum(chain.alterations for chain in chains)
        return f"file:{ledger}{f'/{which}' if self._topic else ''}{f' altered {altered}' if altered else ''}"

    def bell(self, partition: int = 0) -> Bell | None:
        self._check()
        return self._shared.new_bell()

    def close(self) -> None:
        self._closed = True
        if not self._shared.lifetime.forked:
            for chain, _ in list(self._chains.values()):
                chain.close()
            self._chains.clear()
            if self in self._shared.logs:
                self._shared.logs.remove(self)

    def _check(self) -> None:
        self._lifetime.check()
        if self._closed:
            raise Lifetime.closed_error(self.url)

    def _writing(self, partition: int) -> tuple[Chain, Appender]:
        if self._shared.readonly:
            self._check()
            raise CapabilityError(f"{self.url} was opened read-only: open it without readonly to write")
        return self._chain(partition)

    def _chain(self, partition: int) -> tuple[Chain, Appender]:
        self._lifetime.check()
        if self._closed:
            raise Lifetime.closed_error(self.url)
        known = self._chains.get(partition)
        if known is not None:
            return known
        shared = self._shared
        there = self._home.partitions()
        if not 0 <= partition < there:
            raise no_such_partition(partition, there, self.url)
        with self._making:
            if partition not in self._chains:
                flags = os.O_RDONLY if shared.readonly else os.O_RDWR | os.O_APPEND
                made = Chain(self._home, partition, self.url, flags)
                self._chains[partition] = made, Appender(made, shared.sync, shared.limit)
            return self._chains[partition]


class FileTopic(KeyedAppends, FileLog):
    """A topic: a log with keys. A key stands before its payload in the body of the frame, see `keys`."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, topics=False)

    def has(self, offset: int, payload: bytes, partition: int = 0) -> bool:
        return still_there(self, offset, payload, partition)

    def _append(
        self, payloads: Sequence[bytes], partition: int, keys: Sequence[bytes | None] | None = None, *, urgent: bool
    ) -> list[int]:
        bodies = [packed(key, payload) for key, payload in zip(keys or repeat(None), payloads, strict=False)]
        return super()._append(bodies, partition, urgent=urgent)

    def _find(
        self, offset: int, partition: int, max_records: int, max_bytes: int = MAX_READ_BYTES
    ) -> tuple[list[Entry], list[int | None]]:
        found, stamps = super()._find(offset, partition, max_records, max_bytes)
        return [Entry(at, ms, unpacked(body)[1]) for at, ms, body in found], stamps

    def records(
        self, offset: int, partition: int = 0, max_records: int = 1000, max_bytes: int = 1 << 20, timeout: float = 0.0
    ) -> list[Record]:
        check_records(max_records)

        def look() -> list[Record]:
            found, _ = FileLog._find(self, offset, partition, max_records, max_bytes)
            return [Record(at, ms, *unpacked(body)) for at, ms, body in found]

        return awaited(look, self._shared.new_bell, timeout)


class FileLedger(FileLog):
    """`file:///FOLDER`, or `file:FOLDER` for one below the current folder; it is made when missing, in a folder that is there.

    Options: `retention` (seconds, or "none"), `partitions` (grows an existing ledger), `sync` ("urgent", "always", "never"),
    `segment` (bytes after which a file is full), `readonly` (to look on only; makes nothing), `create` (makes missing folders
    above it too: without it a mistyped path is an error, and not a second world in which one leads alone).
    """

    def __init__(self, address: Address, options: Options) -> None:
        retention = options.seconds("retention", DEFAULT_RETENTION, none=True)
        partitions = options.whole("partitions")
        sync = cast(Sync, options.choice("sync", ("urgent", "always", "never")))
        limit = options.whole("segment", least=1024) or SEGMENT
        readonly = options.flag("readonly")
        above = options.flag("create")
        options.finish()
        root = _root(address)
        if partitions is not None:
            check_partitions(partitions, address.shown)
        if readonly and above:
            raise ConfigError(f"{address.shown}: readonly makes nothing, and create asks to: leave one of them out")
        refuse_network(root)
        prepare(root, partitions or 1, readonly=readonly, above=above)
        url = f"file://{quote(root)}{options.query(leave_out=('create',))}"
        super().__init__(_Shared(root, url, retention, sync, limit, readonly=readonly), "", url)
        there = self._home.partitions()
        if grown_partitions(url, there, partitions) > there:
            if readonly:
                raise CapabilityError(f"{url} was opened read-only: open it without readonly to add partitions")
            self._home.grow(max(there, partitions or 0))

    def has_topic(self, name: str) -> bool:
        """Whether such a topic is there: asking makes none."""
        self._check()
        return Home(self._shared.root, name).there()

    def topic(self, name: str, partitions: int | None = None) -> FileTopic:
        check_name(name, "a topic's name")
        if partitions is not None:
            check_partitions(partitions, f"topic {name!r}")
        self._check()
        own, home = self._home, Home(self._shared.root, name)
        url = f"{self.url}#{quote(name, safe='')}"
        if not home.there():
            self._may_make(f"and has no topic {name!r}")
            own.look()
            home.mode = own.mode
            try:
                home.make_folder(home.folder)
                begin(home, partitions or PARTITIONS, own.mode)
            except OSError as error:
                raise unavailable(error, home.folder, "make a topic") from error
        there = home.partitions()
        if (wanted := grown_partitions(url, there, partitions)) > there:
            self._may_make(f"and its topic {name!r} has {there} partitions")
            home.grow(wanted)
        return FileTopic(self._shared, name, url)

    def _may_make(self, what: str) -> None:
        if self._shared.readonly:
            raise CapabilityError(f"{self.url} was opened read-only {what}: open it without readonly")

    def checks(self) -> list[tuple[str, str]]:
        """What `pares doctor` is to say of the files: (good, note, warning or problem, and the text)."""
        self._check()
        return [*checks(self._shared.root)]

    def close(self) -> None:
        if self._shared.lifetime.end():
            for each in list(self._shared.logs):
                FileLog.close(each)
            self._shared.ringer.close()
        self._closed = True


def _root(address: Address) -> str:
    if address.host:
        raise ConfigError(
            f"{address.shown} names a host: write three slashes for a folder by its whole path (file:///FOLDER), or none for "
            f"one below the current folder (file:{address.host}{address.path})"
        )
    if address.path.strip("/") == "":
        raise ConfigError(
            f"{address.shown} names no folder: write file:///FOLDER, or file:FOLDER below the current one"
        )
    if "\0" in address.path:
        raise ConfigError(f"{address.shown} has a NUL in its path: remove it")
    return os.path.realpath(address.path)
