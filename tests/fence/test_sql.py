"""SqlFence on SQLite: what commits passed the fence, in whatever order transactions come and however they end."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pares.core.errors import CapabilityError, ConfigError, Stale
from pares.fence import SqlFence


@dataclass(frozen=True)
class Term:
    role: str
    seat: int
    token: int


OPENED: list[sqlite3.Connection] = []


@pytest.fixture(autouse=True)
def _closes() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def connect(path: Path, **options: Any) -> sqlite3.Connection:
    """Which the test need not close."""
    connection = sqlite3.connect(path, timeout=0, **options)
    OPENED.append(connection)
    connection.execute("CREATE TABLE IF NOT EXISTS work (id INTEGER PRIMARY KEY, token INTEGER)")
    connection.commit()
    return connection


def write(connection: sqlite3.Connection, fence: SqlFence, term: Term) -> None:
    with connection:
        fence.check(connection, term)
        connection.execute("INSERT INTO work (token) VALUES (?)", (term.token,))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sink.db"


def test_a_lower_token_is_refused_with_its_writes(path: Path) -> None:
    connection, fence = connect(path), SqlFence()
    assert fence.seen(connection, "r") is None
    write(connection, fence, Term("r", 0, 5))
    write(connection, fence, Term("r", 0, 5))
    write(connection, fence, Term("r", 0, 7))
    with pytest.raises(Stale) as stale:
        write(connection, fence, Term("r", 0, 6))
    assert (stale.value.token, stale.value.seen) == (6, 7)
    assert [row[0] for row in connection.execute("SELECT token FROM work ORDER BY id")] == [5, 5, 7]
    assert fence.seen(connection, "r") == 7


def test_seats_groups_and_tables_are_fenced_apart(path: Path) -> None:
    connection = connect(path)
    write(connection, SqlFence(), Term("r", 0, 9))
    write(connection, SqlFence(), Term("r", 1, 1))
    write(connection, SqlFence(), Term("R", 0, 1))
    write(connection, SqlFence(group="g"), Term("r", 0, 2))
    write(connection, SqlFence("other"), Term("r", 0, 3))
    write(connection, SqlFence("main.other"), Term("r", 0, 3))
    write(connection, SqlFence(), Term("a/b'; DROP TABLE work; -- ü", 0, 1))
    with pytest.raises(Stale):
        write(connection, SqlFence(group="g"), Term("r", 0, 1))


def test_what_the_fence_has_seen_is_rolled_back_with_the_transaction(path: Path) -> None:
    connection, fence = connect(path), SqlFence()
    write(connection, fence, Term("r", 0, 1))

    class Broken(Exception):
        pass

    with pytest.raises(Broken), connection:  # noqa: PT012
        fence.check(connection, Term("r", 0, 5))
        raise Broken
    assert fence.seen(connection, "r") == 1
    write(connection, fence, Term("r", 0, 2))


def test_stale_leaves_no_transaction_open_that_the_check_began(path: Path) -> None:
    connection, other, fence = connect(path), connect(path), SqlFence()
    write(connection, fence, Term("r", 0, 5))
    with pytest.raises(Stale):
        fence.check(connection, Term("r", 0, 1))
    assert not connection.in_transaction
    write(other, fence, Term("r", 0, 6))

    other.execute("INSERT INTO work (token) VALUES (-1)")
    with pytest.raises(Stale):
        fence.check(other, Term("r", 0, 1))
    assert other.in_transaction, "the user began this one, and ends it"


@pytest.mark.parametrize("level", ["", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
def test_where_the_driver_begins_transactions_the_check_is_in_the_same_one(path: Path, level: str) -> None:
    connection, fence = connect(path, isolation_level=level), SqlFence()
    fence.check(connection, Term("r", 0, 5))
    assert connection.in_transaction
    connection.execute("INSERT INTO work (token) VALUES (5)")
    connection.rollback()
    assert fence.seen(connection, "r") is None
    assert connection.execute("SELECT count(*) FROM work").fetchone() == (0,)


def test_a_check_that_would_be_committed_by_itself_is_refused(path: Path) -> None:
    connection, fence = connect(path, isolation_level=None), SqlFence()
    with pytest.raises(ConfigError, match="BEGIN IMMEDIATE"):
        fence.check(connection, Term("r", 0, 5))
    assert fence.seen(connection, "r") is None
    for begin in ("BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT s"):
        connection.execute(begin)
        fence.check(connection, Term("r", 0, 5))
        connection.execute("ROLLBACK")
        assert fence.seen(connection, "r") is None


@pytest.mark.parametrize("by_itself", [True, False])
def test_each_pythons_newest_way_to_say_who_commits(path: Path, by_itself: bool) -> None:
    new, old = {"autocommit": by_itself}, {"isolation_level": None if by_itself else ""}
    fence = SqlFence()
    with closing(sqlite3.connect(path, **(new if sys.version_info >= (3, 12) else old))) as connection:  # type: ignore[arg-type]
        if by_itself:
            with pytest.raises(ConfigError, match="BEGIN IMMEDIATE"):
                fence.check(connection, Term("r", 0, 5))
        else:
            fence.check(connection, Term("r", 0, 5))
            connection.rollback()
        assert fence.seen(connection, "r") is None


def test_a_transaction_that_read_before_another_wrote_can_not_write_any_more(path: Path) -> None:
    """The old leader reads its state, the new one passes the fence and commits, the old one goes on."""
    fence = SqlFence()
    old, new = connect(path, isolation_level=None), connect(path)
    old.execute("PRAGMA journal_mode = WAL")
    write(new, fence, Term("r", 0, 1))
    old.execute("BEGIN DEFERRED")
    old.execute("SELECT * FROM work").fetchall()
    write(new, fence, Term("r", 0, 2))
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        fence.check(old, Term("r", 0, 1))
    old.execute("ROLLBACK")
    assert fence.seen(new, "r") == 2


def test_nobody_passes_between_a_check_and_its_commit(path: Path) -> None:
    fence, first, second = SqlFence(), connect(path), connect(path)
    write(first, fence, Term("r", 0, 1))
    fence.check(first, Term("r", 0, 2))
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        fence.check(second, Term("r", 0, 3))
    first.commit()
    write(second, fence, Term("r", 0, 3))


@pytest.mark.parametrize("factory", [sqlite3.Row, lambda cursor, row: {"n": row}])  # type: ignore[no-any-return]
def test_row_factories_of_the_user_do_not_matter(path: Path, factory: Callable[..., Any]) -> None:
    connection, fence = connect(path), SqlFence()
    connection.row_factory = factory
    write(connection, fence, Term("r", 0, 5))
    with pytest.raises(Stale, match="seen 5"):
        write(connection, fence, Term("r", 0, 4))


@pytest.mark.parametrize("table", ["", "a b", "a.b.c", 'x"; DROP TABLE work', "1a", "é", "a" * 70])
def test_impossible_tables(table: str) -> None:
    with pytest.raises(ConfigError, match="table"):
        SqlFence(table)


@pytest.mark.parametrize(
    "term", [Term("", 0, 1), Term("r", -1, 1), Term("r", 0, -1), Term("r", 0, 2**63), Term("r", 0, True)]
)
def test_impossible_terms(path: Path, term: Term) -> None:
    with pytest.raises(ConfigError, match="give a term"):
        SqlFence().check(connect(path), term)


def test_other_connections_are_refused_by_name() -> None:
    with pytest.raises(CapabilityError, match=r"builtins\.dict"):
        SqlFence().check({}, Term("r", 0, 1))  # type: ignore[arg-type]


SEATS = [("a", 0), ("a", 1)]
WRITERS = 3


class Interleaved(RuleBasedStateMachine):
    """Several writers' transactions on one file, step by step in any order: what was committed never goes back a token."""

    @initialize(wal=st.booleans(), levels=st.lists(st.sampled_from(["", "IMMEDIATE", None]), min_size=3, max_size=3))
    def open(self, wal: bool, levels: list[str | None]) -> None:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "sink.db"
        self.writers = [connect(path, isolation_level=level) for level in levels]
        self.writers[0].execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
        self.writers[0].execute("CREATE TABLE sink (id INTEGER PRIMARY KEY AUTOINCREMENT, role, seat, token)")
        self.writers[0].commit()
        self.reader = connect(path)
        self.fence = SqlFence()
        self.seen: dict[tuple[str, int], int] = {}
        self.pending: list[dict[tuple[str, int], int]] = [{} for _ in range(WRITERS)]

    writer = st.integers(0, WRITERS - 1)

    @rule(writer=writer, deferred=st.booleans(), read=st.booleans())
    def begin(self, writer: int, deferred: bool, read: bool) -> None:
        connection = self.writers[writer]
        if connection.in_transaction:
            return
        try:
            connection.execute("BEGIN DEFERRED" if deferred else "BEGIN IMMEDIATE")
            if read:
                connection.execute("SELECT count(*) FROM sink").fetchall()
        except sqlite3.OperationalError:
            self.roll_back(writer)

    @rule(writer=writer, seat=st.sampled_from(SEATS), token=st.integers(0, 6))
    def check_and_write(self, writer: int, seat: tuple[str, int], token: int) -> None:
        connection, pending = self.writers[writer], self.pending[writer]
        seen = {**self.seen, **pending}.get(seat, -1)
        outcome: Exception | None = None
        try:
            self.fence.check(connection, Term(*seat, token))
        except (ConfigError, sqlite3.OperationalError, Stale) as error:
            outcome = error
        match outcome:
            case None:
                assert token >= seen
                assert connection.in_transaction
                connection.execute("INSERT INTO sink (role, seat, token) VALUES (?, ?, ?)", (*seat, token))
                pending[seat] = token
            case Stale():
                assert outcome.seen == seen > token
            case ConfigError():
                assert connection.isolation_level is None
                assert not connection.in_transaction
            case _:
                assert "locked" in str(outcome)
                self.roll_back(writer)

    @rule(writer=writer)
    def commit(self, writer: int) -> None:
        try:
            self.writers[writer].commit()
        except sqlite3.OperationalError:
            self.roll_back(writer)
        self.seen |= self.pending[writer]
        self.pending[writer] = {}

    @rule(writer=writer)
    def roll_back(self, writer: int) -> None:
        self.writers[writer].rollback()
        self.pending[writer] = {}

    @invariant()
    @precondition(lambda self: not any(self.pending))
    def tokens_never_fall(self) -> None:
        rows: list[tuple[str, int, int]] = self.reader.execute(
            "SELECT role, seat, token FROM sink ORDER BY id"
        ).fetchall()
        for seat in SEATS:
            tokens = [token for role, index, token in rows if (role, index) == seat]
            assert tokens == sorted(tokens)
            assert self.seen.get(seat) == (tokens[-1] if tokens else None) == self.fence.seen(self.reader, *seat)

    def teardown(self) -> None:
        for connection in (*self.writers, self.reader):
            connection.close()
        self.folder.cleanup()


