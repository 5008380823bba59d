"""What consumers read from: one topic of users' records, on whatever ledger or service.

Groups coordinate by a `Log`, and consume a `Source`; the two need not be on one ledger. A source differs from a log where
consumers need something else: records have keys, a fetch passes over holes (`Fetched.next`), records are read ahead where a
round trip costs much, and many threads fetch different partitions at once. See docs/sources.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, runtime_checkable

import msgspec

from pares.core.errors import ConfigError, LedgerRewound


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record of a topic, in its place."""

    offset: int
    timestamp_ms: int
    """Wall-clock milliseconds by its writer, or by the service."""
    key: bytes | None
    payload: bytes


class Fetched(msgspec.Struct, frozen=True):
    """What a `fetch` has brought."""

    records: tuple[Record, ...]
    """In order; none if there was nothing to read in time."""
    next: int
    """The offset to read from next: behind the last record, and past holes, compacted gaps and aborted transactions. It may be
    above the offset that was asked for although there are no records; it is never below that."""


class Source(Protocol):
    """One topic, to be read from any offset. All methods are safe to call from several threads at once.

    After `close` every method but `close` raises `ClosedError`, in a forked child `ForkedError`.
    """

    @property
    def name(self) -> str:
        """The topic's name, as the source was asked for it."""
        ...

    @property
    def identity(self) -> str:
        """Which topic it is: another string once the topic is another one (deleted, and created anew under its name).

        On a service it may be a second old. Raises `LedgerUnavailable` if the topic is gone, or can't be asked for.
        """
        ...

    def partitions(self) -> int:
        """How many partitions there are, numbered from 0; it may grow. Raises `LedgerUnavailable`."""
        ...

    def start(self, partition: int) -> int:
        """The lowest offset that may still be read; `end` if there is none. Raises `ConfigError`, `LedgerUnavailable`."""
        ...

    def end(self, partition: int) -> int:
        """The offset behind the last record that may be read now. Records of a transaction that is still open count as not
        there. Raises `ConfigError`, `LedgerUnavailable`."""
        ...

    def ends(self, partitions: Collection[int]) -> dict[int, int]:
        """`end` of each of these partitions, by as few requests as the service takes for all of them.

        One that is not there, or can't be asked for now, is left out. Raises `LedgerUnavailable` if none can be asked for.
        """
        ...

    def changed(self, places: Mapping[int, int]) -> Collection[int]:
        """Of these partitions, each with the offset to read from, those of which a `fetch` that does not wait would bring
        something, get past a hole, or raise: all of them, as far as is known here, and perhaps some more.

        One look for all, for readers of many partitions, of which most have nothing new at most times. Raises nothing that a
        `fetch` of one of them would not raise.
        """
        ...

    def fetch(self, partition: int, offset: int, *, max_records: int, max_bytes: int, timeout: float) -> Fetched:
        """Records of one partition from `offset` on, at most `max_records`, and at most `max_bytes` of keys and payloads
        together; the first one is returned however large it is.

        Waits up to `timeout` seconds for the first one, and then for no other. Raises `LedgerGap` if retention has overtaken
        `offset`: its `lost` is the range of offsets that is gone. `LedgerRewound` if `offset` is beyond the end, and if the
        topic is another one than `identity` has last told of, until `identity` is asked again: so no reader goes on in a topic
        that it does not know of (docs/sources.md says how soon that is seen on which service). `ConfigError` for a partition
        that is not there, `LedgerUnavailable` if the ledger is out of reach, or the topic is gone.
        """
        ...

    def close(self) -> None:
        """Give everything back. May be called twice, by any thread, also while others wait in `fetch`."""
        ...


@runtime_checkable
class HasSources(Protocol):
    """A ledger whose topics, or whose service's, can be consumed."""

    def source(self, topic: str) -> Source:
        """The source of this topic, for the caller to close. It is a handle of its own, and outlives the ledger.

        Raises `ConfigError` if there is no such topic, `LedgerUnavailable` if the ledger is out of reach.
        """
        ...


class GroupOffsets(Protocol):
    """Offsets that a service keeps for a group of consumers of its own, for one topic: what its users' dashboards show."""

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Write the next offset of each of these partitions, up or down. Returns when the service has them. Raises
        `LedgerUnavailable` if it is out of reach, or does not take them."""
        ...

    def close(self) -> None:
        """Give everything back. May be called twice."""
        ...


@runtime_checkable
class HasGroupOffsets(Protocol):
    """A source on a service that keeps offsets for groups of consumers."""

    def group_offsets(self, group: str) -> GroupOffsets:
        """Those of the group of this name, which need not be there yet; for the caller to close. Raises `ConfigError` for what
        is no name."""
        ...


def check_fetch(offset: int, max_records: int, max_bytes: int) -> None:
    """Raise unless this asks `fetch` for something."""
    if offset < 0:
        raise ConfigError(f"fetch was asked for offset {offset}: the first one is 0")
    if max_records < 1 or max_bytes < 1:
        raise ConfigError(
            f"fetch was asked for max_records={max_records}, max_bytes={max_bytes}: use at least 1 of each"
        )


def another(where: str) -> LedgerRewound:
    """The error for a topic that is another one than its reader knows of."""
    return LedgerRewound(
        f"{where} is another topic than it was, deleted and created anew: ask the source for its identity, and start over"
    )
