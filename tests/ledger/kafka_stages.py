"""A Kafka for the ledgers' tests, and what they do to it."""

import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka.admin
from confluent_kafka import KafkaException, TopicCollection
from ledger_stages import ServedStage, in_processes
from log_tools import until

import pares.ledger
from pares.dev import Kafka
from pares.ledger.kafka.log import KafkaLedger

admin: Any = confluent_kafka.admin

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "allow.everyone.if.no.acl.found": "true",
}
"""Everybody may do everything, but for what an ACL names."""
WAIT = 30.0


class Cluster:
    """A running Kafka, and an administrator of it."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.bootstrap = kafka.bootstrap
        self.admin = admin.AdminClient(
            {
                "bootstrap.servers": self.bootstrap,
                **kafka.client(),
                "log_level": 0,
                "socket.timeout.ms": 2000,
                "reconnect.backoff.max.ms": 200,
                "metadata.recovery.strategy": "none",
            }
        )

    def name(self) -> str:
        """A topic that nobody has used."""
        return f"t-{uuid.uuid4().hex[:12]}"

    def make(self, topic: str, partitions: int = 1, replicas: int = 1, **config: str) -> None:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        self.admin.create_topics([admin.NewTopic(topic, partitions, replicas, config=settings)])[topic].result(WAIT)
        until(lambda: self.there(topic))

    def set(self, topic: str, name: str, value: str) -> None:
        entry = admin.ConfigEntry(name, value, incremental_operation=admin.AlterConfigOpType.SET)
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(WAIT)
        # It is the controller that has confirmed; the broker tells of it a moment later, and obeys a moment after that.
        until(lambda: self.setting(topic, name) == value)

    def setting(self, topic: str, name: str) -> str:
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, topic)
        return self.admin.describe_configs([resource])[resource].result(WAIT)[name].value

    def described(self, topic: str) -> Any:
        return self.admin.describe_topics(TopicCollection([topic]), request_timeout=5)[topic].result(WAIT)

    def members(self, group: str) -> int:
        """How many members the coordinator counts in a consumer group that is at rest; 0 while it is being shared out anew."""
        try:
            found = self.admin.describe_consumer_groups([group], request_timeout=5)[group].result(WAIT)
        except KafkaException:
            return 0
        return len(found.members) if found.state == confluent_kafka.ConsumerGroupState.STABLE else 0

    def there(self, topic: str) -> bool:
        try:
            parts = self.described(topic).partitions
        except KafkaException:
            return False
        return bool(parts) and all(part.leader is not None and part.leader.id >= 0 for part in parts)

    def topics(self, prefix: str) -> list[str]:
        return [topic for topic in self.admin.list_topics(timeout=WAIT).topics if topic.startswith(prefix)]

    def delete(self, prefix: str) -> None:
        """Delete every topic that begins like this, and wait until none is left."""
        found = self.topics(prefix)
        if found:
            for result in self.admin.delete_topics(found).values():
                result.result(WAIT)
        until(lambda: not self.topics(prefix))

    @contextmanager
    def only_reading(self, topic: str) -> Generator[None]:
        """Nobody may do anything with the topic but read it."""
        everybody = admin.AclBinding(
            admin.ResourceType.TOPIC,
            topic,
            admin.ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            admin.AclOperation.READ,
            admin.AclPermissionType.ALLOW,
        )
        for result in self.admin.create_acls([everybody]).values():
            result.result(WAIT)
        until(lambda: not self._may_write(topic))
        try:
            yield
        finally:
            every = admin.AclBindingFilter(
                admin.ResourceType.TOPIC,
                topic,
                admin.ResourcePatternType.LITERAL,
                None,
                None,
                admin.AclOperation.ANY,
                admin.AclPermissionType.ANY,
            )
            for result in self.admin.delete_acls([every]).values():
                result.result(WAIT)
            until(lambda: self._may_write(topic))

    def _may_write(self, topic: str) -> bool:
        asked = self.admin.describe_topics(TopicCollection([topic]), include_authorized_operations=True)
        return admin.AclOperation.WRITE in (asked[topic].result(WAIT).authorized_operations or [])


def opened(cluster: Cluster, topic: str, **options: object) -> KafkaLedger:
    ledger = pares.ledger.open(f"kafka://{cluster.bootstrap}/{topic}", **options)
    assert isinstance(ledger, KafkaLedger)
    return ledger


class KafkaStage(ServedStage):
    """A topic of its own for each test, all on one Kafka."""

    often = 15  # each time four clients begin and end, a quarter of a second
    unsure = 1

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        super().__init__(folder)
        self.cluster = cluster
        self.topic = cluster.name()

    @property
    def url(self) -> str:
        return f"kafka://{self.cluster.bootstrap}/{self.topic}?prefix={self.topic}.&timeout=20"

    @contextmanager
    def outage(self) -> Generator[None]:
        with self.cluster.only_reading(self.topic):
            yield

    def delete(self) -> None:
        self.cluster.delete(self.topic)

    def there(self) -> bool:
        return bool(self.cluster.topics(self.topic))

    def elsewhere(self, names: list[str], count: int) -> dict[str, list[int]]:
        return in_processes(self.url, names, count)

    def close(self) -> None:
        super().close()
        self.delete()
