"""RabbitMQ streams over TLS, by the server itself. Errors name the remedy and no secret."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import tls_tools
from log_tools import payloads

import pares
import pares.ledger
from pares.core.errors import ConfigError, LedgerUnavailable
from pares.dev import RabbitMQ, ports
from planted_secret import SECRET, leaks
from rabbit_tools import Management, managed


class Secured(NamedTuple):
    server: RabbitMQ
    port: int
    """Which speaks TLS."""
    certificate: tls_tools.Certificate

    def url(self, stream: str, port: int = 0) -> str:
        return f"rabbitmq-stream+tls://ann@127.0.0.1:{port or self.port}/{stream}"

    def options(self, **more: object) -> dict[str, object]:
        return {"password": SECRET, "ssl_ca_certs": str(self.certificate.certificate), **more}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    certificate = tls_tools.make(tmp_path_factory.mktemp("tls"))
    [port] = ports.free(["127.0.0.1"])
    files = {"ssl_options.certfile": str(certificate.certificate), "ssl_options.keyfile": str(certificate.key)}
    files["ssl_options.cacertfile"] = str(certificate.certificate)
    with managed(**{"stream.listeners.ssl.1": f"127.0.0.1:{port}"}, **files) as server:
        management = Management(server)
        management.user("ann", SECRET)
        management.permit("ann")
        yield Secured(server, port, certificate)


def test_all_of_a_ledger_over_tls(secured: Secured) -> None:
    url = secured.url("all")
    with pares.Member(url, group="g", roles=["r"], session=2.0, options={"options": secured.options()}) as member:
        assert member.wait("r", 60), member.health()
    ledger = pares.ledger.open(f"{url}?timeout=20", options=secured.options())
    assert ledger.url.startswith("rabbitmq-stream+tls://ann@")
    assert not leaks(ledger.url)
    bell = ledger.bell()
    assert bell is not None
    topic = ledger.topic("t")
    assert topic.append_many([b"a", b"b" * 100_000]) == [0, 1]
    assert payloads(topic) == [b"a", b"b" * 100_000]
    bell.close()
    ledger.close()


def test_tls_by_a_setting_in_a_file(secured: Secured, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"ssl=true\npassword={SECRET}\nssl_ca_certs={secured.certificate.certificate}\n")
    url = secured.url("file").replace("+tls", "")
    ledger = pares.ledger.open(f"{url}?timeout=20&config={file}")
    assert ledger.append(b"x") == 0
    ledger.close()


def test_what_is_wrong_with_tls_is_said(secured: Secured, tmp_path: Path) -> None:
    stranger, elsewhere = tls_tools.make(tmp_path / "a"), tls_tools.make(tmp_path / "b", "DNS:elsewhere.example")
    url, plain = secured.url("wrong"), secured.server.port
    with tls_tools.terminated(plain, elsewhere) as other:
        wrong: list[tuple[str, dict[str, object], str]] = [
            (url, secured.options(ssl_ca_certs=str(stranger.certificate)), "name the certificate of who signed"),
            (
                url,
                {"password": SECRET},
                "name the certificate of who signed the server's in the client setting ssl_ca_certs",
            ),
            (
                secured.url("wrong", other),
                secured.options(ssl_ca_certs=str(elsewhere.certificate)),
                "the certificate is for another name",
            ),
            (secured.url("wrong", plain), secured.options(), "TLS"),
            (url.replace("+tls", ""), {"password": SECRET}, r"speaks TLS there: write rabbitmq-stream\+tls://"),
        ]
        for where, given, says in wrong:
            with pytest.raises(LedgerUnavailable, match=says) as caught:
                pares.ledger.open(f"{where}?timeout=3", options=given)
            assert not leaks(str(caught.value))
    with pytest.raises(ConfigError, match="refuses this user and password") as refused:
        pares.ledger.open(url, options=secured.options(password=SECRET[::-1]))
    assert SECRET[::-1] not in str(refused.value)
    with pytest.raises(ConfigError, match="asks for TLS, and the client setting ssl says no"):
        pares.ledger.open(url, options=secured.options(ssl=False))


def test_missing_rights_over_tls_are_named(secured: Secured) -> None:
    management = Management(secured.server)
    management.user("bob", SECRET)
    url = secured.url("rights").replace("ann@", "bob@")
    management.permit("bob", configure="^$")
    with pytest.raises(LedgerUnavailable, match="give it the right to configure, write and read") as caught:
        pares.ledger.open(url, options=secured.options())
    assert not leaks(str(caught.value))
    pares.ledger.open(secured.url("rights"), options=secured.options()).close()
    management.permit("bob", configure="^$", write="^$")
    writer = pares.ledger.open(url, options=secured.options())
    with pytest.raises(LedgerUnavailable, match=r"lacks a right; docs/security\.md") as caught:
        writer.append(b"y")
    assert not leaks(str(caught.value))
    writer.close()
