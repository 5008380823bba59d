"""SqlFence on a real PostgreSQL: what commits passed the fence, at whatever isolation and however transactions end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from postgres_tools import PATIENCE, Sink, Term, write
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from pares.core.errors import CapabilityError, ConfigError, Stale
from pares.dev import Postgres
from pares.fence import SqlFence
from planted_secret import SECRET, leaks

Level = psycopg.IsolationLevel
IDLE, OPEN = TransactionStatus.IDLE, TransactionStatus.INTRANS


@pytest.fixture
def sink(postgres: Postgres) -> Iterator[Sink]:
    with contextlib.ExitStack() as stack:
        yield Sink(postgres, stack)


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


def test_a_lower_token_is_refused_with_its_writes(sink: Sink) -> None:
    connection, fence = sink.connect(), SqlFence()
    assert fence.seen(connection, "r") is None
    connection.commit()
    for token in (5, 5, 7):
        write(connection, fence, Term("r", 0, token))
    with pytest.raises(Stale) as stale:
        write(connection, fence, Term("r", 0, 6))
    assert (stale.value.token, stale.value.seen) == (6, 7)
    assert sink.tokens() == [5, 5, 7]
    assert fence.seen(connection, "r") == 7


def test_seats_groups_and_tables_are_fenced_apart(sink: Sink) -> None:
    connection = sink.connect()
    write(connection, SqlFence(), Term("r", 0, 9))
    write(connection, SqlFence(), Term("r", 1, 1))
    write(connection, SqlFence(), Term("R", 0, 1))
    write(connection, SqlFence(group="g"), Term("r", 0, 2))
    write(connection, SqlFence("other"), Term("r", 0, 3))
    write(connection, SqlFence(f"{sink.schema}.other"), Term("r", 0, 3))
    write(connection, SqlFence("Other"), Term("r", 0, 2))
    write(connection, SqlFence(), Term("a/b'; DROP TABLE work; -- %s ü", 0, 1))
    write(connection, SqlFence(), Term("r", 2**62, 2**63 - 1))
    with pytest.raises(Stale):
        write(connection, SqlFence(group="g"), Term("r", 0, 1))
    assert SqlFence().seen(connection, "r", 2**62) == 2**63 - 1


def test_what_the_fence_has_seen_is_rolled_back_with_the_transaction(sink: Sink) -> None:
    connection, fence = sink.connect(), SqlFence()
    write(connection, fence, Term("r", 0, 1))
    fence.check(connection, Term("r", 0, 5))
    connection.rollback()
    assert fence.seen(connection, "r") == 1
    write(connection, fence, Term("r", 0, 2))


def test_the_table_is_rolled_back_with_the_transaction_that_made_it(sink: Sink) -> None:
    connection, fence = sink.connect(), SqlFence()
    for _ in range(2):
        fence.check(connection, Term("r", 0, 5))
        fence.check(connection, Term("r", 0, 5))
        connection.rollback()
        assert fence.seen(connection, "r") is None
        connection.rollback()
    write(connection, fence, Term("r", 0, 2))


def test_stale_leaves_no_transaction_open_that_the_check_began(sink: Sink) -> None:
    connection, fence = sink.connect(), SqlFence()
    write(connection, fence, Term("r", 0, 5))
    with pytest.raises(Stale):
        fence.check(connection, Term("r", 0, 1))
    assert connection.info.transaction_status == IDLE

    connection.execute("INSERT INTO work (token) VALUES (-1)")
    with pytest.raises(Stale):
        fence.check(connection, Term("r", 0, 1))
    assert connection.info.transaction_status == OPEN, "the user began this one, and ends it"
    connection.execute("SELECT 1")


def test_a_check_that_would_be_committed_by_itself_is_refused(sink: Sink) -> None:
    connection, fence = sink.connect(autocommit=True), SqlFence()
    with pytest.raises(ConfigError, match=r"with connection\.transaction"):
        fence.check(connection, Term("r", 0, 5))
    assert fence.seen(connection, "r") is None
    write(connection, fence, Term("r", 0, 5))
    connection.execute("BEGIN")
    fence.check(connection, Term("r", 0, 6))
    connection.execute("ROLLBACK")
    assert fence.seen(connection, "r") == 5
    with pytest.raises(Stale), connection.transaction():
        fence.check(connection, Term("r", 0, 4))
    assert connection.info.transaction_status == IDLE


def test_a_transaction_that_has_failed_is_refused_in_plain_words(sink: Sink) -> None:
    connection, fence = sink.connect(), SqlFence()
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT 1 / 0")
    with pytest.raises(ConfigError, match=r"failed already.*roll it back"):
        fence.check(connection, Term("r", 0, 5))
    connection.rollback()
    write(connection, fence, Term("r", 0, 5))


def test_closed_connections_pipelines_and_asynchronous_ones(sink: Sink) -> None:
    fence = SqlFence()
    connection = sink.connect()
    with pytest.raises(CapabilityError, match="pipeline"), connection.pipeline():
        fence.check(connection, Term("r", 0, 5))
    connection.close()
    with pytest.raises(psycopg.OperationalError, match="closed"):
        fence.check(connection, Term("r", 0, 5))

    async def asynchronous() -> None:
        async with await psycopg.AsyncConnection.connect(sink.url) as other:
            with pytest.raises(CapabilityError, match=r"AsyncConnection, which is asynchronous.*asyncio\.to_thread"):
                fence.check(other, Term("r", 0, 1))  # type: ignore[arg-type]

    asyncio.run(asynchronous())


def test_psycopg2_is_refused_by_name_also_below_others(sink: Sink) -> None:
    import psycopg2
    import sqlalchemy

    fence = SqlFence()
    old = psycopg2.connect(sink.url)
    says = r"psycopg2\S*connection.*psycopg2 is not supported, psycopg 3 is"
    with pytest.raises(CapabilityError, match=says):
        fence.check(old, Term("r", 0, 1))  # type: ignore[arg-type]
    old.close()
    engine = sqlalchemy.create_engine(sink.url.replace("postgresql", "postgresql+psycopg2", 1))
    with engine.begin() as connection, pytest.raises(CapabilityError, match=rf"{says}.*postgresql\+psycopg://"):
        fence.check(connection, Term("r", 0, 1))
    engine.dispose()


def test_a_password_shows_in_no_error(sink: Sink) -> None:
    """Nor in what the driver says of a connection that a fence names."""
    url = make_conninfo(sink.url, password=SECRET)
    fence, connection = SqlFence(), psycopg.connect(url)
    write(connection, fence, Term("r", 0, 5))
    with pytest.raises(Stale) as stale:
        fence.check(connection, Term("r", 0, 4))
    connection.rollback()
    connection.autocommit = True
    with pytest.raises(ConfigError) as alone:
        fence.check(connection, Term("r", 0, 6))
    connection.close()
    with pytest.raises(psycopg.OperationalError) as closed:
        fence.check(connection, Term("r", 0, 6))
    texts = [repr(fence), repr(connection), *(str(error.value) for error in (stale, alone, closed))]
    assert not [text for text in texts if leaks(text)]


@pytest.mark.parametrize(
    "options",
    [
        {"row_factory": dict_row},
        {"cursor_factory": psycopg.ClientCursor},
        {"prepare_threshold": 0},
        {"prepare_threshold": None},
    ],
)
def test_what_the_user_has_set_on_the_connection_does_not_matter(sink: Sink, options: dict[str, Any]) -> None:
    connection, fence = sink.connect(**options), SqlFence()
    write(connection, fence, Term("r", 0, 5))
    write(connection, fence, Term("r", 0, 5))
    with pytest.raises(Stale, match="seen 5"):
        write(connection, fence, Term("r", 0, 4))


# Rights ----------------------------------------------------------------------------------------------------------------


def test_who_may_not_make_the_table_is_told_what_to_do(sink: Sink) -> None:
    url, fence = sink.another_user(), SqlFence()
    name = url.split("//")[1].split("@")[0]
    with psycopg.connect(url) as connection, sink.connect(autocommit=True) as owner:
        with pytest.raises(CapabilityError, match=r"may not make it.*GRANT SELECT, INSERT, UPDATE"):
            write(connection, fence, Term("r", 0, 5))
        assert connection.info.transaction_status == IDLE
        owner.execute(fence.ddl.encode())
        with pytest.raises(CapabilityError, match=r"may not write.*GRANT SELECT, INSERT, UPDATE"):
            write(connection, fence, Term("r", 0, 5))
        owner.execute(f"GRANT SELECT, INSERT, UPDATE ON pares_fence TO {name}".encode())
        write(connection, fence, Term("r", 0, 5))
        with pytest.raises(Stale):
            write(connection, fence, Term("r", 0, 4))
    assert sink.tokens() == [5]


def test_a_transaction_that_may_not_write_is_the_drivers_matter(sink: Sink) -> None:
    connection, fence = sink.connect(), SqlFence()
    write(connection, fence, Term("r", 0, 5))
    connection.read_only = True
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        write(connection, fence, Term("r", 0, 6))
    assert fence.seen(connection, "r") == 5


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
            # Who would have to wait is told no instead: one thread plays them all.
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
