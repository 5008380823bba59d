"""What sinks in a database have in common: the staging table, the list of batches, and the transaction that publishes.

| table | what is in it |
|---|---|
| TABLE | the user's rows, in the user's own table, which the sink neither makes nor changes |
| TABLE_staging | rows of batches that are not published: those of TABLE, and of which seat, token and part they are |
| FENCE | the highest token for each seat (`SqlFence`) |
| FENCE_batches | the last batches of each seat and table, in order: token, extent, rows |
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pares.core.errors import ConfigError
from pares.fence.base import Held
from pares.fence.sql import SqlFence
from pares.spark.sinks.base import Incomplete, Seat, Staged, Store, staged
from pares.spark.sinks.extents import Extent, Published, decoded, encoded, follows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,50}(\.[A-Za-z_][A-Za-z0-9_]{0,50})?")
_LONGEST: Final = 50
"""Of a fence's table: names end in `_batches`, and PostgreSQL cuts off what is beyond 63."""
KEPT: Final = 1000
"""Batches of a seat that are listed: those before them are forgotten one by one."""
_BATCHES: Final = (
    "group_name TEXT NOT NULL, role TEXT NOT NULL, seat BIGINT NOT NULL, target TEXT NOT NULL, number BIGINT NOT NULL, "
    "token BIGINT NOT NULL, extent TEXT NOT NULL, row_count BIGINT NOT NULL, at_ms BIGINT NOT NULL, "
    "PRIMARY KEY (group_name, role, seat, target, number)"
)
STAGED: Final = ("pares_group", "pares_role", "pares_seat", "pares_token", "pares_part")
"""What a staged row has beside the user's columns."""


