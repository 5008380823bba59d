"""What librdkafka's errors mean for an append: whether it happened, whether it still may, and what to do.

Only a broker's own refusal says that an append did not happen. No other error does: a request that got no answer may have been
carried out, and one that librdkafka calls *purged from the queue* may be a second attempt, while the first is on its way. So
every error that is not listed here as a refusal means an unknown outcome.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.core.errors import ConfigError, LedgerUnavailable

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

# Numbers of Kafka's protocol (above 0) and of librdkafka (below 0), so that nothing is imported before it is needed.
TOPIC_AUTHORIZATION: Final = 29
GROUP_AUTHORIZATION: Final = 30
CLUSTER_AUTHORIZATION: Final = 31
SASL_AUTHENTICATION: Final = 58
GROUP_MAX_SIZE: Final = 81
OTHER_ASSIGNMENT: Final = 23
"""The members of the group share partitions out in a way that this one does not know."""
INVALID_GROUP: Final = 24
INVALID_SESSION: Final = 26
TOPIC_ALREADY_EXISTS: Final = 36
PARTITION_EOF: Final = -191
AUTHENTICATION: Final = -169
TOO_LARGE: Final = (10, 18)
"""The broker, or the client by the topic's limit, refuses a message or a batch for its size."""
GONE: Final = (3, 100, -188, -190)
"""No such topic, or partition, or topic id: as the broker says, or as the client has heard."""
NO_RIGHT: Final = (TOPIC_AUTHORIZATION, GROUP_AUTHORIZATION, CLUSTER_AUTHORIZATION, 65)
MOVING: Final = (5, 6, 9, 74, 75)
"""The partition's leader is changing: another one, or the same, answers in a moment."""
LOST_POSITION: Final = (1, -140)
"""The position is not in the log: the broker's word, and librdkafka's for it."""
_CREDENTIALS: Final = (SASL_AUTHENTICATION, AUTHENTICATION, 33, 34)
SILENT: Final = (-195, -187, -185, 7, -193, -151, -152, -192, -137)
"""No connection, or no answer in time."""
_REFUSALS: Final = frozenset({*TOO_LARGE, *NO_RIGHT, *GONE, 17, 19, 21, 42, 43, 44, 87, -184})
"""After these nothing was appended: too large, no right, no such topic, invalid record, not enough replicas in
sync *before* the append, a policy; or the client's own queue was full. Not among them, though it sounds alike: 20, not
enough replicas *after* the append."""


def refused(error: KafkaError) -> bool:
    """Whether a produce request that failed with this has surely appended nothing."""
    return error.code() in _REFUSALS and not error.fatal()


def credentials_refused(error: KafkaError) -> bool:
    return error.code() in _CREDENTIALS


def unavailable(
    error: KafkaError, where: str, doing: str, *, unknown: bool = False, told: str = "", right: str = ""
) -> LedgerUnavailable:
    """The ledger's error for librdkafka's. `told`: what the client has said of its connections meanwhile. `right`: what an ACL
    has to allow for it, in Kafka's words."""
    outcome = "; whether it happened is unknown" if unknown else ""
    more = f"; {told}" if told else ""
    return LedgerUnavailable(
        f"{where}: could not {doing}{outcome}: {advice(error, right)} ({error.name()}: {error.str()}{more})",
        unknown=unknown,
    )


def too_large(where: str, size: int, limit: int) -> ConfigError:
    """The error for a payload that the topic does not take, though every ledger should."""
    return ConfigError(
        f"{where}: a payload of {size} bytes does not fit into the topic's max.message.bytes={limit}: raise it "
        "(kafka-configs.sh --alter --entity-type topics --add-config max.message.bytes=...), or write less"
    )


def advice(error: KafkaError, right: str = "") -> str:
    """What the matter is, and what to do, in a few words."""
    code = error.code()
    if code in _CREDENTIALS:
        return "the brokers refuse these credentials; check security.protocol and the sasl.* or ssl.* settings"
    if code in NO_RIGHT:
        missing = f": it needs {right}" if right else ""
        return f"the user has no right to do that{missing}; have the brokers' ACLs changed"
    if code in GONE:
        return "the topic, or its partition, is not there; somebody deleted it, or has not made it yet"
    if code in MOVING:
        return "the partition has no leader at the moment, or another one; try again soon, and look whether all brokers run"
    if code in (19, 20):
        return "too few replicas are in sync; bring the brokers back that are down"
    if code == GROUP_MAX_SIZE:
        return "the group has as many members as the brokers' group.max.size allows; raise it, or start fewer"
    if code == OTHER_ASSIGNMENT:
        return (
            "the consumer group of this name has members of another kind, such as an application's own consumers, which share "
            "partitions out otherwise: give this group a name of its own, or stop them"
        )
    if code == INVALID_SESSION:
        return (
            "the brokers don't take this session: it must be from their group.min.session.timeout.ms (6000 unless changed) to "
            "their group.max.session.timeout.ms; change session= (or session.timeout.ms), or have those changed"
        )
    if code == INVALID_GROUP:
        return "the brokers don't take this name for a group; use another"
    if code in SILENT or error.retriable():
        return (
            "no answer in time from the broker that leads the partition; look whether it runs and can be reached, and whether "
            "there is such a topic"
        )
    return "the brokers, or the client, refused"
