"""A table of an SQLite file.

Executors write to the file too, one after the other, so all of them are on its host: a Spark with `local[...]`. A driver that
is frozen inside the transaction that publishes has the file's lock, and holds everybody up until it wakes up or is killed (by
the guard's watchdog, say); a database with a server ends such a transaction by itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pares.core.errors import ConfigError
from pares.fence.sql import SqlFence
from pares.spark.host.room import room
from pares.spark.sinks.base import AGAIN, Seat, Store
from pares.spark.sinks.sql import STAGED, SqlSink, quoted_column
from pares.spark.sinks.values import as_json, values

if TYPE_CHECKING:
    import pyarrow as pa

PATIENCE: Final = 60.0
"""Seconds to wait for others that write to the file."""


class SqliteSink(SqlSink):
    """Publishes batches to a table of an SQLite file, behind a fence. See `pares.spark.sinks.base.Sink` for what is promised.

    `file`: its path. `table`: the user's own, which has the query's columns by their names. `group`: keeps groups that write to
    one file apart, as `SqlFence` says; or a `fence` that is used elsewhere, too. `timeout`: seconds to wait for other writers.

    Times are kept as text in UTC (ISO 8601), dates and decimals as text, lists, maps and structures as JSON. Raises
    `ConfigError` for a file that is not there, and what sqlite3 raises.
    """

    mark = ":%s"
    staging_ddl = (
        "CREATE TABLE IF NOT EXISTS {staging} AS SELECT '' AS pares_group, '' AS pares_role, 0 AS pares_seat, "
        "0 AS pares_token, '' AS pares_part, {target}.* FROM {target} WHERE 0"
    )

    def __init__(
        self,
        file: str | Path,
        table: str,
        *,
        group: str | None = None,
        fence: SqlFence | None = None,
        timeout: float = PATIENCE,
    ) -> None:
        super().__init__(table, group, fence)
        self.file: Final = str(Path(file).absolute())
        self.timeout: Final = timeout
        if not Path(self.file).is_file():
            raise ConfigError(f"{self.file} is no file: make the database, with the table {table!r}, before")

    def connect(self) -> Any:
        return sqlite3.connect(self.file, timeout=self.timeout)

    def store(self, held: Seat) -> Store:
        file, staging, timeout = self.file, self.staging, self.timeout
        head = (self.fence.group or "", *held)

        def write(part: str, batches: Iterable[pa.RecordBatch]) -> int:
            with room(file, AGAIN):
                return _write(file, staging, timeout, (*head, part), batches)

        return write

    @contextmanager
    def transaction(self) -> Generator[Any, None, None]:
        with room(self.file, AGAIN), super().transaction() as connection:
            yield connection

    def _has(self, connection: Any, name: str) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return connection.execute(query, (name.rpartition(".")[2].strip('"'),)).fetchone() is not None


def _write(file: str, staging: str, timeout: float, head: tuple[Any, ...], batches: Iterable[pa.RecordBatch]) -> int:
    connection, rows = sqlite3.connect(file, timeout=timeout, isolation_level=None), 0
    try:
        connection.execute("BEGIN IMMEDIATE")  # at once: a transaction that reads first may be refused the lock later
        for batch in batches:
            names = [*STAGED, *map(quoted_column, batch.schema.names)]
            statement = f"INSERT INTO {staging} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
            columns = [map(kept, values(column)) for column in batch.columns]
            connection.executemany(statement, ((*head, *row) for row in zip(*columns, strict=True)))
            rows += batch.num_rows
        connection.execute("COMMIT")
        return rows
    finally:
        connection.close()


def kept(value: Any) -> Any:
    """As SQLite keeps it."""
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat(sep=" ")
    if isinstance(value, date | Decimal):
        return str(value)
    if isinstance(value, list | dict | tuple):
        return as_json(value)
    return value