class SqlSink:
    """One table of a database. What differs between databases is in the methods at the end, which each of them has."""

    mark: str
    """What stands for the parameter NAME in a statement: `mark % NAME`."""
    staging_ddl: str
    """The statement that makes the staging table, with a place for its name and one for the table's."""

    def __init__(self, table: str, group: str | None, fence: SqlFence | None) -> None:
        if not _NAME.fullmatch(table):
            raise ConfigError(f"{table!r} can't name a sink's table: use letters, digits and _, or schema.table")
        if fence is not None and group is not None:
            raise ConfigError("give the sink a fence, or a group for one of its own, and not both")
        if fence is not None and len(fence.table.rpartition(".")[2]) > _LONGEST:
            raise ConfigError(f"the fence's table {fence.table!r} has too long a name: {_LONGEST} characters at most")
        self.table: Final = table
        self.fence: Final = fence if fence is not None else SqlFence(group=group)
        self.target, self.staging, self.batches = map(
            quoted, (table, f"{table}_staging", f"{self.fence.table}_batches")
        )

    @property
    def ddl(self) -> tuple[str, ...]:
        """The statements that make what the sink keeps beside the table, for migrations."""
        return (
            self.fence.ddl,
            f"CREATE TABLE IF NOT EXISTS {self.batches} ({_BATCHES})",
            self.staging_ddl.format(staging=self.staging, target=self.target),
        )

    # What a sink does ------------------------------------------------------------------------------------------------

    def open(self, held: Seat) -> None:
        with self.transaction() as connection:
            self.fence.check(connection, held)
            self._make(connection)
            row = self._seat(held) | {"token": held.token}
            condition = (
                f"{self._of('pares_group', 'pares_role', 'pares_seat')} AND pares_token <= {self.mark % 'token'}"
            )
            connection.execute(f"DELETE FROM {self.staging} WHERE {condition}", row)

    def last(self, held: Seat) -> Published | None:
        with self.transaction() as connection:
            return self._last(connection, held) if self._has(connection, self.batches) else None

    def published(self, held: Seat) -> list[Published]:
        """The last batches of the seat, in order, up to `KEPT`."""
        with self.transaction() as connection:
            statement = f"{self._listed} ORDER BY number"
            return [_published(*row) for row in connection.execute(statement, self._key(held)).fetchall()]

    def stage(self, df: DataFrame, held: Seat, extent: Extent) -> Staged:
        return staged(df, held, extent, self.store(held))

    def publish(self, staged: Staged) -> bool:
        with self.transaction() as connection:
            self.fence.check(connection, staged.held)
            last = self._last(connection, staged.held)
            new = follows(staged.extent, last)
            if new:
                self._move(connection, staged)
                self._list(connection, staged, 0 if last is None else last.number + 1)
            marks, row = self._parts(staged)
            connection.execute(f"DELETE FROM {self.staging} WHERE pares_part IN ({marks})", row)
            return new

    def forget(self, held: Held) -> None:
        with self.transaction() as connection:
            self.fence.check(connection, held)
            if self._has(connection, self.batches):
                connection.execute(f"DELETE FROM {self.batches} WHERE {self._of(*self._key(held))}", self._key(held))

    # Its statements --------------------------------------------------------------------------------------------------

    def _move(self, connection: Any, staged: Staged) -> None:
        columns = ", ".join(quoted_column(name) for name in staged.columns)
        marks, row = self._parts(staged)
        select = f"SELECT {columns} FROM {self.staging} WHERE pares_part IN ({marks})"
        moved = connection.execute(f"INSERT INTO {self.target} ({columns}) {select}", row).rowcount
        if moved != staged.rows:
            raise Incomplete(moved, staged)

    def _list(self, connection: Any, staged: Staged, number: int) -> None:
        row = self._key(staged.held) | {"number": number, "token": staged.held.token, "extent": encoded(staged.extent)}
        row |= {"row_count": staged.rows, "at_ms": time.time_ns() // 1_000_000}
        marks = ", ".join(self.mark % name for name in row)
        connection.execute(f"INSERT INTO {self.batches} ({', '.join(row)}) VALUES ({marks})", row)
        old = self._key(staged.held) | {"number": number - KEPT}
        condition = f"{self._of(*self._key(staged.held))} AND number <= {self.mark % 'number'}"
        connection.execute(f"DELETE FROM {self.batches} WHERE {condition}", old)

    def _last(self, connection: Any, held: Seat) -> Published | None:
        row = connection.execute(f"{self._listed} ORDER BY number DESC LIMIT 1", self._key(held)).fetchone()
        return None if row is None else _published(*row)

    @property
    def _listed(self) -> str:
        where = self._of("group_name", "role", "seat", "target")
        return f"SELECT number, token, extent, row_count, at_ms FROM {self.batches} WHERE {where}"

    def _parts(self, staged: Staged) -> tuple[str, dict[str, str]]:
        row = {f"p{number}": part for number, part in enumerate(staged.parts)}
        return ", ".join(self.mark % name for name in row) or "NULL", row

    def _key(self, held: Held) -> dict[str, Any]:
        return {"group_name": self.fence.group or "", "role": held.role, "seat": held.seat, "target": self.table}

    def _seat(self, held: Seat) -> dict[str, Any]:
        return {"pares_group": self.fence.group or "", "pares_role": held.role, "pares_seat": held.seat}

    def _of(self, *names: str) -> str:
        return " AND ".join(f"{name} = {self.mark % name}" for name in names)

    def _make(self, connection: Any) -> None:
        for name, statement in zip((self.batches, self.staging), self.ddl[1:], strict=True):
            if not self._has(connection, name):
                connection.execute(statement)

    # What differs ----------------------------------------------------------------------------------------------------

    def connect(self) -> Any:
        """A connection on which a transaction begins with the first statement."""
        raise NotImplementedError

    def store(self, held: Seat) -> Store:
        """What the executors call: a part's rows go into the staging table, in a transaction of their own."""
        raise NotImplementedError

    def _has(self, connection: Any, name: str) -> bool:
        """Whether a table of this quoted name is there."""
        raise NotImplementedError

    @contextmanager
    def transaction(self) -> Generator[Any, None, None]:
        """On a connection of its own, so that a driver's end, and a server's, end what it has begun."""
        connection = self.connect()
        try:
            yield connection
            connection.commit()
        finally:
            connection.close()  # with what was not committed


def _published(number: int, token: int, extent: str, rows: int, at_ms: int) -> Published:
    return Published(number, token, decoded(extent), rows, at_ms)


def quoted(table: str) -> str:
    return ".".join(quoted_column(part) for part in table.split("."))


def quoted_column(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
