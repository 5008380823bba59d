"""Through pgbouncer: a session at a time it works as without; a transaction at a time without notices; a statement at a time
not at all."""

from __future__ import annotations

import threading

import pytest
from ledger_stages import in_processes
from log_tools import HANG, payloads, read_all, rings, until
from pgbouncer import pgbouncer
from postgres_harm import sql

import pares
import pares.ledger
from pares.core.errors import LedgerUnavailable
from pares.dev import Postgres
from pares.ledger import Log

NOTICED = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"


@pytest.fixture
def server(postgres: Postgres) -> Postgres:
    sql(postgres.url, "DROP TABLE IF EXISTS pooled_logs, pooled")
    return postgres


def works(url: str) -> Log:
    ledger, other = pares.ledger.open(url), pares.ledger.open(url)
    bell = ledger.bell()
    assert bell is not None
    assert ledger.append(b"0") == 0
    assert ledger.append_many([b"1", b"2"]) == [1, 2]
    threading.Timer(0.2, other.append, [b"3"]).start()
    assert [entry.payload for entry in ledger.read(3, timeout=HANG)] == [b"3"]
    bell.clear()
    other.append(b"4")
    assert rings(bell.fileno(), HANG)
    ledger.trim(2)
    assert payloads(other, 2) == [b"2", b"3", b"4"]
    bell.close()
    other.close()
    given = in_processes(url, ["a", "b", "c"], 50)
    entries = read_all(ledger, 2)
    assert [entry.offset for entry in entries] == list(range(2, 155))
    assert sorted(offset for offsets in given.values() for offset in offsets) == list(range(5, 155))
    with pares.Member(url, group="g", roles=["r"], session=2.0) as member:
        assert member.wait("r", HANG)
    return ledger


def told(ledger: Log) -> str:
    assert isinstance(ledger, pares.ledger.Checked)
    return "\n".join(f"{level}: {text}" for level, text in ledger.checks())


def test_a_session_at_a_time(server: Postgres) -> None:
    with pgbouncer(server, pool_mode="session") as url:
        ledger = works(f"{url}?table=pooled&timeout=10")
        assert "note: a pooler stands before the server, and gives each connection to one client" in told(ledger)
        assert sql(server.url, NOTICED) != [(0,)] or ledger.read(ledger.end(), timeout=0.1) == []
        ledger.close()


@pytest.mark.parametrize("order", [0, 1], ids=["last first", "round robin"])
def test_a_transaction_at_a_time(server: Postgres, order: int) -> None:
    with pgbouncer(server, pool_mode="transaction", server_round_robin=order) as url:
        ledger = works(f"{url}?table=pooled&timeout=10")
        assert "warning: a pooler lends connections for a transaction at a time" in told(ledger)
        left = "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE '%LISTEN \"pares%' AND pid <> pg_backend_pid()"
        assert sql(server.url, left) == [(0,)], "nothing is left behind on connections that are others' next"
        ledger.close()


def test_another_transaction_holds_up_no_longer_there_either(server: Postgres) -> None:
    with pgbouncer(server, pool_mode="transaction") as url:
        ledger = pares.ledger.open(f"{url}?table=pooled")
        ledger.append(b"0")
        stop = threading.Event()

        def hold() -> None:
            import psycopg

            with psycopg.connect(server.url) as other:
                other.execute("SELECT * FROM pooled_logs FOR UPDATE")
                held.set()
                stop.wait(HANG)

        held = threading.Event()
        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(HANG)
        with pytest.raises(LedgerUnavailable, match="row locked") as caught:
            ledger.append(b"1")
        assert not caught.value.unknown
        stop.set()
        thread.join(HANG)
        assert ledger.append(b"1") == 1
        ledger.close()


def test_a_statement_at_a_time_is_refused_with_the_reason(server: Postgres) -> None:
    why = "pool_mode=statement won't do; set pool_mode=session"
    with pgbouncer(server, pool_mode="statement") as url, pytest.raises(LedgerUnavailable, match=why):
        pares.ledger.open(f"{url}?table=pooled")


def test_a_pool_with_too_few_connections_is_refused_with_the_reason(server: Postgres) -> None:
    settings: dict[str, str | int] = {"pool_mode": "session", "default_pool_size": 1}
    with pgbouncer(server, **settings) as url, pytest.raises(LedgerUnavailable, match="a member needs two"):
        pares.ledger.open(f"{url}?table=pooled&timeout=3")


def test_a_server_that_changes_behind_the_pooler(server: Postgres) -> None:
    """The client's connection to the pooler stays; the pooler's to the server is another one."""
    with pgbouncer(server, pool_mode="transaction") as url:
        ledger = pares.ledger.open(f"{url}?table=pooled&timeout=10")
        ledger.append(b"0")
        sql(
            server.url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pares' "
            "AND pid <> pg_backend_pid()",
        )

        def again() -> bool:
            try:
                ledger.append(b"x")
            except LedgerUnavailable:
                return False
            return True

        until(again)
        assert payloads(ledger)[0] == b"0"
        ledger.close()
