"""The topic behind a Kafka log: made when it is missing, and looked over when it is there.

What a log of pares needs of a topic:

| setting | made with | why |
|---|---|---|
| replicas | 3, or as many as there are brokers | a broker that is lost takes nothing with it |
| `min.insync.replicas` | 2 where there are 3 replicas | an acknowledged record is on two brokers |
| `unclean.leader.election.enable` | false | a replica that lags must not become the log: acknowledged records would be gone |
| `cleanup.policy` | delete | a compacted topic refuses records without a key, and forgets in the middle |
| `message.timestamp.type` | LogAppendTime | one clock, the broker's, says how old a record is |
| `retention.ms` | twice the ledger's `retention` | members trim behind their snapshots; the broker deletes after that |
| `max.message.bytes` | 18 MiB | the largest append is one record batch, and that is taken whole or not at all |
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from pares.core.errors import ConfigError, LedgerUnavailable
from pares.ledger.client_options import CONNECT, TIMEOUT
from pares.ledger.kafka.append import LARGEST
from pares.ledger.kafka.client import client_module, let_go_of_id, new_client
from pares.ledger.kafka.errors import GONE, NO_RIGHT, TOPIC_ALREADY_EXISTS, credentials_refused, unavailable
from pares.ledger.kafka.seek import IDLE
from pares.ledger.kafka.settings import Settings, log

if TYPE_CHECKING:
    from concurrent.futures import Future

    from confluent_kafka import KafkaError

    Asked: TypeAlias = Future[Any]

USUAL_LARGEST: Final = 1_048_588
"""`max.message.bytes` of a topic for which nobody has said anything."""
SMALLEST: Final = 128 << 10
"""A topic that takes less than this can't carry a group: one of its records may have 64 KiB, and they come in batches."""
_LEAST: Final = 0.1
"""Seconds of the shortest request."""
_OLD: Final = 5.0
"""Seconds that a client is given before it is replaced because it hears nothing."""
_FEW: Final = 3
"""Looks in a row without an answer, after which a client is replaced that is old enough."""
_REPLICAS: Final = 3
_SEGMENT_MS: Final = 600_000
_SEGMENT_BYTES: Final = 64 << 20


class Topic(NamedTuple):
    """What the brokers say of a topic."""

    identity: str
    partitions: int
    replicas: int
    led: bool
    """Whether every partition has a leader."""


