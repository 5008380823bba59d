"""KafkaFence and what can't be: settings, URLs, rights, records that are too large; each error says what is missing."""

from __future__ import annotations

import os

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from kafka_fence_tools import Term, made, name, write

from kafka_tools import PATIENCE, client, new_topic, read
from pares.core.errors import ConfigError, LedgerUnavailable
from pares.dev import Kafka
from pares.fence import KafkaFence
from pares.fence.kafka import PREFIX
from planted_secret import SECRET


def test_timeouts_that_can_t_be(broker: Kafka) -> None:
    for seconds in (0.9, 0.0, -1.0, float("nan"), 1e9):
        with pytest.raises(ConfigError, match="transaction_timeout="):
            made(broker, name(), transaction_timeout=seconds)
    fence = made(broker, name(), transaction_timeout=20.5)
    with pytest.raises(ConfigError, match=r"no transaction of 20\.5 s .*transaction\.max\.timeout\.ms"):
        fence.check(Term("r", 0, 1))


def test_urls_that_can_t_be(broker: Kafka) -> None:
    with pytest.raises(ConfigError, match="is no Kafka"):
        KafkaFence("memory://x")
    with pytest.raises(ConfigError, match="names no topic"):
        KafkaFence(f"kafka://{broker.bootstrap}")
    with pytest.raises(ConfigError, match="partitions=3"):
        KafkaFence(broker.topic_url("x", partitions=3))
    with pytest.raises(ConfigError, match="unknown option colour"):
        KafkaFence(broker.topic_url("x", colour="red"))
    log = new_topic(broker)
    with pytest.raises(
        ConfigError, match=r"cleanup\.policy=delete.*would forget them: name a topic for the fence alone"
    ):
        made(broker, log)


def allow(broker: Kafka, kind: ResourceType, what: str, *operations: AclOperation) -> None:
    admin = AdminClient(client(broker))
    pattern = ResourcePatternType.PREFIXED if kind is ResourceType.TRANSACTIONAL_ID else ResourcePatternType.LITERAL
    wanted = [AclBinding(kind, what, pattern, "User:ann", "*", each, AclPermissionType.ALLOW) for each in operations]
    for future in admin.create_acls(wanted).values():
        future.result(PATIENCE)


def test_rights_one_after_the_other(broker: Kafka) -> None:
    """Each error says what is missing; with all of it the user writes."""
    term, target, kept = Term("r", 0, 1), new_topic(broker), name()
    with pytest.raises(ConfigError, match="refuse these credentials"):
        KafkaFence(broker.topic_url(kept), options=broker.client("ann", "wrong"), timeout=5.0)
    with pytest.raises(ConfigError, match=rf"no right to make it.*--create --topic {kept} .*cleanup\.policy=compact"):
        made(broker, kept, user="ann")
    made(broker, kept).close()
    allow(broker, ResourceType.TOPIC, kept, AclOperation.READ, AclOperation.DESCRIBE)
    fence = made(broker, kept, user="ann")
    with pytest.raises(ConfigError, match=r"transactional id 'pares\.fence//r/0'.*--transactional-id pares\.fence/"):
        fence.check(term)
    allow(broker, ResourceType.TRANSACTIONAL_ID, PREFIX, AclOperation.WRITE, AclOperation.DESCRIBE)
    with pytest.raises(LedgerUnavailable, match=f"write to {kept}.*no right") as denied:
        fence.check(term)
    assert denied.value.unknown is False
    allow(broker, ResourceType.TOPIC, kept, AclOperation.WRITE)
    fence.check(term)
    with pytest.raises(LedgerUnavailable, match=f"write to {target}.*no right") as denied:
        write(fence, term, target, b"x")
    assert denied.value.unknown is False
    allow(broker, ResourceType.TOPIC, target, AclOperation.WRITE)
    write(fence, term, target, b"y")
    assert read(broker, target) == [b"y"]
    assert SECRET not in str(denied.value)


def test_a_record_that_is_too_large(broker: Kafka, fence: KafkaFence) -> None:
    topic = new_topic(broker, settings={"max.message.bytes": "2000"})
    term = Term("r", 0, 1)
    with pytest.raises(ConfigError, match=rf"write to {topic}.*max\.message\.bytes"):
        write(fence, term, topic, os.urandom(5000))
    write(fence, term, topic, b"small")
    assert read(broker, topic) == [b"small"]
