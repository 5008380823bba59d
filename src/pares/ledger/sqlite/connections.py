"""The connections to one ledger file: who may use which, when, and what becomes of them in a fork.

Two connections, each behind a lock of its own. Reading has its own because `PRAGMA data_version`, which says in three
microseconds that nothing is new, doesn't show a connection's own commits; and so that a reader never waits for a
writer's sync.

Every use begins by looking at what the path names now. A file that was deleted, or replaced, stays open and readable
for ever; going on with it would be writing to a log that nobody else will read (R12).

Forks. SQLite keeps, per process, what it believes to hold of each file's locks, and a forked child inherits the belief
without the locks. Not even a *new* connection in the child is safe then: it would take itself for locked in, and the
parent's close would delete the write-ahead log under it. So before a fork the connections are closed, and the parent
opens them again when next needed. Where that isn't possible (the lock was not to be had, or native code forked behind
Python's back) the child refuses to open the same file.
"""

import contextlib
import os
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from pares.core.errors import ForkedError, LedgerUnavailable, ParesError
from pares.ledger.handle_state import Lifetime
from pares.ledger.sqlite.errors import is_busy, spoils, unavailable
from pares.ledger.sqlite.front import OFTEN, Front
from pares.ledger.sqlite.schema import STAMPS, connect, inspect

T = TypeVar("T")
Inode = tuple[int, int]

_SPARE_PAGES: Final = 1024
_PAGES_AT_ONCE: Final = 256

_FORK_PATIENCE: Final = 5.0
"""Seconds that a fork waits for the connections in use, at most."""


class Side:
    """One connection, opened when needed, and what is known through it. Its lock guards everything in here."""

    def __init__(self, path: str, mode: str, settings: tuple[str, ...]) -> None:
        self.lock = threading.Lock()
        self.inode: Inode = (-1, -1)
        self.id = ""
        self.logs: dict[tuple[str, int], int] = {}
        """Numbers of logs by topic and partition, as looked up through this connection."""
        self.tails: dict[int, tuple[int, int]] = {}
        """By log: the data version at which its end was looked up, and that end."""
        self.stamped = False
        """The database was seen to have the table of stamps."""
        self.connection: sqlite3.Connection | None = None
        self._path = path
        self._mode = mode
        self._settings = settings
        self._frozen: tuple[int, int] | None = None
        self._ended = False

    def current(self) -> sqlite3.Connection:
        """The connection to what the path names now."""
        if self._ended:
            raise Lifetime.closed_error(self._path)
        for _ in range(100):
            try:
                found = os.stat(self._path)
            except OSError as error:
                self.shut()
                raise LedgerUnavailable(
                    f"{self._path} is gone ({error.strerror}): put it back, or open its URL again to begin a new one"
                ) from error
            inode = (found.st_dev, found.st_ino)
            stale = inode != self.inode or (self._frozen is not None and self._frozen != _signature(self._path, found))
            if self.connection is not None and not stale:
                return self.connection
            self._open(found)
            if self.inode == inode and self.present():
                assert self.connection is not None
                return self.connection
        raise LedgerUnavailable(f"{self._path} is replaced again and again: find out by whom")

    def present(self) -> bool:
        """True if the path still names the file that the connection has open."""
        try:
            found = os.stat(self._path)
        except OSError:
            return False
        return self.inode == (found.st_dev, found.st_ino)

    def has_stamps(self) -> bool:
        """Whether the database has the table of stamps. To be asked with the connection in use."""
        if not self.stamped and self.connection is not None:
            found = self.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'stamps'").fetchone()
            self.stamped = found is not None
        return self.stamped

    def shut(self) -> None:
        """Close the connection; the next use opens one."""
        connection, self.connection = self.connection, None
        self.inode = (-1, -1)
        self.logs.clear()
        self.tails.clear()
        self.stamped = False
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def end(self) -> None:
        """Close the connection for good."""
        self._ended = True
        self.shut()

    def _open(self, found: os.stat_result) -> None:
        self.shut()
        inode = (found.st_dev, found.st_ino)
        _refuse_inherited(self._path, inode)
        try:
            inspect(self._path)
        except LedgerUnavailable:
            raise
        except (ParesError, OSError) as error:
            raise LedgerUnavailable(f"{self._path} was replaced by something that is no ledger: {error}") from error
        self._frozen = None
        try:
            self._use(connect(self._path, self._mode))
        except sqlite3.Error as error:
            # In a folder that can't be written SQLite can't make the -wal file of a ledger that nobody has open. Then
            # nobody writes either, and the file can be read as it stands, as long as it stays so.
            self._frozen = _signature(self._path, found)
            if self._mode != "mode=ro" or self._frozen is None or is_busy(error):
                raise
            self._use(connect(self._path, "mode=ro&immutable=1"))
        self.inode = inode

    def _use(self, connection: sqlite3.Connection) -> None:
        try:
            for setting in self._settings:
                connection.execute(f"PRAGMA {setting}")
            (self.id,) = connection.execute("SELECT value FROM meta WHERE key = 'id'").fetchone() or ("",)
        except BaseException:
            connection.close()
            raise
        self.connection = connection


