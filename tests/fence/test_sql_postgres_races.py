"""SqlFence on a real PostgreSQL, several transactions at once: in any order, at whatever isolation, and if one stands still."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from postgres_tools import PATIENCE, Sink, Term, write

from pares.core.errors import ConfigError, Stale
from pares.fence import SqlFence

Level = psycopg.IsolationLevel


def waits(sink: Sink, who: psycopg.Connection[Any]) -> bool:
    """Whether its session waits for a lock."""
    with psycopg.connect(sink.url) as connection:
        query = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
        return connection.execute(query, (who.info.backend_pid,)).fetchone() == (True,)


def until(what: Any, saying: str) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, saying
        time.sleep(0.01)


# Several at once -------------------------------------------------------------------------------------------------------


def test_many_that_find_no_table_make_one(sink: Sink) -> None:
    writers = 8
    together, fence = threading.Barrier(writers), SqlFence()

    def one(token: int) -> str:
        with psycopg.connect(sink.url) as connection:
            connection.execute("SELECT 1")
            together.wait(PATIENCE)
            try:
                fence.check(connection, Term("r", 0, token))
                connection.execute("INSERT INTO work (token) VALUES (%s)", (token,))
            except Stale:
                return "stale"
        return "wrote"

    with ThreadPoolExecutor(writers) as pool:
        outcomes = list(pool.map(one, range(writers)))
    assert outcomes[-1] == "wrote", "nobody had a higher token"
    assert sink.tokens() == sorted(sink.tokens())
    assert len(sink.tokens()) == outcomes.count("wrote")


def test_nobody_passes_between_a_check_and_its_commit(sink: Sink) -> None:
    """The old leader has passed and not committed: the new one waits. Then the old one is too late."""
    fence, old, new = SqlFence(), sink.connect(), sink.connect()
    write(old, fence, Term("r", 0, 1))
    fence.check(old, Term("r", 0, 1))
    thread = threading.Thread(target=write, args=(new, fence, Term("r", 0, 2)))
    thread.start()
    until(lambda: waits(sink, new), "the new leader waits")
    old.execute("INSERT INTO work (token) VALUES (1)")
    old.commit()
    thread.join(PATIENCE)
    with pytest.raises(Stale):
        write(old, fence, Term("r", 0, 1))
    assert sink.tokens() == [1, 1, 2]


def test_who_waited_is_judged_by_what_was_committed_meanwhile(sink: Sink) -> None:
    """The new leader has passed; the old one, at READ COMMITTED, waits for the end of that and is refused."""
    fence, old, new = SqlFence(), sink.connect(), sink.connect()
    write(old, fence, Term("r", 0, 1))
    fence.check(new, Term("r", 0, 2))
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(write, old, fence, Term("r", 0, 1))
        until(lambda: waits(sink, old), "the old leader waits")
        new.commit()
        with pytest.raises(Stale) as stale:
            late.result(PATIENCE)
    assert stale.value.seen == 2
    assert sink.tokens() == [1]


@pytest.mark.parametrize("level", [Level.REPEATABLE_READ, Level.SERIALIZABLE])
def test_a_snapshot_from_before_anothers_write_can_not_be_written_on(sink: Sink, level: Level) -> None:
    """The old leader reads its state, the new one writes, the old one goes on: nothing that it read is true any more."""
    fence, old, new = SqlFence(), sink.connect(), sink.connect()
    write(old, fence, Term("r", 0, 1))
    old.isolation_level = level
    old.execute("SELECT * FROM work").fetchall()
    write(new, fence, Term("r", 0, 2))
    with pytest.raises(psycopg.errors.SerializationFailure):
        fence.check(old, Term("r", 0, 1))
    old.rollback()
    with pytest.raises(Stale):  # tried again, as one does
        write(old, fence, Term("r", 0, 1))
    assert sink.tokens() == [1, 2]


@pytest.mark.parametrize("level", [Level.READ_COMMITTED, Level.REPEATABLE_READ, Level.SERIALIZABLE])
def test_work_of_one_term_at_every_level(sink: Sink, level: Level) -> None:
    fence, connection = SqlFence(), sink.connect()
    connection.isolation_level = level
    for token in (1, 1, 2, 2):
        write(connection, fence, Term("r", 0, token))
    with pytest.raises(Stale):
        write(connection, fence, Term("r", 0, 1))
    assert sink.tokens() == [1, 1, 2, 2]


# Transactions that stand still -----------------------------------------------------------------------------------------


def test_a_transaction_that_stands_still_holds_nobody_up_for_long(sink: Sink) -> None:
    fence, old, new = SqlFence(stall=0.3), sink.connect(), sink.connect()
    write(old, fence, Term("r", 0, 1))
    fence.check(old, Term("r", 0, 1))
    old.execute("INSERT INTO work (token) VALUES (1)")
    write(new, fence, Term("r", 0, 2))  # waits until the server has ended the old one
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        old.execute("SELECT 1")
    assert sink.tokens() == [1, 2]


@pytest.mark.parametrize(
    ("already", "stall", "within", "after"),
    [
        ("0", 60, "1min", "0"),
        ("5min", 60, "1min", "5min"),
        ("7s", 60, "7s", "7s"),
        ("1h", None, "1h", "1h"),
        ("0", 0.5, "500ms", "0"),
    ],
)
def test_the_shorter_limit_holds_and_only_within_the_transaction(
    sink: Sink, already: str, stall: float | None, within: str, after: str
) -> None:
    connection, fence = sink.connect(), SqlFence(stall=stall)
    connection.execute(f"SET idle_in_transaction_session_timeout = '{already}'".encode())
    connection.commit()
    show = "SHOW idle_in_transaction_session_timeout"
    fence.check(connection, Term("r", 0, 1))
    fence.check(connection, Term("r", 0, 1))
    assert connection.execute(show).fetchone() == (within,)
    connection.commit()
    assert connection.execute(show).fetchone() == (after,)


@pytest.mark.parametrize("stall", [0, -1, 10**6, float("nan")])
def test_impossible_stalls(stall: float) -> None:
    with pytest.raises(ConfigError, match="stall"):
        SqlFence(stall=stall)


# Any order -------------------------------------------------------------------------------------------------------------

SEATS = [("a", 0), ("a", 1)]
WRITERS = 3


def interleaved(sink: Sink) -> type[RuleBasedStateMachine]:
    class Interleaved(RuleBasedStateMachine):
        """Several writers' transactions, step by step in any order: what was committed never goes back a token."""

        @initialize(levels=st.lists(st.sampled_from(list(Level)), min_size=WRITERS, max_size=WRITERS))
        def open(self, levels: list[Level]) -> None:
            self.reader = psycopg.connect(sink.url, autocommit=True)
            self.reader.execute("DROP TABLE IF EXISTS pares_fence")
            self.reader.execute("TRUNCATE work RESTART IDENTITY")
            self.reader.execute("ALTER TABLE work ADD COLUMN IF NOT EXISTS seat int")
            # A writer that would have to wait is told no instead: one thread plays them all.
            options = f"-csearch_path={sink.schema} -clock_timeout=20ms -cdeadlock_timeout=10s"
            self.writers = [psycopg.connect(sink.server.url, options=options) for _ in range(WRITERS)]
            for writer, level in zip(self.writers, levels, strict=True):
                writer.isolation_level = level
            self.fence = SqlFence()
            self.seen: dict[int, int] = {}
            self.pending: list[dict[int, int]] = [{} for _ in range(WRITERS)]

        writer = st.integers(0, WRITERS - 1)

        @rule(writer=writer)
        def read(self, writer: int) -> None:
            with contextlib.suppress(psycopg.errors.LockNotAvailable):
                self.writers[writer].execute("SELECT count(*) FROM work")

        @rule(writer=writer, seat=st.sampled_from(SEATS), token=st.integers(0, 6))
        def check_and_write(self, writer: int, seat: tuple[str, int], token: int) -> None:
            connection, index = self.writers[writer], seat[1]
            seen = {**self.seen, **self.pending[writer]}.get(index, -1)
            outcome: Exception | None = None
            try:
                self.fence.check(connection, Term(*seat, token))
            except (psycopg.errors.SerializationFailure, psycopg.errors.LockNotAvailable, ConfigError, Stale) as error:
                outcome = error
            match outcome:
                case None:
                    assert token >= seen
                    connection.execute("INSERT INTO work (token, seat) VALUES (%s, %s)", (token, index))
                    self.pending[writer][index] = token
                case Stale():
                    assert outcome.seen == seen > token
                case _:
                    self.roll_back(writer)

        @rule(writer=writer)
        def commit(self, writer: int) -> None:
            try:
                self.writers[writer].commit()
            except psycopg.errors.SerializationFailure:
                self.pending[writer] = {}
            self.seen |= self.pending[writer]
            self.pending[writer] = {}

        @rule(writer=writer)
        def roll_back(self, writer: int) -> None:
            self.writers[writer].rollback()
            self.pending[writer] = {}

        @invariant()
        def tokens_never_fall(self) -> None:
            if not hasattr(self, "reader"):
                return
            rows = self.reader.execute("SELECT seat, token FROM work ORDER BY id").fetchall()
            for _, index in SEATS:
                tokens = [token for seat, token in rows if seat == index]
                assert tokens == sorted(tokens)
                assert self.seen.get(index) == (tokens[-1] if tokens else None)

        def teardown(self) -> None:
            for connection in (*getattr(self, "writers", []), getattr(self, "reader", None)):
                if connection is not None:
                    connection.close()

    return Interleaved


def test_transactions_in_any_order(sink: Sink) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        interleaved(sink), settings=settings(max_examples=25, stateful_step_count=25, deadline=None)
    )
