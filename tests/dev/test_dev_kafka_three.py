"""Three real nodes: what one of them suffers does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from kafka_tools import PATIENCE, client, new_topic, read, write
from pares.dev import Kafka
from pares.dev.kafka import probe
from pares.dev.kafka.settings import QUICK_RETURN


@pytest.fixture(scope="module")
def three() -> Iterator[Kafka]:
    with Kafka(nodes=3, settings=QUICK_RETURN) as kafka:
        yield kafka


@pytest.fixture(autouse=True)
def _whole_again(three: Kafka) -> Iterator[None]:
    yield
    for node in three.nodes:
        if node.frozen:
            three.thaw(node.id)
        if not node.running:
            three.restart(node.id, wait=False)
    three.wait_ready()


def seen_by(kafka: Kafka, node: int) -> frozenset[int]:
    return probe.look(kafka.nodes[node - 1].place, kafka.security, PATIENCE).brokers


def test_every_node_knows_the_others(three: Kafka) -> None:
    assert [node.id for node in three.nodes] == [1, 2, 3]
    assert len({node.pid for node in three.nodes}) == 3
    assert [seen_by(three, node) for node in (1, 2, 3)] == [{1, 2, 3}] * 3
    assert three.bootstrap == ",".join(f"127.0.0.1:{node.port}" for node in three.nodes)


def test_topics_get_three_copies_and_two_must_confirm(three: Kafka) -> None:
    topic = new_topic(three)
    admin = AdminClient(client(three))
    (partition,) = admin.list_topics(topic, PATIENCE).topics[topic].partitions.values()
    assert sorted(partition.replicas) == [1, 2, 3]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(PATIENCE)
    assert found["min.insync.replicas"].value == "2"


@pytest.mark.parametrize("harm", ["kill", "stop", "freeze"])
@pytest.mark.parametrize("node", [1, 2])
def test_writes_go_on_without_one(three: Kafka, harm: str, node: int) -> None:
    topic = new_topic(three)
    write(three, topic, [b"a"])
    getattr(three, harm)(node)
    write(three, topic, [b"b"])
    if harm == "freeze":
        three.thaw(node)
    else:
        three.restart(node)
    assert node in seen_by(three, node)
    write(three, topic, [b"c"])
    assert read(three, topic)[0] == b"a"
    assert list(dict.fromkeys(read(three, topic))) == [b"a", b"b", b"c"]


def test_without_two_of_three_nothing_is_acknowledged(three: Kafka) -> None:
    topic = new_topic(three)
    write(three, topic, [b"a"])
    three.kill(1)
    three.freeze(2)
    with pytest.raises(KafkaException):
        write(three, topic, [b"b"], patience=3.0)
    three.restart(1, wait=False)
    three.thaw(2)
    three.wait_ready()
    write(three, topic, [b"c"])
    assert read(three, topic)[-1] == b"c"


def test_all_at_once(three: Kafka) -> None:
    topic = new_topic(three)
    write(three, topic, [b"a"])
    for node in three.nodes:
        three.kill(node.id)
    for node in three.nodes:
        three.restart(node.id, wait=False)
    three.wait_ready()
    # Brokers forget up to where records were confirmed, and find it out again from each other.
    until = time.monotonic() + PATIENCE
    while read(three, topic) == [] and time.monotonic() < until:
        time.sleep(0.1)
    assert read(three, topic) == [b"a"]


def test_a_restart_waits_for_the_others_to_let_it_in(three: Kafka) -> None:
    three.kill(3)
    until = time.monotonic() + PATIENCE
    while 3 in seen_by(three, 1) and time.monotonic() < until:
        time.sleep(0.05)
    assert seen_by(three, 1) == {1, 2}
    three.restart(3)
    assert seen_by(three, 3) == {1, 2, 3}
