"""A consumer of one partition that writes by transactions, as the parts of `Batch.transaction` see it: what is given out, in
what order it is committed, what fails, and what the log knows when a successor begins."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pares.core.consume.progress import Progress, Span
from pares.core.consume.runs import Run
from pares.core.errors import Stale
from pares.fence import SqlFence
from pares.fence.positions import transaction

if TYPE_CHECKING:
    from postgres_tools import Sink

ROLE = "orders@12345678/0"


@dataclass(frozen=True)
class Term:
    role: str
    seat: int
    token: int


class Record(NamedTuple):
    offset: int


class Lot(NamedTuple):
    """A batch that is with the user."""

    records: list[Record]
    span: Span


class Consumer:
    """Of one term, from where the log says. `offsets`: of the partition's records; what lies between are holes, or others'."""

    def __init__(self, offsets: list[int], token: int, position: int = 0, known: tuple[Run, ...] = ()) -> None:
        self.offsets = offsets
        self.term = Term(ROLE, 0, token)
        self.progress = Progress(position, known)

    def take(self, most: int) -> Lot | None:
        """The next batch; None if there is nothing left."""
        rest = [offset for offset in self.offsets if offset >= self.progress.next][:most]
        if not rest:
            return None
        records = [Record(offset) for offset in rest if not self.progress.was_done(offset)]
        if records:
            return Lot(records, self.progress.open(rest[-1] + 1))
        self.progress.skip(rest[-1] + 1)
        return self.take(most)

    def transaction(self, lot: Lot, connection: Any, fence: SqlFence) -> AbstractContextManager[tuple[Record, ...]]:
        span = (lot.span.first, lot.span.next)
        return transaction(connection, fence, self.term, lot.records, span, lambda: self.progress.position)

    def write(self, lot: Lot, connection: Any, fence: SqlFence, statement: str, *, done: bool = True) -> list[int]:
        """Which records it has written. `statement`: inserts one number. `done`: it lives to say so."""
        with self.transaction(lot, connection, fence) as records:
            for record in records:
                connection.execute(statement, (record.offset,))
        if done:
            self.progress.done(lot.span)
        return [record.offset for record in records]


class Broken(Exception):
    """What a body raises."""


class Once(RuleBasedStateMachine):
    """Batches out of order, that fail, that are committed and not said to be done; consumers that die, with a log that has
    heard of less than they did; zombies. In the table each record is there once at most, and at the end exactly once."""

    INSERT = "INSERT INTO work (token) VALUES (?)"

    def connect(self) -> Any:
        """A connection to an empty table `work`, of this run alone."""
        raise NotImplementedError

    @initialize(gaps=st.lists(st.integers(0, 4), min_size=1, max_size=40))
    def begin(self, gaps: list[int]) -> None:
        self.offsets, at = list[int](), 0
        for gap in gaps:
            self.offsets.append(at + gap)
            at += gap + 1
        self.connection, self.fence = self.connect(), SqlFence()
        self.consumer = Consumer(self.offsets, 1)
        self.out: list[Lot] = []
        self.logged: tuple[int, tuple[Run, ...]] = (0, ())
        self.zombies: list[tuple[Consumer, Lot]] = []
        self.raised = False
        """The present term has passed the fence."""

    @rule(most=st.integers(1, 5))
    def takes(self, most: int) -> None:
        lot = self.consumer.take(most)
        if lot is not None:
            self.out.append(lot)

    @precondition(lambda self: self.out)
    @rule(which=st.integers(0, 99), done=st.booleans())
    def commits(self, which: int, done: bool) -> None:
        lot = self.out.pop(which % len(self.out))
        self.consumer.write(lot, self.connection, self.fence, self.INSERT, done=done)
        self.raised = True

    @precondition(lambda self: self.out)
    @rule(which=st.integers(0, 99), after=st.integers(0, 3))
    def fails(self, which: int, after: int) -> None:
        """And stays with the user, who may try it again."""
        lot = self.out[which % len(self.out)]
        try:
            with self.consumer.transaction(lot, self.connection, self.fence) as records:
                for record in records[:after]:
                    self.connection.execute(self.INSERT, (record.offset,))
                raise Broken
        except Broken:
            pass

    @rule()
    def the_log_hears_of_it(self) -> None:
        progress = self.consumer.progress
        self.logged = (progress.position, progress.ahead())

    @rule()
    def another_one_begins(self) -> None:
        self.zombies += [(self.consumer, lot) for lot in self.out]
        position, known = self.logged
        self.consumer = Consumer(self.offsets, self.consumer.term.token + 1, position, known)
        self.out, self.raised = [], False

    @precondition(lambda self: self.zombies)
    @rule(which=st.integers(0, 99))
    def a_zombie_writes(self, which: int) -> None:
        """As it may, until its successor has passed the fence."""
        consumer, lot = self.zombies.pop(which % len(self.zombies))
        seen = self.fence.seen(self.connection, ROLE) or 0
        self.connection.rollback()
        try:
            consumer.write(lot, self.connection, self.fence, self.INSERT)
            assert seen <= consumer.term.token, "a zombie got in"
        except Stale:
            assert seen > consumer.term.token, "it was refused for nothing"

    def written(self) -> list[int]:
        found = [row[0] for row in self.connection.execute("SELECT token FROM work ORDER BY token")]
        self.connection.rollback()
        return found

    @invariant()
    def nothing_is_there_twice(self) -> None:
        if hasattr(self, "connection"):
            written = self.written()
            assert len(written) == len(set(written))

    def teardown(self) -> None:
        """A last consumer works off what is left."""
        if not hasattr(self, "connection"):
            return
        try:
            self.another_one_begins()
            while (lot := self.consumer.take(3)) is not None:
                self.consumer.write(lot, self.connection, self.fence, self.INSERT)
            assert self.written() == self.offsets
        finally:
            self.connection.close()


def lots(consumer: Consumer, most: int) -> Iterator[Lot]:
    while (lot := consumer.take(most)) is not None:
        yield lot


class Work:
    """A table `work`, and connections to its database. `each`: they commit each statement by themselves."""

    insert: str
    errors: tuple[type[Exception], ...] = ()

    def __init__(self, each: bool = False) -> None:
        self.each = each

    def connect(self) -> Any:
        raise NotImplementedError

    def written(self, connection: Any) -> list[int]:
        found = [row[0] for row in connection.execute("SELECT token FROM work ORDER BY id")]
        connection.rollback()
        return found


class OnSqlite(Work):
    insert = "INSERT INTO work (token) VALUES (?)"

    def __init__(self, path: Path, stack: ExitStack, each: bool) -> None:
        super().__init__(each)
        self._path, self._stack = path, stack
        self.connect().execute("CREATE TABLE work (id INTEGER PRIMARY KEY, token INTEGER)")

    def connect(self) -> sqlite3.Connection:
        options: dict[str, Any] = {"isolation_level": None} if self.each else {}
        opened = sqlite3.connect(self._path, timeout=60, check_same_thread=False, **options)
        return self._stack.enter_context(closing(opened))


class OnPostgres(Work):
    insert = "INSERT INTO work (token) VALUES (%s)"

    def __init__(self, sink: Sink, each: bool) -> None:
        from psycopg import Error

        super().__init__(each)
        self.errors = (Error,)
        self.sink = sink

    def connect(self) -> Any:
        return self.sink.connect(autocommit=self.each)
