"""What is put into a ledger's file and got out of it, within the caller's transaction or use of a connection.

Keys of topics stand in a table of their own, `keys`, which a file gets with its first key. So the layout stays what it was,
members of an earlier release go on using the same file, and a record without a key costs nothing.
"""

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, Final, TypeVar

from pares.ledger.base import MAX_READ_BYTES, Entry
from pares.ledger.local.stamp import NO_CLOCK
from pares.ledger.source import Record
from pares.ledger.sqlite.schema import MAX_OFFSET, SHIFT

R = TypeVar("R", Entry, Record)
_AT_ONCE: Final = 16
"""Rows that are fetched at once: of each more than one reads, and of the largest not much more than is wanted."""

_ENTRIES: Final = "SELECT id - ?, timestamp_ms, payload FROM entries WHERE id >= ? AND id <= ? ORDER BY id LIMIT ?"
"""Plain `?`: Python 3.12.0 to 3.12.3 warns of numbered ones (`?1`) that get a sequence, at every read."""
_STAMPS: Final = "SELECT id - ?, stopwatch_ns FROM stamps WHERE id >= ? AND id <= ? AND clock = ?"
_TRIM_STAMPS: Final = (
    "DELETE FROM stamps WHERE id IN (SELECT id FROM stamps WHERE id >= ? AND id < ? ORDER BY id LIMIT ?)"
)
"""From the lowest on: a release that knows no stamps may have trimmed before, and left those of what it trimmed."""
_KEYED: Final = (
    "SELECT entries.id - ?, timestamp_ms, key, payload FROM entries LEFT JOIN keys ON keys.id = entries.id "
    "WHERE entries.id >= ? AND entries.id <= ? ORDER BY entries.id LIMIT ?"
)
_KEYS: Final = "CREATE TABLE IF NOT EXISTS keys (id INTEGER PRIMARY KEY, key BLOB NOT NULL)"


def insert(connection: sqlite3.Connection, log: int, payloads: Sequence[bytes], began: int, clock: bytes) -> int:
    """Within a transaction: appends to this log, with the time at which that began, by the stopwatch of this name. The first
    offset."""
    (first,) = connection.execute("SELECT next FROM logs WHERE log = ?", (log,)).fetchone()
    key = (log << SHIFT) + first
    now = time.time_ns() // 1_000_000
    rows = [(key + i, now, payload) for i, payload in enumerate(payloads)]
    connection.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
    if clock != NO_CLOCK:
        stamps = [(key + i, clock, began) for i in range(len(payloads))]
        connection.executemany("INSERT OR REPLACE INTO stamps VALUES (?, ?, ?)", stamps)
    connection.execute("UPDATE logs SET next = ? WHERE log = ?", (first + len(payloads), log))
    return int(first)


def insert_keys(connection: sqlite3.Connection, log: int, first: int, keys: Sequence[bytes | None]) -> None:
    """Within the same transaction: the keys of what was appended."""
    rows = [((log << SHIFT) + first + i, key) for i, key in enumerate(keys) if key is not None]
    if rows:
        connection.execute(_KEYS)
        connection.executemany("INSERT OR REPLACE INTO keys VALUES (?, ?)", rows)


def delete(connection: sqlite3.Connection, log: int, first: int, upto: int, stamps: int) -> None:
    """Within a transaction: removes the entries of this log from the offset `first` to before `upto`, with their keys, and the
    lowest stamps below `upto`, at most so many."""
    key = log << SHIFT
    connection.execute("DELETE FROM entries WHERE id >= ? AND id < ?", (key + first, key + upto))
    connection.execute(_TRIM_STAMPS, (key, key + upto, stamps))
    if _has_keys(connection):
        connection.execute("DELETE FROM keys WHERE id >= ? AND id < ?", (key + first, key + upto))


def fetch(connection: sqlite3.Connection, log: int, offset: int, max_records: int) -> list[Entry]:
    """Entries of this log from `offset` on."""
    return _rows(connection, _ENTRIES, Entry._make, log, offset, max_records, MAX_READ_BYTES)


def fetch_keyed(
    connection: sqlite3.Connection, log: int, offset: int, max_records: int, max_bytes: int
) -> list[Record]:
    """The same with keys, and at most `max_bytes` of payloads, but at least one."""
    if not _has_keys(connection):
        entries = _rows(connection, _ENTRIES, Entry._make, log, offset, max_records, max_bytes)
        if not _has_keys(connection):  # nor had it when these were read
            return [Record(at, ms, None, payload) for at, ms, payload in entries]
    return _rows(connection, _KEYED, _record, log, offset, max_records, max_bytes)


def fetch_stamps(connection: sqlite3.Connection, log: int, first: int, last: int, clock: bytes) -> dict[int, int]:
    """By offset, from `first` to `last`: when its append began by the stopwatch of this name, where that is known."""
    key = log << SHIFT
    return dict(connection.execute(_STAMPS, (key, key + first, key + last, clock)).fetchall())


def _record(row: Iterable[Any]) -> Record:
    return Record(*row)


def _rows(
    connection: sqlite3.Connection,
    statement: str,
    make: Callable[[Iterable[Any]], R],
    log: int,
    offset: int,
    max_records: int,
    max_bytes: int,
) -> list[R]:
    if not 0 <= offset <= MAX_OFFSET:
        return []
    key = log << SHIFT
    cursor = connection.execute(statement, (key, key + offset, key + MAX_OFFSET, max_records))
    try:
        found: list[R] = []
        size = 0
        while rows := cursor.fetchmany(_AT_ONCE):
            some = [*map(make, rows)]
            size += sum([len(one.payload) for one in some])
            if size > max_bytes:
                return _within([*found, *some], max_bytes)
            found += some
        return found
    finally:
        # An open cursor is an open read transaction, and that keeps the write-ahead log from being used from its start.
        cursor.close()


def _within(found: list[R], max_bytes: int) -> list[R]:
    """The leading ones, of at most so many bytes together; at least one."""
    sizes = accumulate([len(one.payload) for one in found])
    return found[: max(1, sum([size <= max_bytes for size in sizes]))]


def _has_keys(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'keys'").fetchone() is not None
