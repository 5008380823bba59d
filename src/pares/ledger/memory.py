"""A ledger inside one process, for tests and for trying things: `memory://NAME`.

Handles with one name share one log, which lives as long as the process (or until `drop`), so that a member that is
closed and opened again finds what it wrote. It keeps every promise of `Log`, and can be made to fail as real ledgers do:
`MemoryLedger.cut`.
"""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

from pares.core.errors import LedgerUnavailable
from pares.ledger import base
from pares.ledger.base import Bell, Capabilities, Entry
from pares.ledger.handle_state import Lifetime
from pares.ledger.source import Record
from pares.ledger.topics.keyed import PARTITIONS, KeyedAppends
from pares.ledger.weak_set import WeakBag

from .address import Address, Options
from .bell import LISTEN, PipeBell
from .local.anchor import still_there
from .local.stamp import SHARED, not_ahead, stopwatch


@dataclass(slots=True)
class _Partition:
    first: int = 0
    entries: list[Entry] = field(default_factory=list[Entry])
    keys: dict[int, bytes] = field(default_factory=dict[int, bytes])
    """By offset, of the records that have one."""
    stamps: list[int] = field(default_factory=list[int])
    """Of each entry, when its append began."""

    @property
    def next(self) -> int:
        return self.first + len(self.entries)


class _Space:
    """What all handles with one name share. `changed` guards every field."""

    def __init__(self) -> None:
        self.id = os.urandom(8).hex()
        self.changed = threading.Condition()
        self.streams: dict[str, list[_Partition]] = {"": [_Partition()]}
        self.bells: WeakBag[PipeBell] = WeakBag()
        self.appends: Literal["fine", "refused", "unacknowledged"] = "fine"
        self.readable = True


_spaces: dict[str, _Space] = {}
_spaces_lock = threading.Lock()


def _space(name: str) -> _Space:
    with _spaces_lock:
        return _spaces.setdefault(name, _Space())


def drop(name: str) -> None:
    """Delete the log of `memory://NAME`. Handles that are open go on with a new, empty one of another identity."""
    with _spaces_lock:
        space = _spaces.pop(name, None)
    if space is not None:
        with space.changed:
            space.changed.notify_all()
            for bell in space.bells:
                bell.ring()


def _after_fork() -> None:
    """The child begins with nothing: what it inherited may be half changed, and is no longer shared with anybody."""
    global _spaces_lock
    _spaces_lock = threading.Lock()
    _spaces.clear()


os.register_at_fork(after_in_child=_after_fork)


