"""What can be wrong with a PostgreSQL ledger's URL, its server or its tables; messages name the remedy and no secret."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from ledger_stages import in_threads
from log_tools import payloads
from postgres_harm import data_of, sql
from postgres_stages import PostgresStage

import pares.ledger
from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.dev import Postgres
from pares.ledger.postgres import link
from pares.ledger.postgres.log import PostgresLedger
from planted_secret import SECRET, leaks


@pytest.fixture
def stage(postgres: Postgres, tmp_path: Any) -> Iterator[PostgresStage]:
    stage = PostgresStage(tmp_path, postgres)
    yield stage
    stage.close()


def test_nobody_listens(stage: PostgresStage) -> None:
    with pytest.raises(LedgerUnavailable, match="refused"):
        pares.ledger.open("postgresql://pares@127.0.0.1:1/postgres")
    with pytest.raises(LedgerUnavailable, match='database "nowhere" does not exist'):
        pares.ledger.open(stage.server.url.replace("/postgres", "/nowhere"))


def test_a_wrong_password_and_none(tmp_path: Any) -> None:
    with Postgres() as server:
        sql(server.url, f"CREATE USER ann PASSWORD '{SECRET}'", "GRANT CREATE ON SCHEMA public TO ann")
        rules = data_of(server) / "pg_hba.conf"
        rules.write_text(f"host all ann 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        sql(server.url, "SELECT pg_reload_conf()")
        url = server.url.replace("pares@", "ann@")
        right = pares.ledger.open(url, options={"password": SECRET})
        assert right.append(b"x") == 0
        assert not leaks(right.url)
        right.close()
        with pytest.raises(LedgerUnavailable, match="let libpq find a password") as none:
            pares.ledger.open(url, options={"passfile": os.devnull})
        with pytest.raises(LedgerUnavailable, match="look whether it, the user and the database are right") as wrong:
            pares.ledger.open(url, options={"password": SECRET[::-1]})
        for caught in (none, wrong):
            assert not leaks(str(caught.value))
            assert SECRET[::-1] not in str(caught.value)
        settings = tmp_path / "client.properties"
        settings.write_text(f"password={SECRET}\n")
        by_file = pares.ledger.open(f"{url}?config={settings}")
        assert payloads(by_file) == [b"x"]
        by_file.close()


def test_tables_of_somebody_else_are_left_as_they_are(stage: PostgresStage) -> None:
    url = stage.server.url
    sql(url, f"CREATE TABLE {stage.table} (mine text)", f"INSERT INTO {stage.table} VALUES ('x')")
    with pytest.raises(ConfigError, match=f"{stage.table} is no table of a pares ledger.*name another one by .table="):
        stage.open()
    assert sql(url, f"SELECT mine FROM {stage.table}") == [("x",)]
    sql(url, f"DROP TABLE {stage.table}", f"CREATE VIEW {stage.table} AS SELECT 1 AS n")
    with pytest.raises(ConfigError, match="no table of a pares ledger"):
        stage.open()
    sql(url, f"DROP VIEW {stage.table}")
    stage.open().append(b"x")


def test_half_of_the_tables_and_a_newer_layout(stage: PostgresStage) -> None:
    stage.open().append(b"x")
    sql(stage.server.url, f"ALTER TABLE {stage.table} RENAME TO {stage.table}_away")
    with pytest.raises(ConfigError, match=f"{stage.table} is missing: restore it"):
        stage.open()
    sql(stage.server.url, f"ALTER TABLE {stage.table}_away RENAME TO {stage.table}")
    sql(stage.server.url, f"COMMENT ON TABLE {stage.table} IS 'pares ledger, layout 2'")
    with pytest.raises(CapabilityError, match=r"made by a newer pares.*upgrade pares"):
        stage.open()


def test_a_server_that_is_too_old(stage: PostgresStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "OLDEST", 990_000)
    with pytest.raises(CapabilityError, match="a ledger needs 99 or newer; upgrade the server"):
        stage.open()


def test_who_may_not_make_tables_is_told_what_to_grant(stage: PostgresStage) -> None:
    sql(stage.server.url, f"CREATE USER u_{stage.table}", f"CREATE SCHEMA s_{stage.table}")
    sql(stage.server.url, f"GRANT USAGE ON SCHEMA s_{stage.table} TO u_{stage.table}")
    url = f"{stage.server.url.replace('pares@', f'u_{stage.table}@')}?table=s_{stage.table}.log"
    with pytest.raises(ConfigError, match=f'GRANT CREATE ON SCHEMA "s_{stage.table}" TO "u_{stage.table}"'):
        pares.ledger.open(url)
    with pytest.raises(ConfigError, match="readonly makes nothing"):
        stage.open(readonly=True)


def test_a_database_with_unusual_settings(stage: PostgresStage) -> None:
    """None of what a user's sessions are set to makes a difference."""
    name, url = f"u_{stage.table}", stage.server.url
    settings = {
        "default_transaction_isolation": "serializable",
        "standard_conforming_strings": "off",
        "bytea_output": "escape",
        "DateStyle": "'German'",
        "TimeZone": "'Asia/Kathmandu'",
        "synchronous_commit": "off",
        "statement_timeout": "0",
    }
    sql(url, f"CREATE USER {name} SUPERUSER", *(f"ALTER USER {name} SET {key} = {to}" for key, to in settings.items()))
    theirs = f"{stage.url.replace('pares@', f'{name}@')}"
    ledger = pares.ledger.open(theirs)
    odd = [b"\\", b"'", b"\\x41", bytes(range(256)), b""]
    assert ledger.append_many(odd) == [0, 1, 2, 3, 4]
    assert payloads(ledger) == odd
    assert ledger.topic("back\\slash'quote\"%$1").append(odd[0]) == 0
    in_threads(stage, ["a", "b", "c"], 30)
    assert ledger.end() == 95
    ledger.close()


def test_the_statements_for_migrations_make_what_opening_makes(stage: PostgresStage) -> None:
    ledger = stage.open()
    assert isinstance(ledger, PostgresLedger)
    statements = ledger.ddl
    stage.delete()
    sql(stage.server.url, *statements.split(";"))
    again = stage.open()
    assert again.append(b"x") == 0


def test_many_that_open_it_first_make_it_once(stage: PostgresStage) -> None:
    with ThreadPoolExecutor(8) as pool:
        ledgers = list(pool.map(lambda _: pares.ledger.open(stage.url), range(8)))
    assert len({ledger.identity() for ledger in ledgers}) == 1
    for ledger in ledgers:
        ledger.append(b"x")
        ledger.close()
    assert stage.open().end() == 8
