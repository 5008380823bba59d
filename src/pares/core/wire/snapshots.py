"""What a snapshot is, and how it is put together from its parts (R10).

A snapshot carries the world before `upto`, in parts that share one id; an incomplete set is ignored. Which reader may begin
with one, and what it is compared with, is `reader`'s; which member writes one, and when, is `snapshotting`'s.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pares.core.wire.records import Snapshot

KEPT_SETS: Final = 4
"""Incomplete snapshots that are kept at most."""
KEPT_TEXT: Final = 64 * 1024 * 1024
"""Characters of incomplete snapshots that are kept at most."""


class Whole(Struct, frozen=True):
    """A snapshot of which all parts have been read."""

    author: str
    id: str
    upto: int
    last: int
    """The offset of its last part."""
    parts: int
    text: str


class Taken(Struct, frozen=True):
    """A world as it was at a place, kept to be written as a snapshot; `asked`: a joiner that is adrift waits for it."""

    upto: int
    text: str
    asked: bool


class Parts:
    """Puts the parts of snapshots together; forgets the oldest incomplete set when there are too many."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, str], dict[int, Snapshot]] = {}
        self._size = 0

    def add(self, offset: int, record: Snapshot) -> Whole | None:
        """The snapshot, if this record completes it."""
        key = (record.m, record.id)
        parts = self._sets.get(key, {})
        first = next(iter(parts.values()), record)
        if (
            record.upto > offset
            or (first.upto, first.parts) != (record.upto, record.parts)
            or record.part >= first.parts
        ):
            return None
        before = parts.get(record.part)
        self._size += len(record.world) - (0 if before is None else len(before.world))
        parts[record.part] = record
        self._sets[key] = parts
        while len(self._sets) > KEPT_SETS or (self._size > KEPT_TEXT and len(self._sets) > 1):
            self._drop(next(other for other in self._sets if other != key))
        if len(parts) < record.parts:
            return None
        self._drop(key)
        text = "".join(parts[part].world for part in range(record.parts))
        return Whole(record.m, record.id, record.upto, offset, record.parts, text)

    def waiting(self) -> dict[tuple[str, str], list[int]]:
        """Which parts of which sets are there, the oldest set first."""
        return {key: sorted(parts) for key, parts in self._sets.items()}

    @property
    def size(self) -> int:
        """Characters of incomplete snapshots that are kept."""
        return self._size

    def _drop(self, key: tuple[str, str]) -> None:
        self._size -= sum(len(part.world) for part in self._sets.pop(key).values())


def begin_at(snapshot: Whole) -> int:
    """Where to fold from with this snapshot: `upto`, never the snapshot's own place."""
    return snapshot.upto
