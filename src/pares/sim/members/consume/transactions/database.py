"""The database of a world's users, as a server has it: it outlives processes, and one transaction at a time writes.

SQLite keeps the rows, in memory. When one writes is decided here, in virtual time: a session that begins a transaction waits
until the one before has ended. The one whose process dies is rolled back at once; one in which nothing is said for a while,
as its process stands still, is ended by the server, and what its process says later is refused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pares.fence import SqlFence, nested
from pares.fence.positions import Positions

if TYPE_CHECKING:
    from pares.sim.members.stage import Stage
    from pares.sim.world.process import Process

GROUP: Final = "stage"
_LOOK: Final = 1_000_000
"""Nanoseconds after which a session that waits looks again."""
_ENDED: Final = "the server has ended this session, in which a transaction was idle for too long"
_LOCKED: Final = "database is locked"
_REFUSED: Final = "disk I/O error"


class Session(sqlite3.Connection):
    """A connection of one task. Each call is one in which its process may be stopped."""

    server: SimDatabase
    process: Process
    spoke_at = 0
    ended = False
    committed: Callable[[], object]
    """Called when a transaction of it has been committed."""

    def _says(self, what: str) -> None:
        self.process.cross(f"database:{what}")
        self.process.pause(self.process.rng.randint(20_000, 200_000))
        if self.ended:
            raise sqlite3.OperationalError(_ENDED)
        self.spoke_at = self.process.world.now

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        self._says("begin" if sql.startswith("BEGIN") else "execute")
        if sql.startswith("BEGIN"):
            self.server.begin(self)
        return super().execute(sql, *parameters)

    def cursor(self, *_: Any) -> sqlite3.Cursor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().cursor(_Cursor)

    def commit(self) -> None:
        """Its answer may not be heard by anybody."""
        self._says("commit")
        if self.server.refuses(self.process):
            raise sqlite3.OperationalError(_REFUSED)
        super().commit()
        self.server.over(self)
        self.committed()
        self.process.cross("database:committed")

    def rollback(self) -> None:
        super().rollback()
        self.server.over(self)


class _Cursor(sqlite3.Cursor):
    connection: Session  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        self.connection._says("execute")  # pyright: ignore[reportPrivateUsage]
        return super().execute(sql, *parameters)


class SimDatabase:
    """Of one world. `rows`: what users have written, a partition and an offset each."""

    def __init__(self, stage: Stage, name: str, refuses: Callable[[Process], bool]) -> None:
        self.refuses = refuses
        """Whether it can't commit now."""
        self._world = stage.world
        self._idle = int(2 * stage.plan.unit)
        self._patience = int(4 * stage.plan.unit)
        self._url = f"file:{name}-{id(self)}?mode=memory&cache=shared"
        self._keeps = sqlite3.connect(self._url, uri=True, isolation_level=None)
        self._keeps.execute('CREATE TABLE "rows" (partition INTEGER NOT NULL, "offset" INTEGER NOT NULL)')
        self._writes: Session | None = None
        self.fence = SqlFence("fence", GROUP)
        self.positions = Positions(self.fence)
        for table in (self.fence.ddl, self.positions.ddl):
            self._keeps.execute(table)

    @contextmanager
    def session(self, process: Process, committed: Callable[[], object] = int) -> Generator[Session]:
        """One of the running task's, closed afterwards."""
        made = sqlite3.connect(self._url, uri=True, isolation_level=None, factory=Session)
        made.server, made.process, made.committed = self, process, committed
        process.at_kill.append(lambda: self._end(made))
        nested.running.set(self._world.task())
        try:
            yield made
        finally:
            self._end(made)
            made.close()

    def begin(self, session: Session) -> None:
        """The transaction of a session begins, as soon as no other one is open."""
        until = self._world.now + self._patience
        while (other := self._writes) is not None and other is not session:
            if self._world.now > other.spoke_at + self._idle:
                self._end(other)
            elif self._world.now > until:
                raise sqlite3.OperationalError(_LOCKED)
            else:
                session.process.pause(_LOOK)
        session.spoke_at, self._writes = self._world.now, session

    def over(self, session: Session) -> None:
        """Its transaction has ended."""
        if self._writes is session:
            self._writes = None

    def _end(self, session: Session) -> None:
        if not session.ended:
            session.ended = True
            sqlite3.Connection.rollback(session)
            self.over(session)

    def written(self) -> dict[tuple[int, int], int]:
        """How often each place has been written. Called between transactions, or in one of one's own."""
        found = self._keeps.execute('SELECT partition, "offset", count(*) FROM "rows" GROUP BY 1, 2')
        return {(partition, offset): many for partition, offset, many in found}

    def end(self) -> None:
        """The world is over: what is open is not committed any more."""
        if self._writes is not None:
            self._end(self._writes)
