"""Pulsar over TLS, by the server itself: its own protocol, and HTTP. Errors name the remedy."""

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
from pares.dev import Pulsar, ports
from pares.dev.pulsar.server import NAMESPACE


class Secured(NamedTuple):
    server: Pulsar
    port: int
    """Which speaks TLS."""
    http: int
    """The same, of HTTP."""
    certificate: tls_tools.Certificate

    def url(self, topic: str) -> str:
        return f"pulsar+ssl://127.0.0.1:{self.port}/{NAMESPACE}/{topic}?admin=https://127.0.0.1:{self.http}"

    def options(self, **more: object) -> dict[str, object]:
        return {"tls_trust_certs_file_path": str(self.certificate.certificate), **more}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    certificate = tls_tools.make(tmp_path_factory.mktemp("tls"))
    port, http = ports.free(["127.0.0.1"] * 2)
    files = {
        "tlsCertificateFilePath": str(certificate.certificate),
        "tlsKeyFilePath": str(certificate.key),
        "tlsTrustCertsFilePath": str(certificate.certificate),
    }
    with Pulsar({"brokerServicePortTls": port, "webServicePortTls": http, **files}) as server:
        yield Secured(server, port, http, certificate)


def test_all_of_a_ledger_over_tls(secured: Secured) -> None:
    url = secured.url("all")
    with pares.Member(url, group="g", roles=["r"], session=2.0, options={"options": secured.options()}) as member:
        assert member.wait("r", 60), member.health()
    ledger = pares.ledger.open(f"{url}&timeout=20", options=secured.options())
    assert ledger.url.startswith("pulsar+ssl://")
    bell = ledger.bell()
    assert bell is not None
    topic = ledger.topic("t")
    assert topic.append_many([b"a", b"b" * 100_000]) == [0, 1]
    assert payloads(topic) == [b"a", b"b" * 100_000]
    bell.close()
    ledger.close()


def test_what_is_wrong_with_tls_is_said(secured: Secured, tmp_path: Path) -> None:
    stranger = tls_tools.make(tmp_path / "a")
    url, plain = secured.url("wrong"), secured.server
    trust = "name the certificate of who signed the server's in the client setting tls_trust_certs_file_path"
    wrong: list[tuple[str, dict[str, object], str]] = [
        (url, {"tls_trust_certs_file_path": str(stranger.certificate)}, trust),
        (url, {}, trust),
        # The client only tries again: nothing says why.
        (
            plain.topic_url("wrong").replace("pulsar://", "pulsar+ssl://"),
            secured.options(),
            "look whether it speaks TLS at that port",
        ),
        (
            url.replace("admin=https", "admin=http").replace(f":{secured.http}", f":{plain.nodes[0].peer_port}"),
            {"tls_trust_certs_file_path": str(stranger.certificate)},
            "and whether tls_trust_certs_file_path names who signed its certificate",
        ),
    ]
    for where, given, says in wrong:
        with pytest.raises(LedgerUnavailable, match=says):
            pares.ledger.open(f"{where}&timeout=3", options=given)
    with pytest.raises(ConfigError, match=r"tls_trust_certs_file_path.* can't be read"):
        pares.ledger.open(url, options=secured.options(tls_trust_certs_file_path=str(tmp_path / "none")))
