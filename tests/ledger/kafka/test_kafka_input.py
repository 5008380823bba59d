"""What a Kafka ledger says of what can't work: addresses, credentials, rights, topics, sizes, URLs."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka import Producer
from kafka_stages import Cluster, admin
from log_tools import payloads, read_all, until

import pares.ledger
from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.dev import Kafka
from pares.dev.kafka.settings import Security
from pares.ledger import MAX_PAYLOAD, Ledger
from pares.ledger.address import Options
from pares.ledger.client_options import CONNECT
from pares.ledger.kafka.log import KafkaLedger
from pares.ledger.kafka.settings import take
from pares.ledger.registry import parse
from planted_secret import SECRET


def pares_open(url: str, **options: object) -> closing[Ledger]:
    return closing(pares.ledger.open(url, **options))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("kafka:///topic", "names no broker"),
        ("kafka://host:9092", "names no topic"),
        ("kafka://host:9092/", "names no topic"),
        ("kafka://host:9092/a/b", "'a/b' is no name of a Kafka topic"),
        ("kafka://host:9092/..", "no name of a Kafka topic"),
        ("kafka://host:9092/" + "x" * 250, "no name of a Kafka topic"),
        ("kafka://host:0/t", "'host:0' is no HOST:PORT"),
        ("kafka://host:70000/t", "is no HOST:PORT"),
        ("kafka://host:x/t", "is no HOST:PORT"),
        ("kafka://host:1,,other:2/t", "'' is no HOST:PORT"),
        ("kafka://host:1/t?colour=red", "unknown option colour"),
        ("kafka://host:1/t?partitions=0", "partitions=0"),
        ("kafka://host:1/t?partitions=10001", "partitions=10001"),
        ("kafka://host:1/t?replication=none", "replication=none"),
        ("kafka://host:1/t?timeout=-1", "timeout=-1"),
        ("kafka://host:1/t?prefix=a/b", "prefix=a/b"),
        ("kafka://host:1/t?config=/not/there", "config=/not/there can't be read: No such file"),
    ],
)
def test_urls_that_cannot_be(url: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pares.ledger.open(url)
    assert says in str(caught.value)


def test_a_password_has_no_place_in_a_url() -> None:
    with pytest.raises(ConfigError, match=r"sasl\.password") as caught:
        pares.ledger.open(f"kafka://me:{quote(SECRET, safe='')}@host:9092/t")
    assert SECRET not in str(caught.value)
    with pytest.raises(ConfigError, match=r"the client setting sasl\.password has no place in a URL") as caught:
        pares.ledger.open(f"kafka://host:9092/t?sasl.password={quote(SECRET)}")
    assert SECRET not in str(caught.value)


def test_settings_that_the_promises_stand_on_are_refused(tmp_path: Path) -> None:
    for name in ("acks", "enable.idempotence", "bootstrap.servers", "linger.ms", "isolation.level"):
        with pytest.raises(ConfigError, match=f"{name} is the ledger's own"):
            pares.ledger.open("kafka://127.0.0.1:1/t", options={name: "0"})
        (tmp_path / "client.properties").write_text(f"# a comment\n\n{name} = 0\n")
        with pytest.raises(ConfigError, match=f"{name} is the ledger's own"):
            pares.ledger.open("kafka://127.0.0.1:1/t", config=tmp_path / "client.properties")
    (tmp_path / "client.properties").write_text(f"security.protocol=SSL\n{SECRET}\n")
    with pytest.raises(ConfigError, match="line 2 is no setting") as caught:
        pares.ledger.open(f"kafka://127.0.0.1:1/t?config={tmp_path}/client.properties")
    assert SECRET not in str(caught.value)
    with pytest.raises(ConfigError, match="must be a dictionary"):
        pares.ledger.open("kafka://127.0.0.1:1/t", options="acks=0")


def test_settings_that_the_client_refuses() -> None:
    for options in ({"no.such.setting": "1"}, {"security.protocol": "pigeon"}, {"ssl.ca.location": "/not/there"}):
        with pytest.raises(ConfigError, match="refuses its settings"):
            pares.ledger.open("kafka://127.0.0.1:1/t", options={"security.protocol": "SSL", **options})
    with pytest.raises(ConfigError) as caught:
        pares.ledger.open("kafka://127.0.0.1:1/t", options={"security.protocol": "SSL", "ssl.key.pem": SECRET})
    assert SECRET not in str(caught.value)


def test_nobody_is_there() -> None:
    began = time.monotonic()
    with pytest.raises(LedgerUnavailable) as caught:
        pares.ledger.open("kafka://127.0.0.1:1,127.0.0.1:2/t", timeout=0.2)
    assert time.monotonic() - began < CONNECT, "what was asked for, and not what it is without that"
    assert "127.0.0.1:1,127.0.0.1:2" in str(caught.value)
    assert "refused" in str(caught.value)
    assert caught.value.unknown is False


@pytest.mark.parametrize(
    ("query", "each", "first"), [("", 1.0, CONNECT), ("?timeout=0.5", 0.5, 0.5), ("?timeout=9", 9, 9)]
)
def test_a_timeout_holds_for_requests_and_for_the_first_answer(query: str, each: float, first: float) -> None:
    address = parse(f"kafka://127.0.0.1:1/t{query}")
    settings = take(address, Options(address.url, address.query))
    assert (settings.timeout, settings.connect) == (each, first)


def test_a_host_without_an_address() -> None:
    with pytest.raises(LedgerUnavailable, match=r"nobody\.invalid:9092"):
        pares.ledger.open("kafka://nobody.invalid/t", timeout=0.5)


@pytest.fixture(scope="module")
def guarded() -> Generator[Kafka]:
    """A Kafka where one has to log in, and may do only what was granted."""
    with Kafka(security=Security(users={"reader": "r-" + SECRET, "nobody": "n-" + SECRET})) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def rights(guarded: Kafka) -> Cluster:
    cluster = Cluster(guarded)
    cluster.make("given", message_timestamp_type="LogAppendTime")
    reading = admin.AclBinding(
        admin.ResourceType.TOPIC,
        "given",
        admin.ResourcePatternType.LITERAL,
        "User:reader",
        "*",
        admin.AclOperation.READ,
        admin.AclPermissionType.ALLOW,
    )
    for result in cluster.admin.create_acls([reading]).values():
        result.result(30)
    return cluster


def test_credentials_and_rights(
    guarded: Kafka, rights: Cluster, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []

    with pytest.raises(ConfigError, match="refuse these credentials") as wrong:
        pares.ledger.open(guarded.topic_url("given"), options=guarded.client("reader", "x-" + SECRET))
    texts.append(str(wrong.value))

    with pytest.raises(ConfigError, match=r"no right to make it.*kafka-topics\.sh --create --topic missing") as refused:
        pares.ledger.open(guarded.topic_url("missing"), options=guarded.client("nobody"))
    texts.append(str(refused.value))

    ledger = pares.ledger.open(guarded.topic_url("given"), options=guarded.client("reader"))
    texts += [repr(ledger), ledger.url, ledger.identity()]
    assert ledger.read(0) == []
    with pytest.raises(LedgerUnavailable, match="no right") as denied:
        ledger.append(b"x")
    assert denied.value.unknown is False
    with pytest.raises(LedgerUnavailable):
        ledger.append_many([b"x", b"y"])
    texts.append(str(denied.value))
    ledger.close()

    root = pares.ledger.open(guarded.topic_url("given"), options=guarded.client())
    assert root.append(b"x") == 0
    root.close()
    # A client that may read the topic reads it, with no right to any group; the client asks for one's coordinator all the same.
    for _ in range(5):
        ledger = pares.ledger.open(guarded.topic_url("given"), options=guarded.client("reader"))
        bell = ledger.bell()
        assert [entry.payload for entry in ledger.read(0, max_records=1, timeout=30)] == [b"x"]
        assert ledger.read(1, timeout=0.3) == []
        assert bell is not None
        bell.close()
        ledger.close()
    output = capfd.readouterr()
    for text in [*texts, caplog.text, output.out, output.err]:
        assert SECRET not in text
        assert guarded.security.users["admin"] not in text


def test_client_settings_in_a_file(guarded: Kafka, rights: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in guarded.client().items()))
    ledger = pares.ledger.open(guarded.topic_url("given"), config=str(path))
    again = pares.ledger.open(ledger.url)
    assert again.identity() == ledger.identity()
    assert "config=" in ledger.url
    ledger.close()
    again.close()


def test_plain_text_to_a_guarded_broker(guarded: Kafka) -> None:
    with pytest.raises(LedgerUnavailable, match=r"security\.protocol"):
        pares.ledger.open(guarded.topic_url("given"), timeout=0.5)


def test_a_topic_with_foreign_records(cluster: Cluster) -> None:
    topic = cluster.name()
    ledger = pares.ledger.open(f"kafka://{cluster.bootstrap}/{topic}")
    assert ledger.append(b"first") == 0
    foreign = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": "lz4"})
    for key, value in [(b"k", b"\0\xff"), (b"k", None), (None, b""), (None, b"{}")]:
        foreign.produce(topic, value, key=key, headers={"h": b"v"}, partition=0)
    foreign.flush(30)
    sender = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    sender.init_transactions(30)
    for commit in (True, False):
        sender.begin_transaction()
        sender.produce(topic, b"in a transaction", partition=0)
        sender.flush(30)
        if commit:
            sender.commit_transaction(30)
        else:
            sender.abort_transaction(30)
    sender.begin_transaction()
    sender.produce(topic, b"never ended", partition=0)
    sender.flush(30)

    last = ledger.append(b"last")
    found = [entry for at in range(last + 1) for entry in ledger.read(at, max_records=1)]
    assert {entry.offset for entry in found} == {entry.offset for entry in read_all(ledger)}
    values = payloads(ledger)
    assert (values[0], values[-1]) == (b"first", b"last")
    assert values[1:5] == [b"\0\xff", b"", b"", b"{}"]
    assert values.count(b"in a transaction") == 2
    assert ledger.read(last + 1) == []
    sender.abort_transaction(30)
    # The end is now a hole: the marker of the transaction, which the broker writes after it has answered.
    until(lambda: ledger.end() == last + 2)
    assert ledger.read(last + 1) == ledger.read(last + 1, timeout=0.3) == []
    assert ledger.append(b"after the hole") == last + 2
    assert [entry.payload for entry in ledger.read(last + 1)] == [b"after the hole"]
    ledger.close()
    cluster.delete(topic)


def test_a_compacted_topic(cluster: Cluster) -> None:
    topic = cluster.name()
    cluster.make(topic, cleanup_policy="compact")
    with pytest.raises(ConfigError, match=r"compacted.*Set cleanup\.policy=delete"):
        pares.ledger.open(f"kafka://{cluster.bootstrap}/{topic}")
    cluster.set(topic, "cleanup.policy", "delete")
    ledger = pares.ledger.open(f"kafka://{cluster.bootstrap}/{topic}")
    cluster.set(topic, "cleanup.policy", "compact,delete")
    with pytest.raises(LedgerUnavailable) as caught:
        until(lambda: ledger.append(b"x") < 0)
    assert caught.value.unknown is False
    assert isinstance(ledger, KafkaLedger)
    assert ("problem", "cleanup.policy=compact,delete") in [(a, b.partition(":")[0]) for a, b in ledger.checks()]
    ledger.close()
    cluster.delete(topic)


def test_looking_on_makes_and_changes_nothing(cluster: Cluster) -> None:
    topic = cluster.name()
    url = f"kafka://{cluster.bootstrap}/{topic}"
    with pytest.raises(ConfigError, match=f"there is no topic {topic} .*start a member"):
        pares.ledger.open(url, readonly=True)
    assert cluster.topics(topic) == []
    with pares_open(url) as ledger:
        ledger.append(b"a")
    with pares_open(url, readonly=True, partitions=3) as ledger:
        assert payloads(ledger) == [b"a"]
        assert ledger.partitions == 1, "it does not grow either"
        assert isinstance(ledger, KafkaLedger)
        for what in (lambda: ledger.append(b"b"), lambda: ledger.trim(1), ledger.remove):
            with pytest.raises(CapabilityError, match="opened read-only"):
                what()
        with pytest.raises(ConfigError, match="there is no topic"):
            ledger.topic("other")
    cluster.set(topic, "cleanup.policy", "compact")
    with pares_open(url, readonly=True) as ledger:
        assert ledger.end() == 1, "a topic that can't carry a group can be looked at"
    cluster.delete(topic)


def test_a_topic_is_removed(cluster: Cluster) -> None:
    topic = cluster.name()
    with pares_open(f"kafka://{cluster.bootstrap}/{topic}") as ledger:
        assert isinstance(ledger, KafkaLedger)
        ledger.remove()
        until(lambda: cluster.topics(topic) == [])
        ledger.remove()


def takes(ledger: Ledger, payload: bytes) -> bool:
    """Whether it has appended that; False if the broker does not take one so long, yet."""
    try:
        return ledger.append(payload) == 0
    except ConfigError:
        return False


def test_messages_that_are_too_small_for_a_log(cluster: Cluster) -> None:
    topic = cluster.name()
    cluster.make(topic, max_message_bytes="1000")
    with pytest.raises(ConfigError, match=r"at most 1000 bytes \(max\.message\.bytes\)"):
        pares.ledger.open(f"kafka://{cluster.bootstrap}/{topic}")
    cluster.set(topic, "max.message.bytes", "200000")
    ledger = pares.ledger.open(f"kafka://{cluster.bootstrap}/{topic}")
    until(lambda: takes(ledger, b"x" * 199_000))
    with pytest.raises(ConfigError, match=r"max\.message\.bytes=200000"):
        ledger.append(b"x" * MAX_PAYLOAD)
    # More than fits into one batch goes in several, in order.
    many = [b"%d" % number * 10_000 for number in range(9)] * 10
    assert ledger.append_many(many) == list(range(1, 91))
    assert [entry.payload for entry in ledger.read(1)] == many
    assert isinstance(ledger, KafkaLedger)
    assert any(level == "warning" and "max.message.bytes=200000" in text for level, text in ledger.checks())
    ledger.close()
    cluster.delete(topic)


def test_more_replicas_than_brokers(cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match=r"3 replicas on 1 brokers.*replication="):
        pares.ledger.open(f"kafka://{cluster.bootstrap}/{cluster.name()}?replication=3")


def test_unsafe_settings_are_told(cluster: Cluster) -> None:
    topic = cluster.name()
    ledger = pares.ledger.open(f"kafka://{cluster.bootstrap}/{topic}")
    assert isinstance(ledger, KafkaLedger)
    assert [level for level, _ in ledger.checks()] == ["warning"]  # one replica
    for name, value in [
        ("unclean.leader.election.enable", "true"),
        ("retention.ms", "1000"),
        ("retention.bytes", "1000000"),
        ("min.insync.replicas", "2"),
        ("message.timestamp.type", "CreateTime"),
    ]:
        cluster.set(topic, name, value)
    found = {text.partition("=")[0].partition(" ")[0]: level for level, text in ledger.checks()}
    assert found.pop("the") == "warning"
    assert found == {
        "unclean.leader.election.enable": "problem",
        "retention.ms": "problem",
        "retention.bytes": "warning",
        "min.insync.replicas": "problem",
        "message.timestamp.type": "note",
    }
    ledger.close()
    cluster.delete(topic)


def test_names_of_topics(cluster: Cluster) -> None:
    topic = cluster.name()
    ledger = pares.ledger.open(f"kafka://{cluster.bootstrap}/{topic}?prefix={topic}-")
    for name in ("orders", "pares.bus", "a/b", "a_b"):
        ledger.topic(name, 1).append(name.encode())
    made = sorted(cluster.topics(topic))
    assert f"{topic}-orders" in made
    assert f"{topic}.pares.bus" in made
    assert len(made) == 5
    ledger.close()
    plain = pares.ledger.open(f"kafka://{cluster.bootstrap}/{topic}")
    with pytest.raises(ConfigError, match="is the ledger's own log"):
        plain.topic(topic)
    plain.close()
    cluster.delete(topic)
