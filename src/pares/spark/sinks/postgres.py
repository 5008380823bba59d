"""A table of PostgreSQL, by psycopg 3: executors stage by COPY, each task in a transaction of its own.

The staging table is unlogged: what is staged costs no write-ahead log, and a server that crashes empties it. The count of rows
at publishing finds that out. A driver that is frozen inside the transaction that publishes holds its successor up for the
fence's `stall` seconds; then the server ends its session.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pares.core.errors import CapabilityError
from pares.fence.sql import SqlFence
from pares.spark.sinks.base import Seat, Store
from pares.spark.sinks.sql import STAGED, SqlSink, quoted_column
from pares.spark.sinks.values import as_json, is_json, values

if TYPE_CHECKING:
    import pyarrow as pa

_MAKE: Final = 0x7061726573  # an advisory lock's number


class PostgresSink(SqlSink):
    """Publishes batches to a table of PostgreSQL, behind a fence. See `pares.spark.sinks.base.Sink` for what is promised.

    `conninfo`: as psycopg takes it, a URL or `key=value` words; executors connect by it too. `table`: the user's own, spelled
    as the database has it, which has the query's columns by their names. `group`: keeps groups that write to one database
    apart, as `SqlFence` says; or a `fence` that is used elsewhere, too.

    Lists become arrays; structures, maps, and lists of them `jsonb`. Raises `CapabilityError` without psycopg, and what psycopg
    raises.
    """

    mark = "%%(%s)s"
    staging_ddl = (
        "CREATE UNLOGGED TABLE IF NOT EXISTS {staging} AS "
        "SELECT CAST('' AS text) AS pares_group, CAST('' AS text) AS pares_role, CAST(0 AS bigint) AS pares_seat, "
        "CAST(0 AS bigint) AS pares_token, CAST('' AS text) AS pares_part, target.* FROM {target} AS target WITH NO DATA"
    )

    def __init__(self, conninfo: str, table: str, *, group: str | None = None, fence: SqlFence | None = None) -> None:
        super().__init__(table, group, fence)
        try:
            import psycopg  # noqa: F401
        except ImportError as error:
            raise CapabilityError(f"psycopg is not installed here ({error}): pip install 'pares[postgres]'") from None
        self._conninfo = conninfo

    def connect(self) -> Any:
        import psycopg

        return psycopg.connect(self._conninfo)

    def store(self, held: Seat) -> Store:
        conninfo, staging = self._conninfo, self.staging
        head = (self.fence.group or "", *held)

        def write(part: str, batches: Iterable[pa.RecordBatch]) -> int:
            return _write(conninfo, staging, (*head, part), batches)

        return write

    def _has(self, connection: Any, name: str) -> bool:
        row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (name,)).fetchone()
        return row is not None and row[0]

    def _make(self, connection: Any) -> None:
        # Two that make a table at the same time would not both succeed, whatever IF NOT EXISTS says.
        if not (self._has(connection, self.batches) and self._has(connection, self.staging)):
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKE,))
            super()._make(connection)


def _write(conninfo: str, staging: str, head: tuple[Any, ...], batches: Iterable[pa.RecordBatch]) -> int:
    import psycopg

    rows = 0
    with psycopg.connect(conninfo) as connection, connection.cursor() as cursor:
        for batch in batches:
            names = ", ".join([*STAGED, *map(quoted_column, batch.schema.names)])
            columns = [_kept(column) for column in batch.columns]
            with cursor.copy(f"COPY {staging} ({names}) FROM STDIN".encode()) as copy:
                for row in zip(*columns, strict=True):
                    copy.write_row((*head, *row))
            rows += batch.num_rows
    return rows


def _kept(column: pa.Array) -> list[Any]:
    from psycopg.types.json import Jsonb

    found = values(column)
    if not is_json(column.type):
        return found
    return [None if value is None else Jsonb(value, dumps=as_json) for value in found]
