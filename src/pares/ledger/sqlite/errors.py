"""What SQLite's errors mean for an append: whether it happened, whether it still may, and what to do.

A transaction in the write-ahead log exists once its last frame is in the file and in the shared index. Before COMMIT
nothing of it can ever become visible. If COMMIT itself fails:

- the disk was full, or a write failed: the last frame is not there whole, its checksum can't match, and the next writer
  overwrites it. It did not happen and never will.
- the frames were written and the *sync* or the index update failed: nobody sees it now, but if all processes die before
  the next writer comes, recovery reads the frames and finds them good. The outcome is unknown.

SQLite rolls the transaction back in both cases, so nothing is ever half visible.
"""

import sqlite3
from typing import Final

from pares.core.errors import LedgerUnavailable

# PROTOCOL: a lock in the shared index was held for some ten seconds, which SQLite itself waits for; by a process that is frozen
# at a place where it has it for a moment.
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# Errors of COMMIT after which the transaction's last frame is surely not in the file.
_NEVER: Final = (*_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY)


def code(error: sqlite3.Error) -> int:
    """SQLite's extended error code; 0 for errors that Python's module raised by itself."""
    return int(getattr(error, "sqlite_errorcode", 0))


def primary(error: sqlite3.Error) -> int:
    """The error code without its extension."""
    return code(error) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """True if somebody else holds the lock: nothing is wrong, it may work a moment later."""
    return primary(error) in _BUSY


def spoils(error: sqlite3.Error) -> bool:
    """True if the connection should not be used any more after this error."""
    return primary(error) not in (*_BUSY, sqlite3.SQLITE_FULL)


def unavailable(error: sqlite3.Error, path: str, doing: str, *, at_commit: bool = False) -> LedgerUnavailable:
    """The ledger's error for SQLite's. `at_commit`: COMMIT raised it."""
    unknown = at_commit and not (primary(error) in _NEVER or code(error) == sqlite3.SQLITE_IOERR_WRITE)
    outcome = "; whether it happened is unknown" if unknown else ""
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return LedgerUnavailable(f"{path}: could not {doing}{outcome}: {_advice(error)} ({name}: {error})", unknown=unknown)


def _advice(error: sqlite3.Error) -> str:
    kind = primary(error)
    if kind in _BUSY:
        return "another process holds the write lock, and may be frozen; try again, or look for a stopped process"
    if kind == sqlite3.SQLITE_FULL:
        return "the disk, or the quota, is full; it goes on once there is room"
    if kind == sqlite3.SQLITE_READONLY:
        return "the file or its folder can't be written; check their permissions and the mount"
    if kind == sqlite3.SQLITE_IOERR:
        return "reading or writing failed; check the disk, and the limits on file size"
    if kind == sqlite3.SQLITE_CANTOPEN:
        return "the file or one of its -wal and -shm files can't be opened; check permissions and open file limits"
    if kind in _DAMAGED:
        return "the file is damaged; stop everybody who uses it, then put a new one in its place"
    return "SQLite refused"
