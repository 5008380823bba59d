"""Three brokers, of which some are gone for a while: what was acknowledged stays, in order, and the ledger goes on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

import pytest
from confluent_kafka import KafkaException
from kafka_stages import WAIT, Cluster, admin
from log_tools import payloads, read_all, until
from steady_writer import FAULTS, HANG, Writer, check_that_it_stays, strike

import pares.ledger
from pares.core.errors import LedgerRewound, LedgerUnavailable
from pares.dev import Kafka
from pares.dev.kafka.settings import QUICK_RETURN
from pares.ledger import Ledger, Log
from pares.ledger.kafka.log import KafkaLedger

T = TypeVar("T")

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def three() -> Generator[Kafka]:
    with Kafka(nodes=3, settings=QUICK_RETURN) as kafka:
        yield kafka


@pytest.mark.processes
@pytest.mark.parametrize("fault", FAULTS)
def test_what_was_acknowledged_stays(three: Kafka, fault: str) -> None:
    cluster = Cluster(three)
    topic = cluster.name()

    def leader() -> int:
        return cluster.described(topic).partitions[0].leader.id

    def struck(ledger: Ledger, writer: Writer) -> None:
        assert isinstance(ledger, KafkaLedger)
        assert [level for level, _ in ledger.checks()] == ["good"]
        strike(three, fault, leader, writer, lambda node: None)

    check_that_it_stays(three.topic_url(topic), struck)
    cluster.delete(topic)


@pytest.mark.processes
def test_a_topic_made_anew_where_another_broker_leads(three: Kafka) -> None:
    """Leaders are numbered anew with a new topic, and a client that knew the old one takes the new leader for an older one."""
    cluster = Cluster(three)
    topic = cluster.name()

    def leader() -> int:
        try:
            # A client of its own each time: one whose broker was killed may wait for it.
            return Cluster(three).described(topic).partitions[0].leader.id
        except KafkaException:
            return -1  # the one that was asked is gone, or has not heard of the topic

    url = three.topic_url(topic)
    ledger = pares.ledger.open(url)
    bell = ledger.bell()
    identity = ledger.identity()
    for _ in range(2):
        until(lambda: leader() > 0, HANG)
        first = leader()
        three.kill(first)
        appended(ledger, b"by another leader")
        three.restart(first)
    for number in range(40):
        appended(ledger, b"old %d" % number)
    assert len(read_all(ledger)) >= 40

    until(lambda: leader() > 0, HANG)
    before = leader()
    others = [node for node in (1, 2, 3) if node != before]
    cluster.delete(topic)
    anew = admin.NewTopic(topic, 1, replica_assignment=[[*others, before]])
    cluster.admin.create_topics([anew])[topic].result(WAIT)
    until(lambda: leader() == others[0], HANG)
    other = pares.ledger.open(url)
    for number in range(5):
        appended(other, b"new %d" % number)

    until(lambda: reached(ledger.identity) not in (None, identity), HANG)
    assert payloads(ledger, timeout=HANG) == [b"new %d" % number for number in range(5)]
    with pytest.raises(LedgerRewound):
        ledger.read(40)
    assert ledger.append(b"new 5") == 5
    assert ledger.read(5, timeout=HANG)[0].payload == b"new 5"
    other.append(b"new 6")
    assert ledger.read(6, timeout=HANG)[0].payload == b"new 6"
    assert bell is not None
    for one in (ledger, other):
        one.close()
    cluster.delete(topic)


@pytest.mark.processes
def test_a_group_is_joined_while_a_broker_that_was_asked_is_gone(three: Kafka) -> None:
    """What a topic is, a client asks one certain broker, which may have been killed just now: until it has another it waits, as
    long as opening a ledger may take, and the member that is being made does not end."""
    topic = Cluster(three).name()
    url = three.topic_url(topic)
    ledger = pares.ledger.open(url)
    assert isinstance(ledger, KafkaLedger)
    for node in (1, 2, 3):  # one of them is the one that is asked
        three.kill(node)
        try:
            ledger.join(topic, 1, ignored, ignored, ignored).leave()
        finally:
            three.restart(node)
    ledger.close()
    Cluster(three).delete(topic)


def ignored(numbers: Sequence[int]) -> None:
    """What a member of a group is told."""


def reached(ask: Callable[[], T]) -> T | None:
    """What it says; None while the ledger is out of reach."""
    try:
        return ask()
    except LedgerUnavailable:
        return None


def appended(ledger: Log, payload: bytes) -> None:
    until(lambda: reached(lambda: ledger.append(payload)) is not None, HANG)
