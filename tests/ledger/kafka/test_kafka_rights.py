"""A real Kafka with an authorizer: with exactly the ACLs in docs/security.md everything works, and each one less is named."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from rights import PATIENCE, WHO, Right, complaint, does_its_work, helpful_to, needed_by, rights_of

import pares
import pares.ledger
from kafka_tools import PATIENCE as WAIT
from kafka_tools import STEADY, client
from pares.core.errors import ConfigError, LedgerUnavailable
from pares.dev import Kafka, Security
from pares.ledger.kafka.log import KafkaLedger
from planted_secret import SECRET

TOPIC = "work"
OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "Delete": AclOperation.DELETE,
}


@pytest.fixture(scope="module")
def guarded() -> Generator[Kafka]:
    users = {"guest": SECRET, "admin": "admin-" + SECRET}
    with Kafka(settings=STEADY, security=Security(users=users)) as kafka:
        url, options = kafka.topic_url(TOPIC), {"options": kafka.client()}
        with pares.Member(url, group="g", roles=["A"], options=options) as me:
            assert me.wait("A", PATIENCE)
        yield kafka


def binding(resource: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        resource, name, ResourcePatternType.LITERAL, "User:guest", "*", operation, AclPermissionType.ALLOW
    )


def grant(kafka: Kafka, rights: Sequence[Right], *more: AclBinding) -> dict[str, str]:
    """The guest may do this and nothing else, from now on. His settings."""
    admin = AdminClient(client(kafka))
    anything: Any = None
    everything = AclBindingFilter(
        ResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        "User:guest",
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for result in admin.delete_acls([everything]).values():
        result.result(WAIT)
    wanted = [binding(ResourceType.TOPIC, TOPIC, OPERATIONS[right.right]) for right in rights] + [*more]
    for result in admin.create_acls(wanted).values() if wanted else ():
        result.result(WAIT)
    end = time.monotonic() + WAIT
    while True:
        there = admin.describe_acls(everything).result(WAIT)
        if len(there) == len(wanted):
            return kafka.client("guest")
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("who", WHO)
def test_with_exactly_these_it_works(guarded: Kafka, who: str) -> None:
    for rights in (needed_by("Kafka", who), helpful_to("Kafka", who)):
        does_its_work(who, guarded.topic_url(TOPIC), grant(guarded, rights))


@pytest.mark.parametrize("who", WHO)
def test_each_one_less_is_named(guarded: Kafka, who: str) -> None:
    needed = needed_by("Kafka", who)
    for missing in needed:
        login = grant(guarded, [right for right in needed if right != missing])
        text = complaint(who, guarded.topic_url(TOPIC), login)
        assert f"{missing.right} on topic {TOPIC}" in text or (len(needed) == 1 and f"no topic {TOPIC}" in text), text
        assert login["sasl.password"] not in text


def test_what_is_only_better_to_have(guarded: Kafka) -> None:
    everything = helpful_to("Kafka", "member")
    assert {right.right for right in everything} == {*OPERATIONS} == {right.right for right in rights_of("Kafka")}
    for missing in everything:
        if missing.need["member"] == "better":
            login = grant(guarded, [right for right in everything if right != missing])
            does_its_work("member", guarded.topic_url(TOPIC), login)
            ledger = pares.ledger.open(guarded.topic_url(TOPIC), options=login)
            assert isinstance(ledger, KafkaLedger)
            if missing.right == "Delete":
                with pytest.raises(LedgerUnavailable, match=f"it needs Delete on topic {TOPIC}"):
                    ledger.trim(1)
            else:
                assert any("DescribeConfigs" in text for _, text in ledger.checks())
            ledger.close()


def test_who_may_only_look_changes_nothing(guarded: Kafka) -> None:
    login = grant(guarded, helpful_to("Kafka", "observer"))
    ledger = pares.ledger.open(guarded.topic_url(TOPIC), options=login)
    end = ledger.end()
    for change, right in ((lambda: ledger.append(b"x"), "Write"), (lambda: ledger.trim(end), "Delete")):
        with pytest.raises(LedgerUnavailable, match=f"it needs {right} on topic {TOPIC}"):
            change()
    assert ledger.end() == end
    ledger.close()


def test_making_and_growing(guarded: Kafka) -> None:
    url = guarded.topic_url("other")
    read, write = (binding(ResourceType.TOPIC, "other", one) for one in (AclOperation.READ, AclOperation.WRITE))
    with pytest.raises(ConfigError, match="Create and Describe on topic other"):
        pares.ledger.open(url, options=grant(guarded, [], read, write))
    create = binding(ResourceType.TOPIC, "other", AclOperation.CREATE)
    login = grant(guarded, [], read, write, create)
    pares.ledger.open(url, options=login).close()
    with pytest.raises(LedgerUnavailable, match="it needs Alter on topic other"):
        pares.ledger.open(url, options=login, partitions=2)
    alter = binding(ResourceType.TOPIC, "other", AclOperation.ALTER)
    ledger = pares.ledger.open(url, options=grant(guarded, [], read, write, alter), partitions=2)
    assert ledger.partitions == 2
    ledger.close()


def test_a_group_of_kafka(guarded: Kafka) -> None:
    """NELI and Fast NELI: the right to the group, named, and with it nothing else but the topic's."""
    needed = needed_by("Kafka", "member")
    options: dict[str, Any] = {"options": grant(guarded, needed)}
    given: dict[str, Any] = {"group": "n", "roles": ["A"], "protocol": "fast-neli"}
    with pares.Member(guarded.topic_url(TOPIC), options=options, **given) as me:
        end = time.monotonic() + PATIENCE
        while "it needs Read on group n" not in str(me.health().unreachable):
            assert time.monotonic() < end, me.health()
            time.sleep(0.01)
    options = {"options": grant(guarded, needed, binding(ResourceType.GROUP, "n", AclOperation.READ))}
    with pares.Member(guarded.topic_url(TOPIC), options=options, **given) as me:
        assert me.wait("A", PATIENCE), me.health()


def test_allcall_over_a_topic(guarded: Kafka) -> None:
    given: dict[str, Any] = {
        "group": "a",
        "roles": ["A"],
        "protocol": pares.AllCall(heartbeat=0.2, lease=1.0, skew=0.1),
    }
    url = guarded.topic_url(TOPIC)
    with pares.Member(url, options={"options": guarded.client()}, **given) as me:
        assert me.wait("A", PATIENCE), me.health()  # and the topic is there
    bus = [binding(ResourceType.TOPIC, f"{TOPIC}.pares.bus", one) for one in (AclOperation.READ, AclOperation.WRITE)]
    read = [right for right in rights_of("Kafka") if right.right == "Read"]
    with pares.Member(url, options={"options": grant(guarded, read, *bus)}, **given) as me:
        assert me.wait("A", PATIENCE), me.health()
