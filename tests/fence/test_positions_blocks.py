"""A batch's transaction on connections of all sorts: it is begun and committed by the batch, or refused before anything is
written."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from positions_tools import Consumer, Lot, lots
from postgres_tools import Sink
from sqlalchemy.orm import Session

from pares.core.errors import ConfigError
from pares.fence import SqlFence

pytest.importorskip("psycopg")


def one() -> tuple[Consumer, Lot]:
    consumer = Consumer([0, 1, 2], 1)
    return consumer, next(lots(consumer, 3))


@pytest.mark.brokers
def test_inside_a_block_that_commits_later_nothing_is_done(sink: Sink) -> None:
    for each in (False, True):
        connection, (consumer, lot) = sink.connect(autocommit=each), one()
        with (
            connection.transaction(),
            pytest.raises(ConfigError, match="leave that block out"),
            consumer.transaction(lot, connection, SqlFence()),
        ):
            raise AssertionError("its writes would be committed later than it is done")
        assert sink.tokens() == []


@pytest.mark.brokers
def test_a_transaction_that_the_user_has_begun_is_committed_with_it(sink: Sink) -> None:
    for each in (False, True):
        connection, (consumer, lot) = sink.connect(autocommit=each), one()
        connection.execute("BEGIN" if each else "SELECT 1")
        connection.execute("INSERT INTO work (token) VALUES (7)")
        with consumer.transaction(lot, connection, SqlFence(f"fence_{each}")) as records:
            assert len(records) == 3
    assert sink.tokens() == [7, 7]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 has no autocommit= yet")
@pytest.mark.parametrize("autocommit", [True, False])
def test_sqlite_with_autocommit_said(tmp_path: Path, autocommit: bool) -> None:
    options: dict[str, Any] = {"autocommit": autocommit}
    connection, (consumer, lot) = sqlite3.connect(tmp_path / "sink.db", **options), one()
    connection.execute("CREATE TABLE work (token INTEGER)")
    with pytest.raises(sqlite3.OperationalError):
        consumer.write(lot, connection, SqlFence(), "INSERT INTO nowhere VALUES (?)", done=False)
    consumer.write(lot, connection, SqlFence(), "INSERT INTO work VALUES (?)")
    connection.close()
    with sqlite3.connect(tmp_path / "sink.db") as other:
        assert other.execute("SELECT token FROM work").fetchall() == [(0,), (1,), (2,)]
    other.close()


def test_sqlalchemy_connections_and_sessions(tmp_path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/sink.db")
    insert = sqlalchemy.text("INSERT INTO work (token) VALUES (:token)")
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE work (token INTEGER)"))
    consumer = Consumer([0, 1, 2, 3], 1)
    first, second = lots(consumer, 2)
    with engine.connect() as connection, consumer.transaction(second, connection, SqlFence()) as records:
        for record in records:
            connection.execute(insert, {"token": record.offset})
    with Session(engine) as session, consumer.transaction(first, session, SqlFence()) as records:  # type: ignore[assignment]
        for record in records:
            session.execute(insert, {"token": record.offset})
    with engine.connect() as connection:
        found = connection.execute(sqlalchemy.text("SELECT token FROM work")).all()
    assert [token for (token,) in found] == [2, 3, 0, 1]
    engine.dispose()


DJANGO = """
import sys
from django.conf import settings
name = sys.argv[1]
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": name}})
import django
django.setup()
from django.db import connection, transaction
from positions_tools import Consumer, lots
from pares.core.errors import ConfigError
from pares.fence import SqlFence

consumer = Consumer([0, 1, 2, 3], 1)
first, second = lots(consumer, 2)
with connection.cursor() as cursor:
    cursor.execute("CREATE TABLE work (token INTEGER)")
try:
    with transaction.atomic(), consumer.transaction(first, connection, SqlFence()):
        raise AssertionError("it would be committed later than it is done")
except ConfigError as error:
    assert "transaction.atomic()" in str(error)
for lot in (second, first):
    with consumer.transaction(lot, connection, SqlFence()) as records, transaction.atomic():
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO work VALUES (%s)", [(record.offset,) for record in records])
with connection.cursor() as cursor:
    cursor.execute("SELECT token FROM work")
    assert [row[0] for row in cursor.fetchall()] == [2, 3, 0, 1]
try:
    with consumer.transaction(first, connection, SqlFence()):
        raise KeyError
except KeyError:
    pass
print("fine")
"""


def test_djangos_connection_in_a_process_of_its_own(tmp_path: Path) -> None:
    import os
    import subprocess

    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])}
    ran = subprocess.run(
        [sys.executable, "-c", DJANGO, str(tmp_path / "sink.db")], env=env, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.returncode) == ("fine\n", 0), ran.stderr