class MemoryLog:
    """One stream of a space: the ledger's own log, or a topic."""

    kind = "memory"
    capabilities = Capabilities(
        scope="process", one_bell=True, topics=True, stamps=SHARED, anchors=True, whole_reads=True
    )
    place: Path | None = None

    def __init__(self, name: str, stream: str, url: str, retention: float | None, lifetime: Lifetime) -> None:
        self._name = name
        self._stream = stream
        self._lifetime = lifetime
        self._closed = False
        self.url = url
        self.retention = retention

    @property
    def partitions(self) -> int:
        space = self._open()
        with space.changed:
            return len(self._partitions(space))

    def append(self, payload: bytes, partition: int = 0) -> int:
        base.check_payload(payload)
        return self._append([payload], partition, urgent=True)[0]

    def append_many(self, payloads: Sequence[bytes], partition: int = 0, *, urgent: bool = True) -> list[int]:
        base.check_payloads(payloads)
        return self._append(payloads, partition, urgent=urgent)

    def _append(
        self, payloads: Sequence[bytes], partition: int, keys: Sequence[bytes | None] | None = None, *, urgent: bool
    ) -> list[int]:
        began = stopwatch()
        space = self._open()
        with space.changed:
            log = self._partition(space, partition)
            if space.appends == "refused":
                raise LedgerUnavailable(f"{self.url} refuses appends: it was cut; heal() ends that")
            first = log.next
            now = time.time_ns() // 1_000_000
            log.entries.extend(Entry(first + i, now, payload) for i, payload in enumerate(payloads))
            log.stamps.extend([began] * len(payloads))
            if keys is not None:
                log.keys.update((first + i, key) for i, key in enumerate(keys) if key is not None)
            if payloads and urgent:
                space.changed.notify_all()
                for bell in space.bells:
                    bell.ring()
            if space.appends == "unacknowledged":
                raise LedgerUnavailable(f"{self.url} acknowledges nothing: it was cut; heal() ends that", unknown=True)
            return list(range(first, log.next))

    def read(self, offset: int, partition: int = 0, max_records: int = 1000, timeout: float = 0.0) -> list[Entry]:
        return self._find(offset, partition, max_records, timeout)[0]

    def read_stamped(
        self, offset: int, partition: int = 0, max_records: int = 1000
    ) -> tuple[list[Entry], list[int | None]]:
        """See `Stamped`: writer and reader are in one process, so every entry has its stamp."""
        entries, stamps, _ = self._find(offset, partition, max_records, 0.0)
        return entries, not_ahead(stamps)

    def has(self, offset: int, payload: bytes, partition: int = 0) -> bool:
        """See `Anchored`."""
        return still_there(self, offset, payload, partition)

    def _find(
        self, offset: int, partition: int, max_records: int, timeout: float
    ) -> tuple[list[Entry], list[int | None], list[bytes | None]]:
        """What `read` returns, the stamp of each, and its key; no keys at all where no record of the partition has one."""
        base.check_records(max_records)
        deadline = time.monotonic() + timeout
        while True:
            space = self._open()
            with space.changed:
                if self._open() is not space:
                    continue  # looked at under the lock, so that no `close` or `drop` rings before the wait
                self._readable(space)
                log = self._partition(space, partition)
                if offset < log.first:
                    raise base.gap(self.url, partition, offset, log.first)
                if offset > log.next:
                    raise base.rewound(self.url, partition, offset, log.next)
                if offset < log.next:
                    at = offset - log.first
                    found = base.limited(log.entries[at : at + max_records], max_records)
                    keys = [log.keys.get(entry.offset) for entry in found] if log.keys else []
                    return found, [*log.stamps[at : at + len(found)]], keys
                left = deadline - time.monotonic()
                if left <= 0:
                    return [], [], []
                space.changed.wait(min(left, LISTEN))  # what is not urgent wakes nobody

    def start(self, partition: int = 0) -> int:
        space = self._open()
        with space.changed:
            self._readable(space)
            return self._partition(space, partition).first

    def end(self, partition: int = 0) -> int:
        space = self._open()
        with space.changed:
            self._readable(space)
            return self._partition(space, partition).next

    def trim(self, before: int, partition: int = 0) -> None:
        space = self._open()
        with space.changed:
            if space.appends != "fine":
                raise LedgerUnavailable(f"{self.url} refuses to trim: it was cut; heal() ends that")
            log = self._partition(space, partition)
            if before > log.next:
                raise base.rewound(self.url, partition, before, log.next)
            if before > log.first:
                for offset in range(log.first, before) if log.keys else ():
                    log.keys.pop(offset, None)
                del log.entries[: before - log.first]
                del log.stamps[: before - log.first]
                log.first = before

    def identity(self) -> str:
        space = self._open()
        with space.changed:
            self._readable(space)
            return f"memory:{space.id}" + (f"/{self._stream}" if self._stream else "")

    def bell(self, partition: int = 0) -> Bell | None:
        space = self._open()
        bell = PipeBell()
        with space.changed:
            space.bells.add(bell)
        return bell

    def close(self) -> None:
        self._closed = True
        if not self._lifetime.forked:
            with _spaces_lock:
                space = _spaces.get(self._name)
            if space is not None:
                with space.changed:
                    space.changed.notify_all()

    def _open(self) -> _Space:
        self._lifetime.check()
        if self._closed:
            raise Lifetime.closed_error(self.url)
        return _space(self._name)

    def _readable(self, space: _Space) -> None:
        if not space.readable:
            raise LedgerUnavailable(f"{self.url} refuses reads: it was cut; heal() ends that")

    def _partitions(self, space: _Space) -> list[_Partition]:
        return space.streams.setdefault(self._stream, [_Partition()])

    def _partition(self, space: _Space, partition: int) -> _Partition:
        partitions = self._partitions(space)
        if not 0 <= partition < len(partitions):
            raise base.no_such_partition(partition, len(partitions), self.url)
        return partitions[partition]


