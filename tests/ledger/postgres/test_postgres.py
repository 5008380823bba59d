"""The ledger on a PostgreSQL that is frozen, killed, restored, overtaken by its standby, or has somebody in the way."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from chaos.ledgers.standby import base_backup
from log_tools import HANG, append_again, payloads, read_all, rings, until
from postgres_harm import copy_of, data_of, message, raw, sql
from proxy_tools import proxied
from steady_writer import Writer, check_that_it_stays

import pares
import pares.ledger
from pares.core.errors import LedgerRewound, LedgerUnavailable
from pares.dev import Postgres
from pares.ledger import Ledger
from pares.ledger.address import Address, Options
from pares.ledger.postgres.settings import take
from pares.ledger.postgres.statements import Statements
from pares.ledger.postgres.tail import Rings, Tails


@pytest.fixture(scope="module")
def one() -> Iterator[Postgres]:
    with Postgres() as one:
        yield one


@pytest.fixture
def server(one: Postgres) -> Postgres:
    """One that the test may do everything to, with no ledger in it."""
    if not one.nodes[0].running:
        one.restart(1, timeout=HANG)
    sql(one.url, "DROP TABLE IF EXISTS pares_logs, pares")
    return one


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the server's user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="pares-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def restart(server: Postgres) -> None:
    server.restart(1, timeout=HANG)


@pytest.mark.parametrize("fault", ["killed", "stopped", "frozen", "connections cut"])
def test_what_is_acknowledged_stays(server: Postgres, fault: str) -> None:
    def strike(ledger: Ledger, writer: Writer) -> None:
        for _ in range(3):
            if fault == "killed":
                server.kill()
                restart(server)
            elif fault == "stopped":
                restart(server)
            elif fault == "frozen":
                server.freeze()
                time.sleep(1.5)
                server.thaw()
            else:
                sql(
                    server.url,
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pares'",
                )
            writer.goes_on()

    check_that_it_stays(server.url, strike)


# Clients that stand still -------------------------------------------------------------------------------------------------


def test_a_client_frozen_in_the_middle_of_an_append_holds_nobody_up(server: Postgres) -> None:
    """The server has all but the last byte of its message. (The whole of it works, so it is the right message.)"""
    ledger = pares.ledger.open(server.url)
    bare = server.url
    settings = take(Address(bare, "postgresql", bare.split("/")[2], "/postgres", {}), Options(bare, {}))
    text = Statements(settings).append_script("", 0, [b"x" * 300_000, b"y"], urgent=True, shared=True)
    wire = raw(server)
    wire.sendall(message(text)[:-1])
    for number in range(20):
        assert ledger.append(b"%d" % number) == number
    wire.sendall(message(text)[-1:])
    until(lambda: ledger.end() == 22)
    assert [len(payload) for payload in payloads(ledger, 20)] == [300_000, 1]
    wire.close()
    ledger.close()


def test_somebody_elses_transaction_is_waited_for_and_named(server: Postgres) -> None:
    ledger = pares.ledger.open(server.url)
    ledger.append(b"0")
    with psycopg.connect(server.url) as other:
        other.execute("UPDATE pares_logs SET next = next + 5")
        with pytest.raises(LedgerUnavailable, match=r"row locked for over 0\.6 s: look in pg_stat_activity") as caught:
            ledger.append(b"1")
        assert not caught.value.unknown
        assert payloads(ledger) == [b"0"]
        other.rollback()
    assert ledger.append(b"1") == 1
    ledger.close()


def test_an_append_that_gave_up_waiting_for_a_standby_is_unknown(server: Postgres) -> None:
    ledger = pares.ledger.open(f"{server.url}?timeout=20")
    sql(server.url, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    done, caught = list[int](), list[LedgerUnavailable]()

    def append() -> None:
        try:
            while True:  # the server's processes hear of the setting one after the other
                done.append(ledger.append(b"x"))
        except LedgerUnavailable as error:
            caught.append(error)

    thread = threading.Thread(target=append)
    thread.start()
    try:
        until(lambda: bool(sql(server.url, waiting)))
        sql(server.url, f"SELECT pg_cancel_backend(pid) FROM ({waiting}) w")
        thread.join(HANG)
        assert caught
        assert caught[0].unknown
        assert "the server warns" in str(caught[0])
    finally:
        sql(server.url, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
    assert payloads(ledger) == [b"x"] * (len(done) + 1)
    ledger.close()


# What is lost -------------------------------------------------------------------------------------------------------------


def restored(server: Postgres, folder: Path, more: int) -> tuple[Ledger, str]:
    """A ledger that has read ten entries, of which the server then has five; and what it was identified by. `more`: how many
    others somebody appends before it looks again."""
    ledger = pares.ledger.open(f"{server.url}?timeout=5")
    ledger.append_many([b"old %d" % number for number in range(5)])
    server.stop(1)
    copy_of(data_of(server), folder / "older")
    restart(server)
    until(lambda: append_again(ledger, b"late") >= 5)
    ledger.append_many([b"late"] * 4)
    assert len(read_all(ledger)) >= 10
    before = ledger.identity()
    server.stop(1)
    copy_of(folder / "older", data_of(server))
    restart(server)
    other = pares.ledger.open(f"{server.url}?timeout=5")
    assert other.end() == 5
    if more:
        other.append_many([b"new"] * more)
    other.close()
    return ledger, before


@pytest.mark.parametrize("more", [0, 20])
def test_a_server_that_goes_on_from_an_older_copy_is_another_log(server: Postgres, folder: Path, more: int) -> None:
    """Also when the log is longer again than what was read."""
    ledger, before = restored(server, folder, more)
    for _ in range(3):
        try:
            assert not any(entry.payload == b"new" for entry in ledger.read(10)), "it was read as the same log"
        except LedgerUnavailable as error:
            if "lacks entries that were read here" in str(error):
                break
        except LedgerRewound:
            break
    until(lambda: ledger.identity() != before)
    assert payloads(ledger) == [b"old %d" % number for number in range(5)] + [b"new"] * more
    assert ledger.append(b"x") == 5 + more
    ledger.close()


def test_a_member_begins_anew_when_the_server_lost_what_it_had_read(server: Postgres, folder: Path) -> None:
    with pares.Member(server.url, group="g", roles=["r"], session=1.0) as member:
        assert member.wait("r", HANG)
        first = member.term("r")
        assert first is not None
        server.stop(1)
        copy_of(data_of(server), folder / "older")
        restart(server)
        until(lambda: member.holds("r"))
        had = member.term("r")
        assert had is not None
        server.stop(1)
        copy_of(folder / "older", data_of(server))
        restart(server)
        until(lambda: not had)
        until(lambda: member.holds("r"))
        again = member.term("r")
        assert again is not None
        assert again.token > had.token >= first.token


@pytest.mark.parametrize("lost", [True, False])
def test_a_failover_is_another_log_only_if_something_was_lost(server: Postgres, folder: Path, lost: bool) -> None:
    base_backup(server, folder / "standby")
    with Postgres(folder=folder / "standby") as second:
        url = f"postgresql://pares@127.0.0.1:{server.port},127.0.0.1:{second.port}/postgres?timeout=5"
        ledger = pares.ledger.open(url)
        ledger.append_many([b"kept"] * 5)
        end = "SELECT pg_current_wal_lsn() <= coalesce((SELECT min(replay_lsn) FROM pg_stat_replication), '0/0')"
        until(lambda: sql(server.url, end) == [(True,)])
        with pytest.raises(LedgerUnavailable, match=r"read replica .*name the primary"):
            pares.ledger.open(f"{second.url}?timeout=5")
        if lost:
            second.stop(1)
            ledger.append_many([b"lost"] * 5)
        assert len(read_all(ledger)) == (10 if lost else 5)
        before = ledger.identity()
        server.kill()
        if lost:
            restart(second)
        assert sql(second.url, "SELECT pg_promote()") == [(True,)]
        other = pares.ledger.open(url)
        other.append_many([b"new"] * 9)
        other.close()
        until(lambda: _identity(ledger) not in (None, before) or (not lost and _identity(ledger) == before))
        assert (_identity(ledger) != before) == lost
        assert payloads(ledger) == [b"kept"] * 5 + [b"new"] * 9
        ledger.close()


def test_a_server_that_comes_back_without_the_tables_is_another_log_and_members_go_on(folder: Path) -> None:
    """A copy from before the ledger was made. Nobody has to open it again."""
    with Postgres() as server:
        server.stop(1)
        copy_of(data_of(server), folder / "copy")
        restart(server)
        with pares.Member(server.url, group="g", roles=["r"], session=1.0) as member:
            assert member.wait("r", HANG)
            had = member.term("r")
            assert had is not None
            server.kill()
            copy_of(folder / "copy", data_of(server))
            restart(server)
            until(lambda: not had)
            until(lambda: member.holds("r"))
            again = member.term("r")
            assert again is not None
            assert again.token > had.token


def test_a_log_that_can_not_be_made_anew_is_waited_for(server: Postgres) -> None:
    """Half of the tables is for people: one may be restored. And who may not make tables waits for who may."""
    ledger = pares.ledger.open(server.url)
    ledger.append(b"0")
    before = ledger.identity()
    sql(server.url, "ALTER TABLE pares_logs RENAME TO away")
    with pytest.raises(LedgerUnavailable, match="pares_logs is missing: restore it"):
        until(lambda: not ledger.identity())
    sql(server.url, "ALTER TABLE away RENAME TO pares_logs")
    until(lambda: _identity(ledger) == before)
    assert payloads(ledger) == [b"0"]
    sql(server.url, "CREATE USER guest", "GRANT SELECT, INSERT, UPDATE ON pares, pares_logs TO guest")
    guest = pares.ledger.open(server.url.replace("pares@", "guest@"))
    assert guest.append(b"1") == 1
    sql(server.url, "DROP TABLE pares, pares_logs", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    with pytest.raises(LedgerUnavailable, match="the user guest may not make one"):
        until(lambda: not guest.identity())
    until(lambda: _identity(ledger) not in (None, before))
    assert ledger.append(b"anew") == 0
    with pytest.raises(LedgerUnavailable, match=r"docs/security\.md has the GRANTs"):
        until(lambda: not guest.identity())
    sql(server.url, "GRANT SELECT, INSERT, UPDATE ON pares, pares_logs TO guest")
    until(lambda: _identity(guest) == ledger.identity())
    for each in (ledger, guest):
        each.close()


def _identity(ledger: Ledger) -> str | None:
    try:
        return ledger.identity()
    except LedgerUnavailable:
        return None


# The bell, and what stands in between --------------------------------------------------------------------------------------


def test_what_nobody_was_notified_of_is_found_all_the_same(server: Postgres) -> None:
    ledger, other = pares.ledger.open(server.url), pares.ledger.open(server.url)
    assert ledger.read(0, timeout=0.05) == []
    sql(server.url, "ALTER TABLE pares_logs RENAME COLUMN id TO was", "ALTER TABLE pares_logs RENAME COLUMN was TO id")
    insert = (
        "WITH h AS (UPDATE pares_logs SET next = next + 1 WHERE topic = '' RETURNING log, next - 1 AS n) "
        "INSERT INTO pares SELECT log, n, now(), 'x' FROM h"
    )
    threading.Timer(0.2, sql, [server.url, insert]).start()
    assert [entry.payload for entry in ledger.read(0, timeout=HANG)] == [b"x"]
    for each in (ledger, other):
        each.close()


def test_what_is_urgent_is_told_of_though_it_came_with_what_is_not(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fetch for a beat brings a claim as well, and its answer comes with the notice of the claim: the socket is silent."""
    ledger, other = pares.ledger.open(server.url), pares.ledger.open(server.url)
    plain, met = Tails._wait, threading.Event()  # pyright: ignore[reportPrivateUsage]

    def wait(self: Tails, wire: Any, look_at: float) -> dict[Any, Rings]:
        news = plain(self, wire, look_at)
        if Rings.NEVER in news.values() and not met.is_set():
            other.append(b"claim")
            time.sleep(0.3)
            met.set()
        return news

    monkeypatch.setattr(Tails, "_wait", wait)
    bell = ledger.bell()
    assert bell is not None
    other.append(b"first")
    assert rings(bell.fileno(), HANG), "it is followed"
    bell.clear()
    while rings(bell.fileno(), 1.0):
        bell.clear()
    other.append_many([b"beat"], urgent=False)
    assert met.wait(HANG)
    assert rings(bell.fileno(), HANG)
    assert payloads(ledger) == [b"first", b"beat", b"claim"]
    bell.close()
    ledger.close()
    other.close()


