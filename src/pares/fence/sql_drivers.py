"""How databases and their drivers differ, in what a fence does with them. The rest is SQL that all of them speak.

**SQLite** (`sqlite3`). The check takes the database's write lock, which ends with the transaction.

**PostgreSQL** (`psycopg`, version 3). The check takes the row's lock, and the next one waits for the end of the
transaction that has it, and is then judged by what that one committed (at READ COMMITTED), or is told that it could not be
serialized (above). Two things are done differently there. An error ends the whole transaction, so whether the table is there
is looked up before and not tried. And a transaction that stands still would hold up all others for good, above all that of the
leader who comes after a frozen one: so `check` asks the server to end this very session when its transaction has been idle
for `stall` seconds (as by `SET LOCAL idle_in_transaction_session_timeout`, unless a shorter one is set), in the same look.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pares.core.errors import CapabilityError, ConfigError

if TYPE_CHECKING:
    import psycopg
    import sqlalchemy
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.utils.connection import ConnectionProxy
    from sqlalchemy.orm import Session

    Connection = (
        sqlite3.Connection
        | psycopg.Connection[Any]
        | sqlalchemy.Connection
        | Session
        | BaseDatabaseWrapper
        | ConnectionProxy
    )

Row = Mapping[str, str | int]

_ALONE: Final = (
    "no transaction is open on this connection, and it commits each statement by itself: the check would be committed apart "
    "from your write; "
)
_ASYNCHRONOUS: Final = ("asyncpg", "aiosqlite", "aiopg")
_BOTH: Final = ("psycopg", "sqlalchemy")
"""Libraries whose connections are asynchronous: all of them, or those that are called so."""
_MAKE: Final = 0x70617265  # an advisory lock's number: "pare"


class Table:
    """What a driver must know of the fence's table."""

    def __init__(self, name: str, columns: str, stall: float | None) -> None:
        self.name: Final = ".".join(f'"{part}"' for part in name.split("."))
        self.create: Final = f"CREATE TABLE IF NOT EXISTS {self.name} ({columns})"
        self.stall: Final = stall


class Driver:
    """One connection, and a cursor on it that returns plain tuples, whatever the user has set."""

    mark: ClassVar[str]
    """What stands for the parameter NAME in a statement: `mark % NAME`."""

    def __init__(self, connection: Any, table: Table) -> None:
        self.connection = connection
        self.table = table

    def begin(self) -> bool:
        """Sees to it that what is written now is not committed by itself, or raises `ConfigError`. Whether a transaction begins
        with the check, which the check therefore may end."""
        raise NotImplementedError

    def inside(self) -> bool:
        """Whether a block of the driver's own ends the transaction, and lets nobody else do so."""
        return False

    def open(self) -> None:
        """Begins a transaction where each statement would be committed by itself; elsewhere the driver does."""
        raise NotImplementedError

    def commit(self) -> None:
        """What `open` has begun, if the connection's own `commit` has left it open."""

    def rollback(self) -> None:
        """The same, for `rollback`."""

    def write(self, statement: str, row: Row) -> bool:
        """Executes a statement that writes one row or none, and makes the table if it is missing. Whether it wrote one."""
        raise NotImplementedError

    def look(self, statement: str, row: Row) -> tuple[Any, ...] | None:
        """The first row that a query finds."""
        raise NotImplementedError

    def exists(self) -> bool:
        """Whether the table is there."""
        raise NotImplementedError


