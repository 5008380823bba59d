"""What a consumer reads: one topic, in partitions, whatever service keeps it."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class Record(Struct, frozen=True):
    """One record of a topic. `timestamp_ms`: for people."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    payload: bytes


class Fetched(Struct, frozen=True):
    """What one fetch has found."""

    records: tuple[Record, ...]
    next: int
    """The offset to fetch from next: past holes, compacted gaps and aborted transactions."""


class Source(Protocol):
    """One topic. Methods may be called from several threads, and raise `LedgerUnavailable` when the service does not answer."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str:
        """Changes when the topic is another one: deleted, and made anew."""
        ...

    def partitions(self) -> int:
        """How many there are; may grow."""
        ...

    def start(self, partition: int) -> int:
        """The first offset that is still there."""
        ...

    def end(self, partition: int) -> int:
        """The offset that the next record will have."""
        ...

    def fetch(self, partition: int, offset: int, *, max_records: int, max_bytes: int, timeout: float) -> Fetched:
        """The records from `offset` on, one at least if there is any; waits up to `timeout` seconds for the first. Raises
        `LedgerGap` if retention has overtaken `offset`."""
        ...

    def close(self) -> None: ...
