"""The file of a SQLite ledger: how it is laid out, made, and told from a file that is somebody else's.

Layout. `entries` holds the payloads of all logs, keyed by (number of the log << 40) + offset: one B-tree, in which the
newest entries of a log are neighbours. `logs` has a row per partition of each topic (the ledger's own log is the topic
with the empty name): `first` is the lowest offset left, `next` the one to be given out. `next` lives in a row, and not in
the highest entry, so that trimming everything can't make an offset be given out twice.

`stamps` holds, under the key of an entry, when its append began, and by which stopwatch. It is a table of its own, and not a
column of `entries`, because release 0.1 inserts entries without naming columns: so they go on with a database that has
it, and a database that has none gets it from the first writer that knows it. An entry without a stamp is as good as any other.

Making. A database that several processes begin at once, or whose maker is killed half way, must not be seen half made.
So it is built whole under another name, brought to the disk, and then linked to its place, by one process at a time.

Telling. Before SQLite is let near an existing file, its header is read through a connection that takes no locks and
writes nothing (`immutable`). Reading it with open() and close() would be simpler and wrong: closing *any* descriptor of
a file drops all POSIX locks that the process has on it, those of its SQLite connections included.
"""

import errno
import fcntl
import os
import sqlite3
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import quote

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger.bell import make
from pares.ledger.sqlite.errors import primary, unavailable

APPLICATION_ID: Final = 0x50415245
"""Marks a SQLite database as a pares ledger: "PARE"."""

VERSION: Final = 1
"""The newest layout that this code reads and writes; kept in `user_version`."""

SHIFT: Final = 40
"""An entry's key is (log << SHIFT) + offset: 10^12 offsets in each of 8 million partitions."""

MAX_OFFSET: Final = (1 << SHIFT) - 1

_SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE logs (
    log INTEGER PRIMARY KEY,
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    first INTEGER NOT NULL DEFAULT 0,
    next INTEGER NOT NULL DEFAULT 0,
    UNIQUE (topic, partition)
);
CREATE TABLE entries (id INTEGER PRIMARY KEY, timestamp_ms INTEGER NOT NULL, payload BLOB NOT NULL);
"""

STAMPS: Final = """
CREATE TABLE IF NOT EXISTS stamps (id INTEGER PRIMARY KEY, clock BLOB NOT NULL, stopwatch_ns INTEGER NOT NULL)
"""

_HEADER_BYTES: Final = 100
_CREATION_PATIENCE: Final = 60.0
"""Seconds for which a maker may hold up the others; only one that stands still, or waits for its disk, takes longer than a few
milliseconds."""
_CHECKPOINT_PATIENCE: Final = 2.0
_PAUSE: Final = 0.005
_PASSING: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


_UNLOCKABLE: Final = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.EBADF)


def connect(path: str, mode: str) -> sqlite3.Connection:
    """A connection that begins no transactions by itself and doesn't wait for locks; who shares it must lock it."""
    return sqlite3.connect(
        f"file:{quote(path)}?{mode}",
        uri=True,
        timeout=0.0,
        isolation_level=None,
        check_same_thread=False,
    )


