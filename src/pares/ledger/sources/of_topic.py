"""The source of a topic that a ledger keeps: memory, file, SQLite.

A read there costs microseconds, so there is no thread. What one read has brought beyond what was asked for is kept for the
fetch that goes on behind it: on the file ledger an append of many is one frame, and would be taken apart again for each part.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Final

from pares.ledger.base import Ledger
from pares.ledger.source import Fetched, Record, another, check_fetch
from pares.ledger.topics.keyed import Topic

_RECORDS: Final = 2000
_BYTES: Final = 1 << 20
"""Read at once, where less was asked for."""
_KEPT: Final = 32
"""Partitions of which something is kept."""


class TopicSource:
    """See `Source`. It has the handle of the topic, and gives it back."""

    def __init__(self, topic: Topic, name: str) -> None:
        self._topic = topic
        self._name = name
        self._told = topic.identity()
        self._ledger: Ledger | None = None
        self._lock = threading.Lock()
        self._ahead: OrderedDict[int, tuple[list[Record], int]] = OrderedDict()
        """By partition: records that were read, and how many of them were returned already."""

    def close_too(self, ledger: Ledger) -> None:
        """Have this ledger closed with the source."""
        self._ledger = ledger

    @property
    def name(self) -> str:
        return self._name

    @property
    def identity(self) -> str:
        identity = self._topic.identity()
        if identity != self._told:
            with self._lock:
                self._told = identity
                self._ahead.clear()
        return identity

    def partitions(self) -> int:
        return self._topic.partitions

    def start(self, partition: int) -> int:
        return self._topic.start(partition)

    def end(self, partition: int) -> int:
        return self._topic.end(partition)

    def ends(self, partitions: Collection[int]) -> dict[int, int]:
        there, end = self._topic.partitions, self._topic.end
        return {partition: end(partition) for partition in partitions if 0 <= partition < there}

    def changed(self, places: Mapping[int, int]) -> Collection[int]:
        if self._topic.identity() != self._told or max(places, default=0) >= self._topic.partitions:
            return places  # each fetch says what the matter is
        end = self._topic.end
        return [partition for partition, offset in places.items() if end(partition) != offset]

    def fetch(self, partition: int, offset: int, *, max_records: int, max_bytes: int, timeout: float) -> Fetched:
        check_fetch(offset, max_records, max_bytes)
        told = self._told
        self._check(told)
        kept = self._take(partition, offset, max_records, max_bytes)
        if kept:
            return Fetched(kept, kept[-1].offset + 1)
        records = self._topic.records(
            offset, partition, max(max_records, _RECORDS), max(max_bytes, _BYTES), max(0.0, timeout)
        )
        self._check(told)  # it may have been replaced while this waited
        if not records:
            return self._nothing(partition, offset)
        found = first_of(records, 0, max_records, max_bytes)
        if len(found) < len(records):
            with self._lock:
                if self._told == told:
                    self._ahead[partition] = records, len(found)
                    self._ahead.move_to_end(partition)
                    if len(self._ahead) > _KEPT:
                        self._ahead.popitem(last=False)
        return Fetched(found, found[-1].offset + 1)

    def _check(self, told: str) -> None:
        if self._topic.identity() != told:
            raise another(self._topic.url)

    def _take(self, partition: int, offset: int, max_records: int, max_bytes: int) -> tuple[Record, ...]:
        """What was read already, for a fetch that goes on where the last one ended; nothing for any other."""
        with self._lock:
            records, at = self._ahead.pop(partition, ([], 0))
            if not records or records[at - 1].offset + 1 != offset:
                return ()
            found = first_of(records, at, max_records, max_bytes)
            if at + len(found) < len(records):
                self._ahead[partition] = records, at + len(found)
            return found

    def _nothing(self, partition: int, offset: int) -> Fetched:
        """There was nothing to read: go on past a hole, if one reaches to the end."""
        end = self._topic.end(partition)
        if end > offset and not self._topic.records(offset, partition, 1):
            return Fetched((), end)  # what came after that question is not below the end
        return Fetched((), offset)

    def close(self) -> None:
        self._topic.close()
        self._ahead.clear()
        if self._ledger is not None:
            self._ledger.close()


def first_of(records: list[Record], at: int, max_records: int, max_bytes: int) -> tuple[Record, ...]:
    """The records from place `at` on that a fetch with these limits may return: at least one."""
    size = 0
    for count, record in enumerate(islice(records, at, at + max_records)):
        size += len(record.payload) + (len(record.key) if record.key is not None else 0)
        if size > max_bytes and count:
            return tuple(records[at : at + count])
    return tuple(records[at : at + max_records])
