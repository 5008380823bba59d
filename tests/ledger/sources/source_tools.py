"""What tests of any source need."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from log_tools import HANG

from pares.ledger import Fetched, Record, Source

MANY: Final = 10_000
LARGE: Final = 8 << 20


def fetched(
    source: Source,
    offset: int = 0,
    partition: int = 0,
    *,
    max_records: int = MANY,
    max_bytes: int = LARGE,
    timeout: float = 0.0,
) -> Fetched:
    return source.fetch(partition, offset, max_records=max_records, max_bytes=max_bytes, timeout=timeout)


def some(source: Source, offset: int = 0, partition: int = 0, **limits: int) -> Fetched:
    """A fetch of what is there, however long it takes to come."""
    end = time.monotonic() + HANG
    while True:
        found = fetched(source, offset, partition, timeout=1.0, **limits)
        if found.records:
            return found
        offset = found.next
        assert time.monotonic() < end, "nothing came"


def read_to(source: Source, count: int, offset: int = 0, partition: int = 0, **limits: int) -> tuple[list[Record], int]:
    """So many records, and the offset to go on from."""
    found: list[Record] = []
    while len(found) < count:
        more = some(source, offset, partition, **limits)
        found += more.records
        offset = more.next
    return found, offset


def payloads(source: Source, count: int, offset: int = 0, partition: int = 0) -> list[bytes]:
    return [record.payload for record in read_to(source, count, offset, partition)[0]]


def comes(done: Callable[[], bool]) -> None:
    """Wait for what takes a moment to be seen."""
    end = time.monotonic() + HANG
    while not done():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.02)
