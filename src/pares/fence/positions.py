"""Positions beside the writes: which records a consumer has written into the user's own database, kept by the transactions
that wrote them.

A consumer that dies between its commit and the word of that in the group's log is followed by one that is given the same
records again. That one finds in this table, in the same transaction as its own writes, what was committed: all before a
position, and runs above it. Batches are committed in any order, by any thread, and some of them not at all. [one number says of
a batch that failed, or that another one overtook, that it was committed: its records are lost]

A position waits for what was not committed. What its consumer knows to be done without a gap (C3) it passes without having seen
it: holes, offsets of other slots, and batches that were done without a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from pares.core.consume.runs import Done, Run
from pares.core.errors import ConfigError, Stale
from pares.core.wire.records import MAX_RUNS
from pares.fence.base import Held, check_held
from pares.fence.nested import alone
from pares.fence.sql import SqlFence
from pares.fence.sql_drivers import Driver, Table, driver
from pares.fence.whole import whole

if TYPE_CHECKING:
    from pares.fence.sql_drivers import Connection

_COLUMNS: Final = (
    "group_name TEXT NOT NULL, role TEXT NOT NULL, position BIGINT NOT NULL, runs TEXT NOT NULL, token BIGINT NOT NULL, "
    "PRIMARY KEY (group_name, role)"
)


class Placed(Protocol):
    @property
    def offset(self) -> int: ...


R = TypeVar("R", bound=Placed)


class Positions:
    """A table beside that of a fence, of which each row says what was committed of a partition's records.

    `table` is the fence's with `_done` behind its name, made when it is missing. Of a partition that has no row there, one in a
    table with `_positions` behind the fence's name counts, which knows no runs. What `SqlFence` says of connections holds here.
    """

    def __init__(self, fence: SqlFence) -> None:
        self.table: Final = f"{fence.table}_done"
        self._fence = fence
        self._group = fence.group or ""
        self.kept: Final = Table(self.table, _COLUMNS, None)
        self._plain = Table(f"{fence.table}_positions", "", None)

    @property
    def ddl(self) -> str:
        """The statement that makes the table, for migrations."""
        return self.kept.create

    def seen(self, connection: Connection, role: str) -> int:
        """The offset up to which all was committed of that partition's role; 0 if none was."""
        return self.done(connection, role).position

    def done(self, connection: Connection, role: str) -> Done:
        """What was committed of that partition's role."""
        row = self._row(driver(connection, self.kept), "position, runs", role)
        if row is not None:
            return Done(row[0], _runs(row[1]))
        row = self._row(driver(connection, self._plain), "position", role)
        return Done() if row is None else Done(row[0])

    def forget(self, connection: Connection, term: Held) -> None:
        """In the user's transaction: records of that partition's role are written again from wherever they are given out, as
        after a rewind.

        `term`: what `Admin.rewind` has returned for it; call this before the pause ends. Promised: no term from before the
        rewind commits anything after this. [a consumer that was frozen says of all that it has done once that it is done, and
        the next one leaves it out] Raises what `SqlFence.check` raises: `Stale`, too, when a term from after the rewind has
        committed something already, and may have left out what was to be written again; rewind once more."""
        role, _, token = check_held(term)
        self._fence.check(connection, term)
        database = driver(connection, self.kept)
        row = self._row(database, "token", role)
        if row is not None and row[0] >= token:
            raise Stale(token, row[0])
        self._write(database, role, Done(), 0)

    def commit(self, connection: Connection, term: Held, done: Done, before: Done) -> None:
        """In the transaction in which the fence was checked for `term`: `done` was committed with it, where `before` was until
        now. Raises `ConfigError` for what would be in too many runs."""
        role, _, token = check_held(term)
        if len(done.runs) > MAX_RUNS and len(done.runs) > len(before.runs):
            raise ConfigError(
                f"{role}: batches are committed in {len(before.runs)} runs above offset {done.position}, which is in none of "
                f"them, and {MAX_RUNS} are kept: commit the batch with offset {done.position} first, which failed or is not "
                "done, or close the consumer, so that it is given out again; nothing of this batch is committed"
            )
        self._write(driver(connection, self.kept), role, done, token)

    def _write(self, database: Driver, role: str, done: Done, token: int) -> None:
        names = ("group_name", "role", "position", "runs", "token")
        changed = ("position", "runs", "token")
        statement = (
            f"INSERT INTO {self.kept.name} AS there ({', '.join(names)}) "
            f"VALUES ({', '.join(database.mark % name for name in names)}) "
            f"ON CONFLICT (group_name, role) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in changed)}"
        )
        runs = " ".join(f"{first}-{upto}" for first, upto in done.runs)
        row = {"group_name": self._group, "role": role, "position": done.position, "runs": runs, "token": token}
        database.write(statement, row)

    def _row(self, database: Driver, columns: str, role: str) -> tuple[Any, ...] | None:
        if not database.exists():
            return None
        where = f"group_name = {database.mark % 'group_name'} AND role = {database.mark % 'role'}"
        statement = f"SELECT {columns} FROM {database.table.name} WHERE {where}"
        return database.look(statement, {"group_name": self._group, "role": role})


def _runs(text: str) -> tuple[Run, ...]:
    pairs = (run.split("-") for run in text.split())
    return tuple((int(first), int(upto)) for first, upto in pairs)


@contextmanager
def transaction(
    connection: Any, fence: SqlFence, term: Held, records: Sequence[R], span: Run, position: Callable[[], int]
) -> Generator[tuple[R, ...], None, None]:
    """Checks the fence for `term`, gives those of `records` that no committed transaction has seen, and commits what the body
    writes together with `span`, what the batch covers. `position`: the offset before which all is done, as its consumer knows.
    Rolls back and raises when the body, the fence or the database raises. Raises `ConfigError` inside another one
    (nested.py)."""
    positions = Positions(fence)
    with alone(driver(connection, positions.kept).connection, term, fence), whole(connection, positions.kept):
        # The row of the fence is locked from here on: of two transactions of a partition, whatever processes they are in, the
        # second sees what the first has committed.
        fence.check(connection, term)
        before = positions.done(connection, term.role)
        yield tuple(record for record in records if not before.has(record.offset))
        positions.commit(connection, term, before.plus(0, position()).plus(*span), before)
