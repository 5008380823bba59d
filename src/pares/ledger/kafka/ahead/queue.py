"""What was fetched of one partition ahead of its reader."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pares.ledger.source import Fetched, Record

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_EACH: Final = 64
"""Bytes that a record counts for besides its key and payload."""
_NEAR: Final = 4000
"""Offsets that are read through, and dropped, on the way to the place that a reader goes on from: the client has fetched most
of them already, and would drop them, too, and begin anew."""
_SOON: Final = 0.5
"""Seconds for which that may take."""
_offset: Final = attrgetter("offset")


class Queue:
    """What was fetched of one partition: everything from `at` to below `position`."""

    def __init__(self, offset: int) -> None:
        self.begin(offset)
        self.seek: int | None = None
        """Where it is to be read from, once it is somebody's turn."""
        self.used = time.monotonic()

    def begin(self, offset: int) -> None:
        """Nothing is here, and what comes next is at `offset` or behind it."""
        self.at = self.position = offset
        self.records: list[Record] = []
        self._ends: list[int] = []
        """Bytes of keys and payloads up to the end of each, counted from some record before."""
        self._before = 0
        """The same, up to the first one."""
        self.paused = False
        self.behind = 0.0
        """Since when its reader waits for a place beyond `position`."""
        self.error: KafkaError | None = None
        self.kept = 0.0
        """Until when no other reader may have it moved, or drop what comes. [of two that read at different places, in turn and
        without waiting, each does so before the other has got anything: neither ever gets on]"""
        self.deaf: tuple[int, float] | None = None
        """The position at which something was seen to be missing, and since when."""

    @property
    def bytes(self) -> int:
        """What its records count for."""
        return self._ends[-1] - self._before + _EACH * len(self.records) if self.records else 0

    def came(self, messages: Iterable[Message]) -> bool:
        """Takes what has come of its partition, in order. Whether any of it is for a reader, and was not only read through."""
        records = [
            Record(message.offset() or 0, message.timestamp()[1], message.key(), message.value() or b"")
            for message in messages
        ]
        new = max(self.position, self.at)
        self.position = max(self.position, records[-1].offset + 1)
        if records[0].offset < new:
            records = [record for record in records if record.offset >= new]
        if records:
            self._add(records)
        return bool(records)

    def _add(self, records: list[Record]) -> None:
        sizes = [
            len(record.payload) if record.key is None else len(record.payload) + len(record.key) for record in records
        ]
        sizes[0] += self._ends[-1] if self._ends else self._before
        self._ends += accumulate(sizes)
        self.records += records

    def skip(self, offset: int) -> None:
        """Forget what is below `offset`."""
        if self.records and self.records[0].offset < offset:
            self._drop(bisect_left(self.records, offset, key=_offset))
        self.at = offset

    def _drop(self, count: int) -> None:
        self._before = self._ends[count - 1]
        del self.records[:count], self._ends[:count]

    def reaches(self, offset: int, now: float) -> bool:
        """Whether what is here, or what comes soon, brings a reader there. What does not come soon may be beyond the end, which
        is for the broker to say, when the client goes there."""
        if offset <= self.position:
            self.behind = 0.0
        elif not self.behind:
            self.behind = now
        soon = offset <= self.position or (self.error is None and now < self.behind + _SOON)
        return self.at <= offset <= self.position + _NEAR and soon

    def take(self, max_records: int, max_bytes: int) -> Fetched:
        """What is here, within these limits; at least one record, if there is one."""
        most = bisect_right(self._ends, self._before + max_bytes, hi=min(max_records, len(self._ends)))
        found = tuple(self.records[: max(most, 1)])
        if found:
            self._drop(len(found))
        self.at = found[-1].offset + 1 if self.records else self.position
        return Fetched(found, self.at)