class LedgerFile:
    """The two sides of one open ledger."""

    def __init__(self, path: str, *, readonly: bool, synchronous: str, busy_timeout: float) -> None:
        self.path = path
        self.busy_timeout = busy_timeout
        self.process = os.getpid()
        mode = "mode=ro" if readonly else "mode=rw"
        common = ("cache_size=-4000",)
        self.reader = Side(path, mode, (*common, "query_only=1"))
        # secure_delete (on by default in some builds) would write out all that is trimmed, as zeros. The size limit cuts
        # the write-ahead log back after a reader, by staying in one transaction, had made it grow.
        self.writer = Side(
            path, mode, (*common, *_durable(synchronous), "secure_delete=0", "journal_size_limit=8388608")
        )
        with _all_lock:
            _all[id(self)] = weakref.ref(self, lambda _, key=id(self): _all.pop(key, None))

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.reader, self.writer

    def read(self, action: Callable[[Side, sqlite3.Connection], T], doing: str = "read") -> T:
        """Run `action` on the reading side; again, until the busy timeout, while SQLite finds a lock in its way.

        Readers don't wait for writers; only while the first process opens the file, or the last one closes it.
        """
        deadline = 0.0
        while True:
            try:
                with self.reader.lock:
                    try:
                        return action(self.reader, self.reader.current())
                    except sqlite3.Error as error:
                        if spoils(error):
                            self.reader.shut()
                        raise
            except sqlite3.Error as error:
                now = time.monotonic()
                deadline = deadline or now + self.busy_timeout
                if not is_busy(error) or now >= deadline:
                    raise unavailable(error, self.path, doing) from error
            _pause()

    @contextmanager
    def transaction(self, doing: str) -> Generator[tuple[Side, sqlite3.Connection]]:
        """A write transaction: committed at the end of the block, rolled back if the block raises.

        Raises `LedgerUnavailable` if it didn't happen, or, with `unknown`, if that can't be said.
        """
        front = Front(f"{self.path}-bell")
        try:
            yield from self._transaction(doing, front)
        finally:
            front.leave()

    def _transaction(self, doing: str, front: Front) -> Generator[tuple[Side, sqlite3.Connection]]:
        side = self.writer
        deadline = time.monotonic() + self.busy_timeout
        while True:
            # `with`, as nothing else is sure to let go when Ctrl-C comes just after the lock was taken. No timeout is
            # needed: its holder is at work, not waiting.
            with side.lock:
                begun = commits = False
                try:
                    connection = side.current()
                    if connection.in_transaction:  # Ctrl-C came between a COMMIT that failed and its ROLLBACK
                        connection.execute("ROLLBACK")
                    connection.execute("BEGIN IMMEDIATE")
                    begun = True
                    front.leave()
                    if not side.stamped:
                        connection.execute(STAMPS)
                    yield side, connection
                    commits = True
                    connection.execute("COMMIT")
                    side.stamped = True
                    if not side.present():
                        side.shut()
                        raise LedgerUnavailable(
                            f"{self.path} was deleted or replaced while this process tried to {doing}: whether anybody "
                            "will read what was written is unknown",
                            unknown=True,
                        )
                    return
                except sqlite3.Error as error:
                    _undo(side)
                    if spoils(error):
                        side.shut()
                    if begun or not is_busy(error) or time.monotonic() >= deadline:
                        raise unavailable(error, self.path, doing, at_commit=commits) from error
                except BaseException:
                    _undo(side)
                    raise
            # Without the lock, so that neither a fork nor a close has to wait as long as the database is busy.
            front.pause()

    def give_back(self) -> bool:
        """Give some free pages back to the file system, if a burst left many behind; True if there are more.

        A few free pages are kept, as they are used again. Gives up quietly if somebody is writing.
        """
        with self.writer.lock:
            try:
                connection = self.writer.current()
                (free,) = connection.execute("PRAGMA freelist_count").fetchone()
                (pages,) = connection.execute("PRAGMA page_count").fetchone()
                if free <= _SPARE_PAGES or free <= pages // 2:
                    return False
                # As a script, because execute() would stop after the first page.
                connection.executescript(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")
                return True
            except sqlite3.Error as error:
                if spoils(error):
                    self.writer.shut()
                return False

    def close(self) -> None:
        """Close both connections for good, once nobody is using them."""
        for side in self.sides:
            with side.lock:
                side.end()


def _durable(synchronous: str) -> tuple[str, ...]:
    """What makes a commit survive a power cut. (`fullfsync` matters on macOS only, where fsync leaves it to the drive.)"""
    full = int(synchronous == "full")
    return f"synchronous={synchronous}", f"fullfsync={full}", f"checkpoint_fullfsync={full}"


def _pause() -> None:
    time.sleep(OFTEN * random.uniform(0.5, 1.0))


def _undo(side: Side) -> None:
    if side.connection is not None and side.connection.in_transaction:
        try:
            side.connection.execute("ROLLBACK")
        except sqlite3.Error:
            side.shut()


def _signature(path: str, found: os.stat_result) -> tuple[int, int] | None:
    """What stays the same while nobody writes to the file; None if somebody has it open."""
    return None if os.path.exists(f"{path}-wal") else (found.st_mtime_ns, found.st_size)


# Copied with list(), which is one step, so only additions need the lock; a fork holds it to keep new files out.
_all: "dict[int, weakref.ref[LedgerFile]]" = {}
_all_lock = threading.Lock()
_fork_lock = threading.Lock()
_held: list[threading.Lock] = []
_kept: list[LedgerFile] = []
_keep_for_ever: Callable[[Any], None] | None = None


def _alive() -> "list[LedgerFile]":
    return [file for reference in list(_all.values()) if (file := reference()) is not None]


def _refuse_inherited(path: str, inode: Inode) -> None:
    for other in _alive():
        if other.process != os.getpid() and any(side.connection and side.inode == inode for side in other.sides):
            raise ForkedError(
                f"this process was forked while its parent was using {path}, so SQLite's locks can't be trusted here: "
                "fork at another moment, or start the process anew (spawn)"
            )


def _before_fork() -> None:
    # In the child it is too late for an import, and few processes fork while they use a ledger.
    import ctypes

    global _keep_for_ever
    _keep_for_ever = lambda it: ctypes.pythonapi.Py_IncRef(ctypes.py_object(it))  # noqa: E731
    deadline = time.monotonic() + _FORK_PATIENCE
    for lock in (_fork_lock, _all_lock):
        if lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            _held.append(lock)
    for file in _alive():
        for side in file.sides:
            if file.process == os.getpid() and side.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
                _held.append(side.lock)
                side.shut()


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop().release()


def _after_fork_in_child() -> None:
    global _all_lock, _fork_lock
    _all_lock, _fork_lock = threading.Lock(), threading.Lock()
    _held.clear()
    for file in _alive():
        for side in file.sides:
            if side.connection is not None and _keep_for_ever is not None:
                # Never to be closed here, not even at the interpreter's end: so one reference too many.
                _keep_for_ever(side.connection)
                _kept.append(file)


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
