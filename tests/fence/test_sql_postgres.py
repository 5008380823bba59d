"""SqlFence on a real PostgreSQL: what commits passed the fence, whatever the connection and whatever its user may do."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from postgres_tools import Sink, Term, write
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from pares.core.errors import CapabilityError, ConfigError, Stale
from pares.fence import SqlFence
from planted_secret import SECRET, leaks

IDLE, OPEN = TransactionStatus.IDLE, TransactionStatus.INTRANS


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