class Sqlite(Driver):
    mark = ":%s"

    connection: sqlite3.Connection

    def begin(self) -> bool:
        if self.connection.in_transaction:
            return False
        if self._commits_each():
            raise ConfigError(_ALONE + "execute BEGIN IMMEDIATE first, and COMMIT after the write")
        self.connection.execute("BEGIN IMMEDIATE")
        return True

    def _commits_each(self) -> bool:
        # Python 3.12 has `autocommit` besides: True commits each statement, False always has a transaction open.
        return self.connection.isolation_level is None or getattr(self.connection, "autocommit", -1) is True

    def open(self) -> None:
        if not self.connection.in_transaction and self._commits_each():
            self.connection.execute("BEGIN IMMEDIATE")

    # With autocommit=True a connection's own methods do nothing.

    def commit(self) -> None:
        if self.connection.in_transaction and self._commits_each():
            self.connection.execute("COMMIT")

    def rollback(self) -> None:
        if self.connection.in_transaction and self._commits_each():
            self.connection.execute("ROLLBACK")

    def write(self, statement: str, row: Row) -> bool:
        cursor = self._cursor()
        try:
            try:
                cursor.execute(statement, row)
            except sqlite3.OperationalError as error:
                # The table is not made beforehand: even a CREATE that finds it there reads, and a transaction that has read
                # the state before another's write can't write any more.
                if not str(error).startswith("no such table"):
                    raise
                cursor.execute(self.table.create)
                cursor.execute(statement, row)
            return cursor.rowcount == 1
        finally:
            cursor.close()

    def look(self, statement: str, row: Row) -> tuple[Any, ...] | None:
        cursor = self._cursor()
        try:
            return cursor.execute(statement, row).fetchone()
        finally:
            cursor.close()

    def exists(self) -> bool:
        try:
            self.look(f"SELECT 1 FROM {self.table.name} LIMIT 1", {})
        except sqlite3.OperationalError as error:
            if str(error).startswith("no such table"):
                return False
            raise
        return True

    def _cursor(self) -> sqlite3.Cursor:
        cursor = self.connection.cursor()
        cursor.row_factory = None
        return cursor