TestInterleaved = Interleaved.TestCase
TestInterleaved.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


WRITER = """
import os, signal, sqlite3, sys
from dataclasses import dataclass
from pares.core.errors import Stale
from pares.fence import SqlFence

@dataclass
class Term:
    role: str
    seat: int
    token: int

path, token, count, freeze_at = sys.argv[1], *map(int, sys.argv[2:])
connection, fence = sqlite3.connect(path, timeout=60), SqlFence()
connection.execute("CREATE TABLE IF NOT EXISTS work (id INTEGER PRIMARY KEY AUTOINCREMENT, token)")
connection.commit()
print("ready", flush=True)
for number in range(count):
    if number == freeze_at: os.kill(os.getpid(), signal.SIGSTOP)  # it has looked at its term, and is about to write
    try:
        with connection:
            fence.check(connection, Term("r", 0, token))
            connection.execute("INSERT INTO work (token) VALUES (?)", (token,))
        print("wrote", flush=True)
    except Stale as stale:
        print("stale", stale.seen, flush=True)
        break
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


@pytest.mark.processes
def test_a_frozen_leader_wakes_up_and_is_refused(path: Path) -> None:
    zombie = start(WRITER, path, 5, 10**9, 3)
    os.waitpid(zombie.pid, os.WUNTRACED)
    assert start(WRITER, path, 6, 20, -1).communicate(timeout=120)[0].count("wrote") == 20
    os.kill(zombie.pid, signal.SIGCONT)
    assert zombie.communicate(timeout=60)[0] == "ready\nwrote\nwrote\nwrote\nstale 6\n"
    tokens = [row[0] for row in connect(path).execute("SELECT token FROM work ORDER BY id")]
    assert tokens == [5] * 3 + [6] * 20


@pytest.mark.processes
def test_writers_of_many_terms_at_once(path: Path) -> None:
    writers = [start(WRITER, path, token, 30, -1) for token in (3, 1, 4, 2)]
    for writer in writers:
        output = writer.communicate(timeout=120)[0]
        assert writer.returncode == 0, output
    tokens = [row[0] for row in connect(path).execute("SELECT token FROM work ORDER BY id")]
    assert tokens == sorted(tokens)
    assert tokens.count(4) == 30