class MemoryTopic(KeyedAppends, MemoryLog):
    """A topic: a log with keys."""

    def records(
        self, offset: int, partition: int = 0, max_records: int = 1000, max_bytes: int = 1 << 20, timeout: float = 0.0
    ) -> list[Record]:
        entries, _, keys = self._find(offset, partition, max_records, timeout)
        found: list[Record] = []
        size = 0
        for (at, ms, payload), key in zip(entries, keys or repeat(None), strict=False):
            size += len(payload)
            if size > max_bytes and found:
                break
            found.append(Record(at, ms, key, payload))
        return found

    def identity(self) -> str:
        space = self._open()
        with space.changed:
            self._partitions(space)  # raises if it is gone
        return super().identity()

    def _partitions(self, space: _Space) -> list[_Partition]:
        there = space.streams.get(self._stream)
        if there is None:
            raise LedgerUnavailable(f"{self.url} is gone: the ledger was begun anew; ask it for the topic again")
        return there


class MemoryLedger(MemoryLog):
    """`memory://NAME`. Options: `retention` (seconds, or "none"), `partitions`."""

    def __init__(self, address: Address, options: Options) -> None:
        name = unquote(address.host) + address.path
        base.check_name(name, f"the name in {address.shown}")
        retention = options.seconds("retention", base.DEFAULT_RETENTION, none=True)
        asked = options.whole("partitions")
        options.finish()
        url = f"memory://{quote(name, safe='')}{options.query()}"
        super().__init__(name, "", url, retention, Lifetime(url))
        space = _space(name)
        with space.changed:
            there = self._partitions(space)
            wanted = base.grown_partitions(self.url, len(there), asked)
            there.extend(_Partition() for _ in range(wanted - len(there)))

    def has_topic(self, name: str) -> bool:
        """Whether such a topic is there: asking makes none."""
        return name in self._open().streams

    def topic(self, name: str, partitions: int | None = None) -> MemoryTopic:
        base.check_name(name, "a topic's name")
        if partitions is not None:
            base.check_partitions(partitions, f"topic {name!r}")
        space = self._open()
        url = f"{self.url}#{quote(name, safe='')}"
        with space.changed:
            there = space.streams.setdefault(name, [])
            wanted = base.grown_partitions(url, len(there), partitions) if there else partitions
            there.extend(_Partition() for _ in range((wanted or PARTITIONS) - len(there)))
        return MemoryTopic(self._name, name, url, self.retention, self._lifetime)

    def close(self) -> None:
        self._lifetime.end()
        super().close()

    def cut(self, appends: Literal["fine", "refused", "unacknowledged"] = "refused", *, reads: bool = True) -> None:
        """Make the ledger fail for all handles with this name, until `heal`.

        Appends: "refused" (certainly not done), or "unacknowledged" (done, but the sender is told that the outcome is
        unknown). `reads=True` makes reads fail too.
        """
        space = self._open()
        with space.changed:
            space.appends, space.readable = appends, not reads
            space.changed.notify_all()

    def heal(self) -> None:
        """End what `cut` began."""
        space = self._open()
        with space.changed:
            space.appends, space.readable = "fine", True
            space.changed.notify_all()