def test_nobody_can_put_entries_into_a_log_by_a_notice(server: Postgres) -> None:
    ledger = pares.ledger.open(server.url)
    bell = ledger.bell()
    assert bell is not None
    assert ledger.read(0, timeout=0.05) == []
    (channel,) = sql(server.url, "SELECT 'pares_' || id FROM pares_logs WHERE topic = ''")[0]
    sql(server.url, f"NOTIFY \"{channel}\", 'anything'")
    assert ledger.read(0, timeout=0.3) == []
    assert ledger.append(b"0") == 0
    bell.close()
    ledger.close()


def test_a_proxy_that_holds_the_answer_back_leaves_the_outcome_unknown(server: Postgres) -> None:
    with proxied(server, server.url) as (proxy, url):
        ledger = pares.ledger.open(f"{url}?timeout=1.5")
        ledger.append(b"0")
        proxy.hold()
        with pytest.raises(LedgerUnavailable) as caught:
            ledger.append(b"1")
        assert caught.value.unknown
        until(lambda: sql(server.url, "SELECT count(*) FROM pares") == [(2,)])
        proxy.release()
        append_again(ledger, b"2")
        assert payloads(ledger) == [b"0", b"1", b"2"], "it was done once, and is not sent again"
        ledger.close()


def test_a_connection_that_listens_and_hears_nothing_any_more_is_noticed(server: Postgres) -> None:
    with proxied(server, server.url) as (proxy, url):
        ledger, other = pares.ledger.open(f"{url}?timeout=1.5"), pares.ledger.open(server.url)
        assert ledger.read(0, timeout=0.3) == []
        proxy.hold(b"LISTEN")
        other.append(b"x")
        assert [entry.payload for entry in ledger.read(0, timeout=HANG)] == [b"x"]
        proxy.release()
        for each in (ledger, other):
            each.close()
