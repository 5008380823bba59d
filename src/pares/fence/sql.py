"""A fence inside the user's own database: a row per seat holds the highest token that has written.

`check` is one write: insert the row, or raise it where it is not higher already; no row written means stale. That it
is a write, and not a look followed by a write, is what makes it safe: it takes the database's write lock (SQLite) or
the row's (PostgreSQL) and keeps it until the user's transaction ends, so nobody with a higher token comes between the
check and the user's writes. A transaction that has read first and is then refused the lock, because somebody wrote
meanwhile, fails with the driver's own error ("database is locked"), and nothing of it is kept.

The one thing that may not happen is that the check is committed and the write is not part of it. With no transaction
open, a connection that commits each statement by itself would do just that, so there `check` raises; a connection on
which the driver would begin a transaction by itself before the first write gets one begun here, for the user to
commit.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pares.core.errors import CapabilityError, ConfigError, Stale
from pares.fence.base import Held, check_held

_TABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?")
_COLUMNS: Final = (
    "group_name TEXT NOT NULL, role TEXT NOT NULL, seat BIGINT NOT NULL, token BIGINT NOT NULL, "
    "PRIMARY KEY (group_name, role, seat)"
)


class _Driver(NamedTuple):
    """How databases differ, in what a fence does with them. The rest is DB-API, and SQL that all of them speak."""

    placeholder: str
    cursor: Callable[[Any], Any]
    """A cursor that returns plain tuples, whatever the user has set on the connection."""
    begin: Callable[[Any], bool]
    """Sees to it that a transaction is open, or raises `ConfigError`; whether it began one."""
    write: Callable[[Any, str, tuple[str, str, int, int], str], None]
    """Executes a statement with a row; if the table is missing, executes the last argument, which makes it, before."""
    is_missing: Callable[[Exception], bool]
    """Whether an error says that the table is missing."""


class SqlFence:
    """Refuses writes of terms that are over, in the same transaction as the write.

        with connection:
            fence.check(connection, term)
            connection.execute("INSERT INTO prices ...")

    Promised: if the transaction commits, then no transaction that was committed before it carried a higher token for
    that seat; if it is rolled back, so is what the fence has seen. Not promised: anything about writes that do not
    pass the fence, or that stand in another transaction than their check. (In sqlite3, `executescript` and `commit`
    end the transaction: call `check` again after them. A check inside a savepoint goes when that is rolled back.)

    `table` is made when it is missing. `group` keeps groups that write to one database apart: without it, a seat of
    the same role name in two groups is one seat to the fence, so that one group would shut the other out.

    `connection` may be a `sqlite3.Connection` in any of its modes; others raise `CapabilityError`.
    """

    def __init__(self, table: str = "pares_fence", group: str | None = None) -> None:
        if not _TABLE.fullmatch(table):
            raise ConfigError(f"{table!r} can't name the fence's table: use letters, digits and _, or schema.table")
        self.table: Final = table
        self.group: Final = group
        self._name = ".".join(f'"{part}"' for part in table.split("."))
        self._group = group or ""  # no group has an empty name

    def check(self, connection: sqlite3.Connection, term: Held) -> None:
        """Lets `term` write in the transaction that is open on `connection`, or raises `Stale(token, seen)`.

        A token as high as the highest seen passes. After `Stale` the transaction is as it was: roll it back. Raises
        `ConfigError` when each statement would be committed by itself: begin a transaction first. Errors of the driver
        (a locked database) come through as they are; try the whole transaction again.
        """
        role, seat, token = check_held(term)
        driver = _driver(connection)
        began = driver.begin(connection)
        try:
            cursor = driver.cursor(connection)
            try:
                if not self._raise(driver, cursor, (self._group, role, seat, token)):
                    seen = self._seen(driver, cursor, role, seat)
                    raise Stale(token, token if seen is None else seen)
            finally:
                cursor.close()
        except BaseException:
            if began:
                connection.rollback()
            raise

    def seen(self, connection: sqlite3.Connection, role: str, seat: int = 0) -> int | None:
        """The highest token that has written for this seat, None if none has. A look, not a check: it holds nobody
        back."""
        driver = _driver(connection)
        cursor = driver.cursor(connection)
        try:
            return self._seen(driver, cursor, role, seat)
        except Exception as error:
            if driver.is_missing(error):
                return None
            raise
        finally:
            cursor.close()

    def _raise(self, driver: _Driver, cursor: Any, row: tuple[str, str, int, int]) -> bool:
        statement = (
            f"INSERT INTO {self._name} AS fence (group_name, role, seat, token) "
            f"VALUES ({', '.join([driver.placeholder] * 4)}) "
            "ON CONFLICT (group_name, role, seat) DO UPDATE SET token = excluded.token "
            "WHERE fence.token <= excluded.token"
        )
        driver.write(cursor, statement, row, f"CREATE TABLE IF NOT EXISTS {self._name} ({_COLUMNS})")
        return cursor.rowcount == 1

    def _seen(self, driver: _Driver, cursor: Any, role: str, seat: int) -> int | None:
        sign = driver.placeholder
        where = f"WHERE group_name = {sign} AND role = {sign} AND seat = {sign}"
        cursor.execute(f"SELECT token FROM {self._name} {where}", (self._group, role, seat))
        row = cursor.fetchone()
        return None if row is None else row[0]


def _sqlite_begin(connection: sqlite3.Connection) -> bool:
    if connection.in_transaction:
        return False
    # Python 3.12 has `autocommit` besides: True commits each statement, False always has a transaction open.
    if connection.isolation_level is None or getattr(connection, "autocommit", -1) is True:
        raise ConfigError(
            "no transaction is open on this connection, and it commits each statement by itself: the check would be "
            "committed apart from your write; execute BEGIN IMMEDIATE first, and COMMIT after the write"
        )
    connection.execute("BEGIN IMMEDIATE")
    return True


def _sqlite_cursor(connection: sqlite3.Connection) -> sqlite3.Cursor:
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor


def _sqlite_write(cursor: sqlite3.Cursor, statement: str, row: tuple[str, str, int, int], create: str) -> None:
    try:
        cursor.execute(statement, row)
    except sqlite3.OperationalError as error:
        # The table is not made beforehand: even a CREATE that finds it there reads, and a transaction that has read the
        # state before another's write can't write any more.
        if not _sqlite_is_missing(error):
            raise
        cursor.execute(create)
        cursor.execute(statement, row)


def _sqlite_is_missing(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and str(error).startswith("no such table")


_SQLITE: Final = _Driver("?", _sqlite_cursor, _sqlite_begin, _sqlite_write, _sqlite_is_missing)


def _driver(connection: object) -> _Driver:
    if isinstance(connection, sqlite3.Connection):
        return _SQLITE
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise CapabilityError(f"SqlFence can't use a {kind}: it works with connections of sqlite3")
