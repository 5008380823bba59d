"""What `pares doctor` says of the topic behind a Kafka log: whether it can lose what was acknowledged, or forget too soon."""

from __future__ import annotations

from collections.abc import Iterator

from pares.ledger.base import MAX_PAYLOAD
from pares.ledger.kafka.append import LARGEST, OVERHEAD
from pares.ledger.kafka.settings import Settings
from pares.ledger.kafka.topic import USUAL_LARGEST, Topic, Topics

GOOD, NOTE, WARNING, PROBLEM = "good", "note", "warning", "problem"


def checks(topics: Topics, settings: Settings, retention: float | None) -> Iterator[tuple[str, str]]:
    """What is to be said of the ledger's topic, for `pares doctor`: (level, text)."""
    topic = settings.topic
    found = topics.describe(topic)
    if found is None:
        yield PROBLEM, f"the topic {topic} is gone"
        return
    config = topics.settings_of(topic)
    if found.replicas < 2:
        yield (
            WARNING,
            f"the topic {topic} has one replica: a broker that is lost takes it with it",
        )
    else:
        yield GOOD, f"the topic {topic} has {found.replicas} replicas"
    if config is None:
        yield NOTE, f"the settings of the topic {topic} can't be seen: the user has no right (DescribeConfigs)"
        return
    yield from _replication(found, config)
    yield from _contents(config, retention)


def _replication(found: Topic, config: dict[str, str]) -> Iterator[tuple[str, str]]:
    least = int(config.get("min.insync.replicas", 1))
    if config.get("unclean.leader.election.enable") == "true":
        yield (
            PROBLEM,
            "unclean.leader.election.enable=true: acknowledged records, and so leadership, may be lost; set it to false",
        )
    if least > found.replicas:
        yield PROBLEM, f"min.insync.replicas={least} with {found.replicas} replicas: nothing can be appended"
    elif least == found.replicas > 1:
        yield WARNING, f"min.insync.replicas={least} with as many replicas: one broker that is down stops every append"
    elif least < 2 <= found.replicas:
        yield WARNING, f"min.insync.replicas={least}: an acknowledged record may be on one broker only; set it to 2"


def _contents(config: dict[str, str], retention: float | None) -> Iterator[tuple[str, str]]:
    if "compact" in config.get("cleanup.policy", ""):
        yield (
            PROBLEM,
            f"cleanup.policy={config['cleanup.policy']}: the topic forgets records in the middle; set it to delete",
        )
    if config.get("message.timestamp.type") != "LogAppendTime":
        yield NOTE, "message.timestamp.type is not LogAppendTime: times in the log are by the writers' clocks"
    keep = int(config.get("retention.ms", -1))
    if keep >= 0 and (retention is None or keep < retention * 1000):
        asked = "for ever" if retention is None else f"{retention:g} s"
        yield (
            PROBLEM,
            f"retention.ms={keep}: the brokers delete what the ledger was opened to keep {asked}, whether a snapshot stands "
            "behind it or not; raise it, or open the ledger with a shorter retention",
        )
    if int(config.get("retention.bytes", -1)) >= 0:
        yield (
            WARNING,
            f"retention.bytes={config['retention.bytes']}: the brokers delete by size, however young a record is",
        )
    largest = int(config.get("max.message.bytes", USUAL_LARGEST))
    if largest < MAX_PAYLOAD + OVERHEAD:
        yield (
            WARNING,
            f"max.message.bytes={largest}: a payload of {MAX_PAYLOAD} bytes does not fit; snapshots of large groups may fail. "
            f"Set it to {LARGEST}",
        )
    elif largest < LARGEST:
        yield NOTE, f"max.message.bytes={largest}: an append of more bytes than that may be taken in parts"
