"""SqlFence through SQLAlchemy's connections and sessions: its transaction is the one that the check stands in."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from postgres_tools import Sink, Term
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from pares.core.errors import CapabilityError, ConfigError, Stale
from pares.fence import SqlFence

INSERT = text("INSERT INTO work (token) VALUES (:token)")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.brokers)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with contextlib.ExitStack() as stack:
        if request.param == "sqlite":
            url = f"sqlite:///{tmp_path}/sink.db"
        else:
            url = Sink(request.getfixturevalue("postgres"), stack).url.replace("postgresql", "postgresql+psycopg", 1)
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE IF NOT EXISTS work (id integer PRIMARY KEY, token bigint)"))
            connection.execute(text("DROP TABLE work"))
            key = "integer" if request.param == "sqlite" else "bigserial"
            connection.execute(text(f"CREATE TABLE work (id {key} PRIMARY KEY, token bigint)"))
        yield engine
        engine.dispose()


def tokens(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return [row[0] for row in connection.execute(text("SELECT token FROM work ORDER BY id"))]


def write(connection: sqlalchemy.Connection | Session, fence: SqlFence, token: int) -> None:
    fence.check(connection, Term("r", 0, token))
    connection.execute(INSERT, {"token": token})


def test_the_check_stands_in_sqlalchemys_transaction(engine: Engine) -> None:
    fence = SqlFence()
    for token in (5, 5, 7):
        with engine.begin() as connection:
            write(connection, fence, token)
    with pytest.raises(Stale), engine.begin() as connection:
        write(connection, fence, 6)
    assert tokens(engine) == [5, 5, 7]
    with engine.connect() as connection:
        assert fence.seen(connection, "r") == 7


def test_commit_as_you_go(engine: Engine) -> None:
    """A connection on which nobody has begun anything: the check does, and its commit is the user's."""
    fence = SqlFence()
    with engine.connect() as connection:
        fence.check(connection, Term("r", 0, 5))
        connection.rollback()
        assert fence.seen(connection, "r") is None
        connection.rollback()
        fence.check(connection, Term("r", 0, 6))
        connection.commit()
        with pytest.raises(Stale):
            write(connection, fence, 5)
        connection.rollback()
        write(connection, fence, 7)
        connection.commit()
    assert tokens(engine) == [7]
    with engine.connect() as connection:
        assert fence.seen(connection, "r") == 7


def test_what_fails_after_the_check_takes_it_back(engine: Engine) -> None:
    fence = SqlFence()
    with pytest.raises(KeyError), engine.begin() as connection:  # noqa: PT012
        write(connection, fence, 5)
        raise KeyError
    assert tokens(engine) == []
    with engine.begin() as connection:
        write(connection, fence, 4)
    assert tokens(engine) == [4]


def test_sessions(engine: Engine) -> None:
    fence = SqlFence()
    with Session(engine) as session:
        write(session, fence, 5)
        session.commit()
    factory = scoped_session(sessionmaker(engine))
    with factory.begin():
        fence.check(factory, Term("r", 0, 6))  # type: ignore[arg-type]
        factory.execute(INSERT, {"token": 6})
    factory.remove()
    with pytest.raises(Stale), sessionmaker(engine).begin() as session:
        write(session, fence, 5)
    assert tokens(engine) == [5, 6]


def test_a_connection_that_commits_each_statement_is_refused(engine: Engine) -> None:
    fence = SqlFence()
    with (
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        pytest.raises(ConfigError, match="commits each statement by itself"),
    ):
        fence.check(connection, Term("r", 0, 5))
    with engine.connect() as connection:
        assert fence.seen(connection, "r") is None


def test_drivers_that_are_not_known_are_named() -> None:
    class Strange:
        __module__ = "strange"

    class Pool:
        driver_connection = Strange()

    class Wrapped(sqlalchemy.Connection):
        connection = Pool()  # type: ignore[assignment]

        def __init__(self) -> None:
            pass

        def in_transaction(self) -> bool:
            return True

    with pytest.raises(CapabilityError, match=r"can't use a strange\.\S*Strange below a \S*Wrapped"):
        SqlFence().check(Wrapped(), Term("r", 0, 5))


def test_nobody_pays_for_what_others_use() -> None:
    script = (
        "import sqlite3, sys, pares; from pares.fence import SqlFence\n"
        "from types import SimpleNamespace\n"
        "with sqlite3.connect(':memory:') as c: SqlFence().check(c, SimpleNamespace(role='r', seat=0, token=1))\n"
        "pares.Member, pares.aio\n"
        "print([m for m in ('psycopg', 'sqlalchemy', 'starlette', 'prometheus_client', 'opentelemetry') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_asynchronous_connections_are_refused_by_name(tmp_path: Path) -> None:
    """All that SQLAlchemy and aiosqlite have of the sort; and what the error says to do instead works."""
    import asyncio

    import aiosqlite
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session, async_sessionmaker
    from sqlalchemy.ext.asyncio import create_async_engine as create

    fence, term = SqlFence(), Term("r", 0, 5)

    def refused(connection: object, name: str) -> None:
        with pytest.raises(CapabilityError, match=rf"{name}.*which is asynchronous.*asyncio\.to_thread"):
            fence.check(connection, term)  # type: ignore[arg-type]

    async def tried() -> None:
        engine = create(f"sqlite+aiosqlite:///{tmp_path}/sink.db")
        async with engine.begin() as connection:
            assert isinstance(connection, AsyncConnection)
            refused(connection, "AsyncConnection")
            # Its synchronous face is one of aiosqlite's below.
            await connection.run_sync(lambda one: refused(one, r"aiosqlite\.\S*Connection below a"))
        async with AsyncSession(engine) as session:
            refused(session, "AsyncSession")
        refused(async_scoped_session(async_sessionmaker(engine), asyncio.current_task), "async_scoped_session")
        await engine.dispose()
        async with aiosqlite.connect(tmp_path / "sink.db") as plain:
            refused(plain, r"aiosqlite\.\S*Connection")

        def checked() -> None:
            instead = create_engine(f"sqlite:///{tmp_path}/sink.db")
            with instead.begin() as synchronous:
                fence.check(synchronous, term)
                assert fence.seen(synchronous, "r") == 5
            instead.dispose()

        await asyncio.to_thread(checked)

    asyncio.run(tried())
