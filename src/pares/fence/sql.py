"""A fence inside the user's own database: a row per seat holds the highest token that has written.

`check` is one write: insert the row, or raise it where it is not higher already; no row written means stale. That it
is a write, and not a look followed by a write, is what makes it safe: it takes the database's write lock (SQLite) or
the row's (PostgreSQL) and keeps it until the user's transaction ends, so nobody with a higher token comes between the
check and the user's writes. A transaction that has read first and is then refused the lock, because somebody wrote
meanwhile, fails with the driver's own error ("database is locked", "could not serialize access"), and nothing of it is kept.

The one thing that may not happen is that the check is committed and the write is not part of it. With no transaction
open, a connection that commits each statement by itself would do just that, so there `check` raises; a connection on
which the driver would begin a transaction by itself before the first write gets one begun here, for the user to
commit. (`sql_drivers` has what differs between databases.)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pares.core.errors import ConfigError, Stale
from pares.fence.base import Held, check_held
from pares.fence.sql_drivers import Driver, Table, driver

if TYPE_CHECKING:
    from pares.fence.sql_drivers import Connection

_TABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?")
_COLUMNS: Final = (
    "group_name TEXT NOT NULL, role TEXT NOT NULL, seat BIGINT NOT NULL, token BIGINT NOT NULL, "
    "PRIMARY KEY (group_name, role, seat)"
)
_KEY: Final = ("group_name", "role", "seat")
MAX_STALL: Final = 24 * 3600.0


class SqlFence:
    """Refuses writes of terms that are over, in the same transaction as the write.

        with connection:
            fence.check(connection, term)
            connection.execute("INSERT INTO prices ...")

    Promised: if the transaction commits, then no transaction that was committed before it carried a higher token for
    that seat; if it is rolled back, so is what the fence has seen. Not promised: anything about writes that do not
    pass the fence, or that stand in another transaction than their check (in sqlite3, `executescript` and `commit`
    end the transaction: call `check` again after them; a check inside a savepoint goes when that is rolled back); nor for a
    database that loses what it has committed, as a standby does that lags behind when it is promoted.

    `table` is made when it is missing, in the same transaction; a user that may not make it gets a `CapabilityError`, and
    `ddl` is what somebody else can execute. `group` keeps groups that write to one database apart: without it, a seat of
    the same role name in two groups is one seat to the fence, so that one group would shut the other out.

    `stall` (PostgreSQL only): seconds for which a transaction that has passed the fence may be idle before the server ends
    it, and its session with it, so that a leader that is frozen in the middle holds its successor up no longer than that.
    None: leave that to the server's `idle_in_transaction_session_timeout`, which is off by default. A shorter one stays.

    `connection` may be a `sqlite3.Connection` in any of its modes, a `psycopg.Connection` (version 3), a `Connection` or
    `Session` of SQLAlchemy on top of one of these, or Django's (inside `transaction.atomic()`); others raise
    `CapabilityError`.
    """

    def __init__(self, table: str = "pares_fence", group: str | None = None, *, stall: float | None = 30.0) -> None:
        if not _TABLE.fullmatch(table):
            raise ConfigError(f"{table!r} can't name the fence's table: use letters, digits and _, or schema.table")
        if stall is not None and not 0.001 <= stall <= MAX_STALL:
            raise ConfigError(f"stall is {stall!r}: give seconds from 0.001 to {MAX_STALL:g}, or None")
        self.table: Final = table
        self.group: Final = group
        self.stall: Final = stall
        self._table = Table(table, _COLUMNS, stall)
        self._group = group or ""  # no group has an empty name

    @property
    def ddl(self) -> str:
        """The statement that makes the table, for migrations."""
        return self._table.create

    def check(self, connection: Connection, term: Held) -> None:
        """Lets `term` write in the transaction that is open on `connection`, or raises `Stale(token, seen)`.

        A token as high as the highest seen passes. In PostgreSQL it waits for a transaction that has passed before and has not
        ended. After `Stale` the transaction is as it was: roll it back. Raises `ConfigError` when each
        statement would be committed by itself (begin a transaction first), or when the transaction has failed already. Errors
        of the driver (a locked database, a transaction that can't be serialized) come through as they are; try the whole
        transaction again.
        """
        role, seat, token = check_held(term)
        database = driver(connection, self._table)
        began = database.begin()
        try:
            if not self._raise(database, role, seat, token):
                seen = self._seen(database, role, seat)
                raise Stale(token, token if seen is None else seen)
        except BaseException:
            if began:
                database.connection.rollback()
            raise

    def seen(self, connection: Connection, role: str, seat: int = 0) -> int | None:
        """The highest token that has written for this seat, None if none has. A look, not a check: it holds nobody
        back."""
        database = driver(connection, self._table)
        return self._seen(database, role, seat) if database.exists() else None

    def _raise(self, database: Driver, role: str, seat: int, token: int) -> bool:
        names = (*_KEY, "token")
        statement = (
            f"INSERT INTO {self._table.name} AS fence ({', '.join(names)}) "
            f"VALUES ({', '.join(database.mark % name for name in names)}) "
            f"ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET token = excluded.token "
            "WHERE fence.token <= excluded.token"
        )
        return database.write(statement, self._row(role, seat) | {"token": token})

    def _seen(self, database: Driver, role: str, seat: int) -> int | None:
        where = " AND ".join(f"{name} = {database.mark % name}" for name in _KEY)
        row = database.look(f"SELECT token FROM {self._table.name} WHERE {where}", self._row(role, seat))
        return None if row is None else row[0]

    def _row(self, role: str, seat: int) -> dict[str, str | int]:
        return {"group_name": self._group, "role": role, "seat": seat}