class Topics:
    """The administrator's client of a ledger. Safe to use from several threads."""

    def __init__(self, settings: Settings, where: str) -> None:
        self._settings = settings
        self._where = where
        self._told = ""
        self.cluster = ""
        self.brokers = 0
        self._limits: dict[str, int] = {}
        self._client: Any = None
        self._making = threading.Lock()
        self._made = 0.0
        self._unanswered = 0
        """How many looks in a row have had no answer."""
        self._used = time.monotonic()

    @property
    def _admin(self) -> Any:
        self._used = time.monotonic()
        with self._making:
            if self._client is None:
                own = {
                    "error_cb": self._error,
                    # Otherwise a request that waits for a broker tries to connect again at once, whatever the backoff: while
                    # none is there, that takes a whole core.
                    "enable.sparse.connections": False,
                }
                self._client, self._made = new_client("AdminClient", self._settings, own), time.monotonic()
            return self._client

    def rest(self) -> bool:
        """Give the client back if it has not been used lately, as members need none for weeks; whether that was so."""
        idle = time.monotonic() > self._used + IDLE
        if idle:
            self.close()
        return idle

    # Looking ---------------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Reach the cluster for the first time. Raises `LedgerUnavailable`, or `ConfigError` for refused credentials."""
        deadline = time.monotonic() + self._settings.connect
        kafka = client_module()
        while True:
            left = deadline - time.monotonic()
            try:
                wait = max(0.1, min(left, 1.0))
                found = _result(self._admin.describe_cluster(request_timeout=wait), wait)
                self.cluster, self.brokers = str(found.cluster_id), len(found.nodes or [])
                return
            except kafka.KafkaException as error:
                why: KafkaError = error.args[0]
            # Error callbacks run in poll; what they say is what the matter is.
            self._admin.poll(0.01)
            if credentials_refused(why) or self._refused:
                raise ConfigError(
                    f"{self._where}: the brokers at {self._settings.servers} refuse these credentials "
                    f"({self._told or why.str()}): correct security.protocol and the sasl.* or ssl.* settings"
                )
            if left <= 0.05:
                told = f": {self._told}" if self._told else ""
                raise LedgerUnavailable(
                    f"{self._where}: no broker answers at {self._settings.servers}{told}; "
                    "look whether they run, and whether security.protocol is what they expect"
                )

    def describe(self, topic: str, timeout: float | None = None, *, hidden: bool = False) -> Topic | None:
        """The topic as it is now; None if it isn't there, or, with `hidden`, if the user has no right to see it.

        `timeout`: seconds, if others than for any request. It is asked for again in that time if no answer comes.
        """
        wait = timeout or self._settings.timeout
        deadline = time.monotonic() + wait
        while True:
            left = max(_LEAST, deadline - time.monotonic())
            turn = min(left, max(TIMEOUT, left / 2))  # an answer may be slow, too
            made = self._made
            try:
                found = self.answer(topic, self.ask(topic, turn), turn, hidden=hidden)
            except LedgerUnavailable:
                if time.monotonic() + _LEAST >= deadline:
                    self._doubt(made)
                    raise
            else:
                self._unanswered = 0
                return found
            self._look_around(max(_LEAST, deadline - time.monotonic()))

    def _look_around(self, left: float) -> None:
        """Such questions go to the broker that another one has named as the controller, and the client does not ask anew who
        that is, however long the one it knows is gone. Brokers name any that they take for alive: for a session also a dead
        one. A client that hears nothing at all is replaced: it may have forgotten every address (see `Seeker`)."""
        made, heard = self._made, False
        with suppress(client_module().KafkaException):
            self._admin.list_topics(timeout=min(left, TIMEOUT))
            heard = True
        if not heard:
            self._replace(made)

    def _doubt(self, made: float) -> None:
        """Here no time is left to look around: a client that has left a few questions in a row unanswered is replaced. [a
        broker is so busy that its cluster takes it for dead for a moment; a client that asks just then forgets it, and its
        members go on asking it which log it is, for ever, before they read on]"""
        self._unanswered += 1
        if self._unanswered >= _FEW:
            self._replace(made)

    def _replace(self, made: float) -> None:
        """The client that was made then gives way. It is named by that time, and in no variable of a frame that raises: such
        frames are let go of by any thread, one of the client's own too, and the library ends a process that frees it there."""
        gone: Any = None  # freed when this returns, since that takes time, and others want the lock
        with self._making:
            if self._made == made and time.monotonic() > made + _OLD:
                gone, self._client, self._unanswered = self._client, None, 0
        del gone

    def ask(self, topic: str, timeout: float | None = None) -> Asked:
        """Have the brokers asked what the topic is; `answer` has what came of it, once it is `done`."""
        wait = timeout or self._settings.timeout
        return self._admin.describe_topics(client_module().TopicCollection([topic]), request_timeout=wait)[topic]

    def answer(self, topic: str, asked: Asked, wait: float = 0.0, *, hidden: bool = False) -> Topic | None:
        """As `describe`."""
        kafka = client_module()
        found: Any = None
        why: KafkaError | None = None
        try:
            found = _result(asked, wait)
        except kafka.KafkaException as error:
            why = error.args[0]
        if why is not None:
            if why.code() in GONE or (hidden and why.code() in NO_RIGHT):
                return None
            self._admin.poll(0)
            right = f"Describe on topic {topic}"
            raise unavailable(why, self._where, f"look at the topic {topic}", told=self._told, right=right)
        parts: list[Any] = found.partitions
        led = bool(parts) and all(part.leader is not None and part.leader.id >= 0 for part in parts)
        replicas = min((len(part.replicas) for part in parts), default=0)
        described = Topic(f"kafka:{self.cluster}:{found.topic_id}", len(parts), replicas, led)
        let_go_of_id(found)
        return described

    def ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Where these partitions end for readers of committed records, by one request to each broker that leads some of them.
        One whose leader can't be asked is left out. Raises `LedgerUnavailable` if all are."""
        kafka, admin = client_module(), client_module("confluent_kafka.admin")
        latest = admin.OffsetSpec.latest()
        places = {kafka.TopicPartition(topic, partition): latest for partition in partitions}
        wait, found = self._settings.timeout, dict[int, int]()
        why: KafkaError | None = None
        asked = self._admin.list_offsets(
            places, isolation_level=kafka.IsolationLevel.READ_COMMITTED, request_timeout=wait
        )
        for place, answer in asked.items():
            try:
                found[place.partition] = _result(answer, wait).offset
            except kafka.KafkaException as error:
                why = error.args[0]
        if why is not None and not found:
            self._look_around(wait)
            right = f"Describe on topic {topic}"
            raise unavailable(why, self._where, "ask for the log's bounds", told=self._told, right=right)
        return found

    def settings_of(self, topic: str) -> dict[str, str] | None:
        """The topic's settings; None if the user has no right to see them."""
        kafka, admin = client_module(), client_module("confluent_kafka.admin")
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, topic)
        try:
            asked = self._admin.describe_configs([resource], request_timeout=self._settings.timeout)
            found: Any = _result(asked[resource], self._settings.timeout)
        except kafka.KafkaException as error:
            if error.args[0].code() in NO_RIGHT:
                return None
            raise unavailable(error.args[0], self._where, f"look at the settings of {topic}") from error
        return {str(name): str(entry.value) for name, entry in found.items()}

    def largest(self, topic: str, *, again: bool = False) -> int:
        """Bytes that a record batch in this topic may have, as far as is known; `again`: ask the brokers."""
        if again or topic not in self._limits:
            found = self.settings_of(topic)
            self._limits[topic] = USUAL_LARGEST if found is None else int(found.get("max.message.bytes", USUAL_LARGEST))
        return self._limits[topic]

    # Making ----------------------------------------------------------------------------------------------------------

    def settle(self, topic: str, partitions: int, own: Mapping[str, str] | None = None) -> Topic:
        """The topic, made if it isn't there, once every partition has a leader.

        With `own` it is no log but somebody else's: it is made with these settings before a log's, and the caller looks
        by itself whether one that was there suits.
        """
        deadline = time.monotonic() + max(self._settings.timeout, CONNECT)
        made = False
        while True:
            found = self.describe(topic, max(0.1, min(deadline - time.monotonic(), CONNECT)), hidden=not made)
            if found is not None and found.led:
                if not made and own is None:
                    self._refuse_unfit(topic)
                return found
            if found is None and not made:
                self._create(topic, partitions, own or {})
                made = True
            elif time.monotonic() > deadline:
                raise LedgerUnavailable(
                    f"{self._where}: a partition of the topic {topic} has no leader: look whether all brokers run"
                )
            else:
                time.sleep(0.01)

    def there(self, topic: str) -> bool:
        """Whether there is such a topic that this user may see."""
        return self.describe(topic, max(self._settings.timeout, CONNECT), hidden=True) is not None

    def found(self, topic: str) -> Topic:
        """The topic as it is, for a ledger that only looks on. Raises `ConfigError` if it isn't there."""
        found = self.describe(topic, max(self._settings.timeout, CONNECT), hidden=True)
        if found is None:
            raise ConfigError(
                f"{self._where}: there is no topic {topic} that this user may see: correct its name, or start a member, "
                "which makes it"
            )
        return found

    def delete(self, topic: str) -> None:
        """Delete the topic with all that is in it; nothing happens if it isn't there."""
        kafka = client_module()
        wait = max(self._settings.timeout, CONNECT)
        try:
            asked = self._admin.delete_topics([topic], operation_timeout=wait, request_timeout=wait)
            _result(asked[topic], wait)
        except kafka.KafkaException as error:
            if error.args[0].code() not in GONE:
                right = f"Delete on topic {topic}"
                raise unavailable(
                    error.args[0], self._where, f"delete the topic {topic}", told=self._told, right=right
                ) from error

    def grow(self, topic: str, partitions: int) -> None:
        """Have the topic so many partitions."""
        admin = client_module("confluent_kafka.admin")
        try:
            asked = self._admin.create_partitions(
                [admin.NewPartitions(topic, partitions)], request_timeout=max(self._settings.timeout, CONNECT)
            )
            _result(asked[topic], CONNECT)
        except client_module().KafkaException as error:
            right = f"Alter on topic {topic}"
            raise unavailable(
                error.args[0], self._where, f"give the topic {topic} {partitions} partitions", right=right
            ) from error

    def delete_before(self, topic: str, partition: int, before: int) -> None:
        """Delete the records below this offset."""
        kafka = client_module()
        place = kafka.TopicPartition(topic, partition, before)
        wait = max(self._settings.timeout, 1.0)
        try:
            asked = self._admin.delete_records([place], request_timeout=wait, operation_timeout=wait)
            _result(asked[place], wait)
        except kafka.KafkaException as error:
            right = f"Delete on topic {topic}"
            raise unavailable(error.args[0], self._where, f"trim {topic}", told=self._told, right=right) from error

    def _create(self, topic: str, partitions: int, own: Mapping[str, str]) -> None:
        kafka, admin = client_module(), client_module("confluent_kafka.admin")
        replicas = self._settings.replication or max(1, min(_REPLICAS, self.brokers))
        config = {
            "cleanup.policy": "delete",
            "message.timestamp.type": "LogAppendTime",
            "unclean.leader.election.enable": "false",
            "min.insync.replicas": str(2 if replicas >= _REPLICAS else 1),
            "max.message.bytes": str(LARGEST),
            "retention.ms": str(-1 if self._settings.retention is None else math.ceil(self._settings.retention * 2000)),
            "segment.ms": str(_SEGMENT_MS),
            "segment.bytes": str(_SEGMENT_BYTES),
            **own,
        }
        log.info("%s: making the topic %s: %d partitions, %d replicas", self._where, topic, partitions, replicas)
        try:
            wait = max(self._settings.timeout, CONNECT)
            asked = self._admin.create_topics(
                [admin.NewTopic(topic, partitions, replicas, config=config)],
                operation_timeout=wait,
                request_timeout=wait,
            )
            _result(asked[topic], wait)
            self._limits[topic] = LARGEST
        except kafka.KafkaException as error:
            why: KafkaError = error.args[0]
            if why.code() == TOPIC_ALREADY_EXISTS:
                return
            if why.code() in NO_RIGHT:
                settings = " ".join(f"--config {name}={value}" for name, value in config.items())
                raise ConfigError(
                    f"{self._where}: there is no topic {topic} that this user may see, and the user has no right to make it "
                    f"({why.name()}): have it made (kafka-topics.sh --create --topic {topic} --partitions {partitions} "
                    f"--replication-factor {replicas} {settings}), or an ACL for it: Create and Describe on topic {topic}"
                ) from error
            if why.code() in (37, 38, 40, 44):  # partitions, replicas, settings, policy
                raise ConfigError(
                    f"{self._where}: the brokers refuse to make the topic {topic} with {partitions} partitions and "
                    f"{replicas} replicas on {self.brokers} brokers ({why.name()}: {why.str()}): give other partitions= "
                    "or replication=, or make the topic yourself"
                ) from error
            raise unavailable(why, self._where, f"make the topic {topic}", told=self._told) from error

    def _refuse_unfit(self, topic: str) -> None:
        """Raise for a topic that can't carry a log at all; what is merely unsafe is for `checks`."""
        found = self.settings_of(topic)
        if found is None:
            return
        if "compact" in found.get("cleanup.policy", ""):
            raise ConfigError(
                f"{self._where}: the topic {topic} is compacted (cleanup.policy={found['cleanup.policy']}): it takes no record "
                "without a key, and forgets records in the middle. Set cleanup.policy=delete, or use another topic"
            )
        largest = int(found.get("max.message.bytes", USUAL_LARGEST))
        self._limits[topic] = largest
        if largest < SMALLEST:
            raise ConfigError(
                f"{self._where}: the topic {topic} takes messages of at most {largest} bytes (max.message.bytes); a log needs "
                f"{SMALLEST} at least, and {LARGEST} to take every append whole. Raise it, or use another topic"
            )

    def _error(self, error: KafkaError) -> None:
        text = self._settings.scrubbed(error.str())
        log.debug("%s: %s", self._where, text)
        # "All brokers are down" says less than what was said before it.
        if error.code() != -187 or not self._told:
            self._told = text
        self._refused = self._refused or credentials_refused(error)

    _refused = False

    def close(self) -> None:
        with self._making:
            self._client = None


def _result(asked: Any, wait: float) -> Any:
    """What an administrator's request came to. The client ends it in time; the rest is for its threads."""
    kafka = client_module()
    try:
        return asked.result(wait + 2.0)
    except TimeoutError:
        raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TIMED_OUT)) from None