class Postgres(Driver):
    mark = "%%(%s)s"

    connection: psycopg.Connection[Any]

    def begin(self) -> bool:
        from psycopg.pq import PipelineStatus, TransactionStatus

        if self.connection.closed:
            return False  # psycopg says so itself
        if self.connection.pgconn.pipeline_status != PipelineStatus.OFF:
            raise CapabilityError(
                "this connection is in pipeline mode, where nobody knows yet what was refused: check before `with pipeline()`"
            )
        status = self.connection.info.transaction_status
        if status == TransactionStatus.INERROR:
            raise ConfigError(
                "the transaction on this connection has failed already, and nothing can be written in it: roll it back"
            )
        if self.connection.autocommit and status != TransactionStatus.INTRANS:
            raise ConfigError(
                _ALONE + "use `with connection.transaction():` around both, or a connection without autocommit"
            )
        return status == TransactionStatus.IDLE

    def inside(self) -> bool:
        # Nothing public says so before `commit` refuses, and then the user's writes are made already.
        return getattr(self.connection, "_num_transactions", 0) > 0

    def open(self) -> None:
        from psycopg.pq import TransactionStatus

        if self.connection.autocommit and self.connection.info.transaction_status == TransactionStatus.IDLE:
            self.connection.execute("BEGIN")

    def write(self, statement: str, row: Row) -> bool:
        from psycopg.errors import InsufficientPrivilege

        if not self._there():
            self._make()
        try:
            return self._one(statement + " RETURNING token", row) is not None
        except InsufficientPrivilege as error:
            raise CapabilityError(
                f"this user may not write the fence's table {self.table.name}: "
                f"let its owner GRANT SELECT, INSERT, UPDATE ON {self.table.name} TO it"
            ) from error

    def look(self, statement: str, row: Row) -> tuple[Any, ...] | None:
        return self._one(statement, row)

    def exists(self) -> bool:
        found = self._one("SELECT to_regclass(%(name)s) IS NOT NULL", {"name": self.table.name})
        return found is not None and found[0]

    def _there(self) -> bool:
        if self.table.stall is None:
            return self.exists()
        # Both in one look, so that this costs no round trip more.
        found = self._one(
            "SELECT to_regclass(%(name)s) IS NOT NULL, "
            "CASE WHEN now.idle = '0' OR now.idle::interval > make_interval(secs => %(stall)s) "
            "THEN set_config('idle_in_transaction_session_timeout', %(ms)s, true) END "
            "FROM (SELECT current_setting('idle_in_transaction_session_timeout') AS idle) AS now",
            {"name": self.table.name, "stall": self.table.stall, "ms": f"{round(self.table.stall * 1000)}ms"},
        )
        return found is not None and found[0]

    def _make(self) -> None:
        from psycopg.errors import InsufficientPrivilege

        # Two that make it at the same time would not both succeed, whatever IF NOT EXISTS says.
        self._one("SELECT pg_advisory_xact_lock(%(number)s)", {"number": _MAKE})
        if self.exists():
            return
        try:
            self._one(self.table.create, None)
        except InsufficientPrivilege as error:
            raise CapabilityError(
                f"the fence's table {self.table.name} is missing, and this user may not make it ({_first_line(error)}): "
                f"let somebody who may execute what SqlFence.ddl says, "
                f"and GRANT SELECT, INSERT, UPDATE ON {self.table.name} TO this user"
            ) from error

    def _one(self, statement: str, row: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
        from psycopg import Cursor
        from psycopg.rows import tuple_row

        # Its class is named: a connection's own cursors may be of any.
        with Cursor(self.connection, row_factory=tuple_row) as cursor:
            cursor.execute(statement.encode(), row)
            return cursor.fetchone() if cursor.description else None


def driver(connection: object, table: Table) -> Driver:
    """Raises `CapabilityError` for connections that a fence knows nothing about."""
    raw = _unwrapped(connection)
    if isinstance(raw, sqlite3.Connection):
        return Sqlite(raw, table)
    psycopg = sys.modules.get("psycopg")  # a caller with such a connection has imported it
    if psycopg is not None and isinstance(raw, psycopg.Connection):
        return Postgres(raw, table)
    kind, given = (f"{type(one).__module__}.{type(one).__qualname__}" for one in (raw, connection))
    over = "" if kind == given else f" below a {given}"
    library = type(raw).__module__.partition(".")[0]
    if library in _ASYNCHRONOUS or (library in _BOTH and type(raw).__name__.lower().startswith("async")):
        raise CapabilityError(
            f"SqlFence can't wait for a {kind}{over}, which is asynchronous: make the transaction, check and write, with a "
            "connection of psycopg 3 or sqlite3 (or SQLAlchemy's Connection or Session on one), on a thread: asyncio.to_thread"
        )
    if library == "psycopg2":
        raise CapabilityError(
            f"SqlFence can't use a {kind}{over}: psycopg2 is not supported, psycopg 3 is (pip install 'pares[postgres]'; "
            "SQLAlchemy: postgresql+psycopg://, Django: it takes psycopg 3 where that is installed)"
        )
    raise CapabilityError(
        f"SqlFence can't use a {kind}{over}: it works with connections of sqlite3 and psycopg 3, "
        "and with those of SQLAlchemy and Django on top of these"
    )


def _unwrapped(connection: Any) -> object:
    """The driver's own connection in one of Django; or in one of SQLAlchemy, on which a transaction is open as SQLAlchemy sees
    it: so that its `commit` commits what the fence has written."""
    if "django.db" in sys.modules:
        from django.db.backends.base.base import BaseDatabaseWrapper
        from django.utils.connection import ConnectionProxy

        if isinstance(connection, BaseDatabaseWrapper | ConnectionProxy):
            connection.ensure_connection()
            return connection.connection
    if "sqlalchemy" not in sys.modules:
        return connection
    from sqlalchemy import Connection

    orm = sys.modules.get("sqlalchemy.orm")
    if orm is not None and isinstance(connection, orm.Session | orm.scoped_session):
        connection = connection.connection()
    if not isinstance(connection, Connection):
        return connection
    if not connection.in_transaction():
        connection.begin()
    return connection.connection.driver_connection


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
