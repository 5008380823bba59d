"""PostgreSQL over TLS, by the server itself and libpq's settings. Errors name the remedy and no secret."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import tls_tools
from log_tools import payloads, until
from postgres_harm import data_of, sql

import pares
import pares.ledger
from pares.core.errors import LedgerUnavailable
from pares.dev import Postgres
from planted_secret import SECRET, leaks


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tls_tools.Certificate:
    return tls_tools.make(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured(certificate: tls_tools.Certificate) -> Iterator[Postgres]:
    """A server with TLS, on which ann has a password and comes in over TLS only."""
    with Postgres() as server:
        if sql(server.url, "SHOW ssl_library") == [("",)]:
            pytest.skip("this PostgreSQL was made without TLS, as the one in pgserver's wheel")
        present(server, certificate)
        sql(server.url, f"CREATE USER ann PASSWORD '{SECRET}'", "GRANT CREATE ON SCHEMA public TO ann")
        rules = data_of(server) / "pg_hba.conf"
        rules.write_text(f"hostssl all ann 127.0.0.1/32 scram-sha-256\nhost all ann all reject\n{rules.read_text()}")
        sql(server.url, "ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
        until(lambda: sql(server.url, "SHOW ssl") == [("on",)])
        yield server


def present(server: Postgres, certificate: tls_tools.Certificate) -> None:
    """Have the server show this certificate to whoever comes from now on."""
    owner = data_of(server).stat()
    for source, name in zip(certificate, ("server.crt", "server.key"), strict=True):
        place = data_of(server) / name
        shutil.copy(source, place)
        shutil.chown(place, owner.st_uid, owner.st_gid)
        place.chmod(0o600)
    sql(server.url, "SELECT pg_reload_conf()")


def url(server: Postgres, table: str) -> str:
    return f"{server.url.replace('pares@', 'ann@')}?table={table}"


def options(certificate: tls_tools.Certificate, **more: object) -> dict[str, object]:
    return {"password": SECRET, "sslmode": "verify-full", "sslrootcert": str(certificate.certificate), **more}


def test_all_of_a_ledger_over_tls(secured: Postgres, certificate: tls_tools.Certificate) -> None:
    where, given = url(secured, "over_tls"), options(certificate)
    with pares.Member(where, group="g", roles=["r"], session=2.0, options={"options": given}) as member:
        assert member.wait("r", 60), member.health()
        ended = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'ann' AND NOT ssl"
        assert sql(secured.url, ended) == [(0,)]
    ledger = pares.ledger.open(f"{where}&timeout=20", options=given)
    assert not leaks(ledger.url)
    bell = ledger.bell()
    assert bell is not None
    topic = ledger.topic("t")
    assert topic.append_many([b"a", b"b" * 100_000]) == [0, 1]
    assert payloads(topic) == [b"a", b"b" * 100_000]
    bell.close()
    ledger.close()


def test_tls_by_settings_in_a_file(secured: Postgres, certificate: tls_tools.Certificate, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in options(certificate).items()))
    ledger = pares.ledger.open(f"{url(secured, 'by_file')}&timeout=20&config={file}")
    assert ledger.append(b"x") == 0
    ledger.close()


def test_what_is_wrong_with_tls_is_said(secured: Postgres, certificate: tls_tools.Certificate, tmp_path: Path) -> None:
    stranger, elsewhere = tls_tools.make(tmp_path / "a"), tls_tools.make(tmp_path / "b", "DNS:elsewhere.example")
    wrong: list[tuple[dict[str, object], str]] = [
        (options(stranger), "certificate verify failed"),
        (options(certificate, sslrootcert=str(tmp_path / "none")), 'root certificate file ".*none" does not exist'),
        (options(certificate, sslmode="disable"), "rejects connection.*no encryption"),
        (options(certificate, password=SECRET[::-1]), "look whether it, the user and the database are right"),
    ]
    for given, says in wrong:
        with pytest.raises(LedgerUnavailable, match=says) as caught:
            pares.ledger.open(f"{url(secured, 'wrong')}&timeout=3", options=given)
        assert not leaks(str(caught.value))
        assert SECRET[::-1] not in str(caught.value)
    present(secured, elsewhere)
    try:
        given = options(elsewhere)
        with pytest.raises(LedgerUnavailable, match=r'certificate for "elsewhere\.example".* does not match host'):
            until(lambda: bool(pares.ledger.open(f"{url(secured, 'wrong')}&timeout=3", options=given).close()))
        ledger = pares.ledger.open(url(secured, "name"), options={**given, "sslmode": "verify-ca"})
        assert ledger.append(b"x") == 0
        ledger.close()
    finally:
        present(secured, certificate)


def test_a_server_without_tls_is_refused_where_it_was_asked_for(certificate: tls_tools.Certificate) -> None:
    with Postgres() as plain, pytest.raises(LedgerUnavailable, match="server does not support SSL"):
        pares.ledger.open(plain.url, options={"sslmode": "require"})