def inspect(path: str) -> None:
    """Raise unless the file at `path`, which must be there, is a ledger that this version can use. Writes nothing."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "no regular file"
        raise ConfigError(f"{path} is {what}, so it can't be a ledger: name a file")
    if 0 < found.st_size < _HEADER_BYTES:
        raise _no_database(path)
    if found.st_size == 0:
        raise ConfigError(f"{path} is an empty file, not a ledger: remove it, and the ledger is made in its place")
    if not _may(path, os.R_OK):
        raise ConfigError(f"{path} can't be read: give this user the permission, or use another file")
    application, version = _header(path)
    if application != APPLICATION_ID:
        raise ConfigError(
            f"{path} is a SQLite database, but no pares ledger (its application_id is {application:#x}, "
            f"not {APPLICATION_ID:#x}); it was left as it is: use another file"
        )
    if version > VERSION:
        raise CapabilityError(
            f"{path} is a ledger of layout {version}, made by a newer pares; this one knows layouts up to {VERSION}: "
            "upgrade pares in this process"
        )


def _no_database(path: str) -> ConfigError:
    return ConfigError(f"{path} is no SQLite database; it was left as it is: use another file")


def _header(path: str) -> tuple[int, int]:
    """The application and the layout that the file says it is of.

    A reader that takes no locks may look in the middle of a checkpoint, which writes the first page before those that it
    counts: then the file is shorter than it says, and looks damaged. So it is looked at again, for as long as that may take.
    """
    until = time.monotonic() + _CHECKPOINT_PATIENCE
    while True:
        try:
            return _header_now(path)
        except sqlite3.Error as error:
            if primary(error) == sqlite3.SQLITE_NOTADB:
                raise _no_database(path) from error
            if primary(error) != sqlite3.SQLITE_CORRUPT or time.monotonic() > until:
                raise unavailable(error, path, "read its header") from error
        time.sleep(_PAUSE)


def _header_now(path: str) -> tuple[int, int]:
    connection = connect(path, "mode=ro&immutable=1")
    try:
        application = int(connection.execute("PRAGMA application_id").fetchone()[0])
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    finally:
        connection.close()
    return application, version


def check_writable(path: str) -> None:
    """Raise unless this process may write the file at `path`, if it is there, and make files beside it."""
    folder = os.path.dirname(path)
    if os.path.exists(path) and not _may(path, os.W_OK):
        raise ConfigError(
            f"{path} can't be written by this process: give this user the permission, "
            "or open it with readonly=1 to look on only"
        )
    if os.path.isdir(folder) and not _may(folder, os.W_OK | os.X_OK):
        raise ConfigError(
            f"the folder {folder} can't be written by this process, and SQLite keeps files beside {path}: "
            "give this user the permission, or use a ledger in another folder"
        )


def _may(path: str, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def create(path: str, partitions: int, *, folders: bool = False) -> None:
    """Make an empty ledger at `path` unless something is there already. Readable by this user only. With `folders` the folders
    that it stands in are made too."""
    folder = os.path.dirname(path)
    if folders:
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"the folder {folder} for {path} can't be made: {error.strerror}; use another") from error
    elif not os.path.isdir(folder):
        raise ConfigError(
            f"there is no folder {folder} for the ledger {path}: check the path; if a new ledger is to begin there, make the "
            "folder, or ask for it by create=1 (on the command line: --create)"
        )
    check_writable(path)
    try:
        with _one_at_a_time(path):
            if not os.path.lexists(path):
                _build(path, partitions)
    except sqlite3.Error as error:
        raise unavailable(error, path, "make the ledger") from error
    except OSError as error:
        if error.errno in _PASSING:
            raise LedgerUnavailable(
                f"{path} can't be made now: {error.strerror}; try again once that is over"
            ) from error
        raise ConfigError(f"{path} can't be made: {error.strerror} ({error.filename}); use another path") from error


def _build(path: str, partitions: int) -> None:
    new = f"{path}-new"
    # What a deleted ledger left behind would be taken for this one's: its index in -shm by those who still have it open.
    for leftover in (new, f"{new}-wal", f"{new}-shm", f"{new}-journal", f"{path}-wal", f"{path}-shm"):
        try:
            os.unlink(leftover)
        except FileNotFoundError:
            pass
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    connection = connect(new, "mode=rw")
    try:
        # Nobody has seen the file yet, so that one sync at the end does. SQLite's own are thirty, which on a busy disk keep
        # all others waiting for seconds.
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={VERSION}")
        connection.executescript(_SCHEMA)
        connection.execute(STAMPS)
        connection.execute("BEGIN")
        connection.execute("INSERT INTO meta VALUES ('id', ?)", (os.urandom(8).hex(),))
        connection.execute("INSERT INTO meta VALUES ('created_ms', ?)", (str(time.time_ns() // 1_000_000),))
        add_partitions(connection, "", 0, partitions)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=WAL")
    finally:
        connection.close()
    _sync(new)
    try:
        os.link(new, path)
        os.unlink(new)
    except PermissionError:  # a file system without hard links
        os.rename(new, path)
    _sync(os.path.dirname(path), os.O_DIRECTORY)


def add_partitions(connection: sqlite3.Connection, topic: str, there: int, wanted: int) -> None:
    """Add the rows that `topic` lacks; within the caller's transaction."""
    rows = [(topic, partition) for partition in range(there, wanted)]
    connection.executemany("INSERT INTO logs (topic, partition) VALUES (?, ?)", rows)


def _sync(path: str, flags: int = 0) -> None:
    """A folder, or a file that no connection has open: closing it would drop SQLite's locks."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _one_at_a_time(path: str) -> Generator[None]:
    """Hold a lock that all makers of `path` take: an flock on its bell, which outlives the database."""
    with suppress(OSError):
        make(f"{path}-bell")  # where there are no named pipes, a file serves
    try:
        with _alone(path, f"{path}-bell"):
            yield
            return
    except _NoLock:
        pass
    # Where a pipe can't be locked (macOS), nobody can lock it: so all meet at a file.
    with _alone(path, f"{path}-making"):
        yield


class _NoLock(Exception):
    """This sort of file takes no lock here."""


@contextmanager
def _alone(path: str, lock: str) -> Generator[None]:
    descriptor = os.open(lock, os.O_RDWR | os.O_NONBLOCK | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + _CREATION_PATIENCE
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise LedgerUnavailable(
                        f"{path} is being made by another process for over {_CREATION_PATIENCE:g} s: "
                        "look for a stopped process"
                    ) from None
                time.sleep(0.001)
            except OSError as error:
                if error.errno not in _UNLOCKABLE or not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                    raise
                raise _NoLock from None
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)
