"""Positions beside the writes: what a consumer has written into the user's own database, and how far that goes, in one
transaction.

A consumer that dies between its commit and the word of that in the group's log is followed by one that is given the same
records again. That one finds in this table, in the same transaction as its own writes, up to where they were committed.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from pares.fence.base import Held, check_held
from pares.fence.sql import SqlFence
from pares.fence.sql_drivers import Driver, Table, driver

if TYPE_CHECKING:
    from pares.fence.sql_drivers import Connection

_COLUMNS: Final = (
    "group_name TEXT NOT NULL, role TEXT NOT NULL, position BIGINT NOT NULL, token BIGINT NOT NULL, "
    "PRIMARY KEY (group_name, role)"
)


class Placed(Protocol):
    @property
    def offset(self) -> int: ...


R = TypeVar("R", bound=Placed)


class Positions:
    """A table beside that of a fence, of which each row says up to where the records of a partition have been committed.

    `table` is the fence's with `_positions` behind its name, made when it is missing. What `SqlFence` says of connections
    holds here.
    """

    def __init__(self, fence: SqlFence) -> None:
        self.table: Final = f"{fence.table}_positions"
        self._group = fence.group or ""
        self._table = Table(self.table, _COLUMNS, None)

    @property
    def ddl(self) -> str:
        """The statement that makes the table, for migrations."""
        return self._table.create

    def seen(self, connection: Connection, role: str) -> int:
        """The offset behind the last one of that partition's role that was committed; 0 if none was."""
        return self._seen(driver(connection, self._table), role)

    def forget(self, connection: Connection, role: str) -> None:
        """In the user's transaction: records of that partition's role are written again from wherever they are given out, as
        after a rewind."""
        database = driver(connection, self._table)
        if database.exists():
            database.begin()
            self._write(database, role, 0, 0)

    def raise_to(self, connection: Connection, term: Held, position: int) -> None:
        """In the transaction in which the fence was checked for `term`: what stands before `position` is written with it."""
        role, _, token = check_held(term)
        self._write(driver(connection, self._table), role, position, token)

    def _write(self, database: Driver, role: str, position: int, token: int) -> None:
        names = ("group_name", "role", "position", "token")
        statement = (
            f"INSERT INTO {self._table.name} AS there ({', '.join(names)}) "
            f"VALUES ({', '.join(database.mark % name for name in names)}) "
            f"ON CONFLICT (group_name, role) DO UPDATE SET position = excluded.position, token = excluded.token"
        )
        database.write(statement, {"group_name": self._group, "role": role, "position": position, "token": token})

    def _seen(self, database: Driver, role: str) -> int:
        if not database.exists():
            return 0
        where = f"group_name = {database.mark % 'group_name'} AND role = {database.mark % 'role'}"
        row = database.look(
            f"SELECT position FROM {self._table.name} WHERE {where}", {"group_name": self._group, "role": role}
        )
        return 0 if row is None else row[0]


@contextmanager
def transaction(
    connection: Any, fence: SqlFence, term: Held, records: Sequence[R], upto: int
) -> Generator[tuple[R, ...], None, None]:
    """Checks the fence for `term`, gives those of `records` that no committed transaction has seen, and commits what the body
    writes together with the position `upto`. Rolls back and raises when the body, the fence or the database raises."""
    positions = Positions(fence)
    fence.check(connection, term)
    try:
        seen = positions.seen(connection, term.role)
        yield tuple(record for record in records if record.offset >= seen)
        positions.raise_to(connection, term, max(seen, upto))
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
