"""Users, rights and TLS, with the plain client library on the other side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from kafka_tools import PATIENCE, client, make_certificate, new_topic, read, write
from pares.core.errors import ConfigError, LedgerUnavailable
from pares.dev import Kafka, Security
from pares.dev.kafka import probe

ODD = 'it\'s "odd" \\ und schön; \u20ac $1 #!'
"""A password with everything that one of three languages on its way (properties, JAAS, SASL) takes for its own."""


@pytest.fixture(scope="module")
def guarded() -> Iterator[Kafka]:
    with Kafka(security=Security(users={"ann": "secret", "bob": ODD})) as kafka:
        yield kafka


def allow(kafka: Kafka, user: str, topic: str, *operations: AclOperation) -> None:
    bindings = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]
    admin = AdminClient(client(kafka))  # must outlive the answers
    for future in admin.create_acls(bindings).values():
        future.result(PATIENCE)


def test_the_admin_may_do_everything(guarded: Kafka) -> None:
    topic = new_topic(guarded)
    write(guarded, topic, [b"a"])
    assert read(guarded, topic) == [b"a"]


def test_a_wrong_password_and_an_unknown_user_are_refused(guarded: Kafka) -> None:
    for user, password in (("ann", "wrong"), ("eve", "secret")):
        seen: list[KafkaError] = []
        settings = client(guarded, user, password)
        settings["error_cb"] = seen.append
        admin = AdminClient(settings)
        until = time.monotonic() + PATIENCE
        while KafkaError._AUTHENTICATION not in [error.code() for error in seen]:
            assert time.monotonic() < until, seen
            with pytest.raises(KafkaException):
                admin.list_topics(timeout=0.2)
            admin.poll(0)
    with pytest.raises(ConfigError, match="no user 'eve', only admin, ann, bob"):
        guarded.client("eve")


@pytest.mark.parametrize("user", ["ann", "bob"])
def test_a_user_may_do_what_was_granted(guarded: Kafka, user: str) -> None:
    topic = new_topic(guarded)
    for what in (lambda: new_topic(guarded, user=user), lambda: write(guarded, topic, [b"a"], user=user, patience=3.0)):
        with pytest.raises(KafkaException) as caught:
            what()
        assert caught.value.args[0].code() in (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
            KafkaError._MSG_TIMED_OUT,
        )
    allow(guarded, user, topic, AclOperation.WRITE, AclOperation.DESCRIBE)
    assert write(guarded, topic, [b"b"], user=user) == [0]
    assert read(guarded, topic) == [b"b"]


def test_a_stranger_is_told_nothing(guarded: Kafka) -> None:
    with pytest.raises(LedgerUnavailable):
        probe.look(guarded.nodes[0].place, Security(), 5.0)
    with pytest.raises(LedgerUnavailable, match="the login was refused"):
        probe.look(guarded.nodes[0].place, Security(users={"ann": "wrong", "admin": "wrong"}), 5.0)


def test_settings_with_passwords_are_for_the_owner_only(guarded: Kafka) -> None:
    config = guarded.nodes[0].folder / "server.properties"
    assert config.stat().st_mode & 0o077 == 0


def test_three_nodes_log_in_to_each_other() -> None:
    with Kafka(nodes=3, security=Security(users={"ann": "secret"})) as kafka:
        topic = new_topic(kafka)
        write(kafka, topic, [b"a"])
        assert read(kafka, topic) == [b"a"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize("users", [{}, {"ann": "secret"}])
def test_tls(certificate: Path, users: dict[str, str]) -> None:
    with Kafka(security=Security(users=users, certificate=certificate)) as kafka:
        assert kafka.client()["security.protocol"] == ("SASL_SSL" if users else "SSL")
        topic = new_topic(kafka)
        write(kafka, topic, [b"a"])
        assert read(kafka, topic) == [b"a"]
        with pytest.raises(LedgerUnavailable):
            probe.look(kafka.nodes[0].place, Security(), 5.0)


def test_what_can_t_be_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="user 'a b' can't be used"):
        Security(users={"a b": "x"})
    with pytest.raises(ConfigError, match=r"none\.pem' is no file"):
        Security(certificate=tmp_path / "none.pem")
