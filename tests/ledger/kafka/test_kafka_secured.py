"""A Kafka ledger over TLS, with users; and on brokers that make a topic whenever anybody names one."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from kafka_stages import Cluster
from log_tools import payloads, until

import pares.ledger
from kafka_tools import make_certificate
from pares.core.errors import ConfigError, LedgerUnavailable
from pares.dev import Kafka, Security
from pares.ledger.kafka.log import KafkaLedger
from planted_secret import SECRET


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Generator[Kafka]:
    certificate = make_certificate(tmp_path_factory.mktemp("tls"))
    with Kafka(security=Security(users={"ann": SECRET}, certificate=certificate)) as kafka:
        yield kafka


def test_all_of_a_ledger_over_tls(tls: Kafka) -> None:
    ledger = pares.ledger.open(tls.topic_url("secured"), options=tls.client())
    assert isinstance(ledger, KafkaLedger)
    bell = ledger.bell()
    assert ledger.append_many([b"a", b"b"]) == [0, 1]
    assert payloads(ledger, timeout=30) == [b"a", b"b"]
    assert [entry.offset for entry in ledger.read(1)] == [1]
    held: list[int] = []
    membership = ledger.join("secured", 1, held.extend, lambda _: None, lambda _: None)
    until(lambda: membership.poll(0.1) or held == [0])
    membership.leave()
    assert bell is not None
    bell.close()
    ledger.close()


def test_what_is_wrong_with_tls_is_said(tls: Kafka, tmp_path: Path) -> None:
    url = tls.topic_url("secured", timeout=2)
    stranger = make_certificate(tmp_path)
    for change, says in [
        ({"ssl.ca.location": str(stranger)}, "certificate verify failed"),
        ({"security.protocol": "SASL_PLAINTEXT"}, r"security\.protocol"),
        ({"security.protocol": "PLAINTEXT"}, r"security\.protocol"),
    ]:
        with pytest.raises((LedgerUnavailable, ConfigError), match=says) as caught:
            pares.ledger.open(url, options={**tls.client(), **change})
        assert tls.bootstrap in str(caught.value)
        assert tls.security.users["admin"] not in str(caught.value)
    with pytest.raises(ConfigError, match="refuse these credentials"):
        pares.ledger.open(url, options=tls.client("ann", "x" + SECRET))


@pytest.fixture(scope="module")
def eager() -> Generator[Cluster]:
    with Kafka(settings={"auto.create.topics.enable": "true", "num.partitions": "3"}) as kafka:
        yield Cluster(kafka)


def test_where_brokers_make_topics_by_themselves(eager: Cluster) -> None:
    """A topic that the brokers made would have their settings, not a log's: so nothing that a ledger does may make one but the
    opening, which says how."""
    topic = eager.name()
    ledger = pares.ledger.open(f"kafka://{eager.bootstrap}/{topic}")
    assert isinstance(ledger, KafkaLedger)
    assert ledger.partitions == 1
    bell = ledger.bell()
    assert ledger.append(b"a") == 0
    assert payloads(ledger, timeout=30) == [b"a"]
    eager.delete(topic)
    for use in (lambda: ledger.append(b"b"), lambda: ledger.append(b"c"), ledger.end):
        with pytest.raises(LedgerUnavailable):
            use()
    assert not eager.topics(topic), "nobody asked for it"
    again = pares.ledger.open(f"kafka://{eager.bootstrap}/{topic}")
    assert isinstance(again, KafkaLedger)
    assert (again.append(b"d"), again.partitions) == (0, 1)
    assert not [text for level, text in again.checks() if level == "problem"]
    assert bell is not None
    bell.close()
    for one in (ledger, again):
        one.close()
    eager.delete(topic)
