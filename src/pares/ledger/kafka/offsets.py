"""Offsets that Kafka keeps for a consumer group, written by a program that is no member of one.

Tools and dashboards tell a group's lag by them. Nothing of pares reads them: positions stand in the group's log. So what is
written here may be late, or missing after an outage, and no record is lost or repeated by that.

The broker takes such an offset while the group of that name has no members of its own. A group of an application that is
running answers with an error, and its offsets stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pares.core.errors import LedgerUnavailable
from pares.ledger.base import check_name
from pares.ledger.handle_state import Lifetime, keep_after_fork
from pares.ledger.kafka.client import client_module, new_client
from pares.ledger.kafka.errors import unavailable
from pares.ledger.kafka.settings import Settings, log

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_HAS_MEMBERS: Final = (22, 25, 27)
"""Illegal generation, unknown member, rebalance in progress: all answers of a group that has members."""


class KafkaOffsets:
    """Of one consumer group, for one topic. See `GroupOffsets`."""

    def __init__(self, settings: Settings, topic: str, group: str) -> None:
        check_name(group, "the name of a consumer group")
        self._group = group
        self._topic = topic
        self._settings = settings
        self._where = f"kafka://{settings.servers}/{topic}, offsets of group {group!r}"
        self._lifetime = Lifetime(self._where)
        self._client: Any = None
        keep_after_fork(self)

    def commit(self, offsets: Mapping[int, int]) -> None:
        self._lifetime.check()
        kafka = client_module()
        if self._client is None:
            self._client = new_client("AdminClient", self._settings, {"error_cb": self._error})
        places = [kafka.TopicPartition(self._topic, number, offset) for number, offset in sorted(offsets.items())]
        asked = kafka.ConsumerGroupTopicPartitions(self._group, places)
        try:
            futures = self._client.alter_consumer_group_offsets([asked], request_timeout=self._settings.timeout)
            answer = next(iter(futures.values())).result(2 * self._settings.timeout)
        except kafka.KafkaException as error:
            raise self._unavailable(error.args[0]) from error
        except TimeoutError as error:
            raise LedgerUnavailable(f"{self._where}: no answer from the brokers in time") from error
        for place in answer.topic_partitions:
            if place.error is not None:
                raise self._unavailable(place.error)

    def close(self) -> None:
        if self._lifetime.end():
            self._client = None

    def _unavailable(self, error: KafkaError) -> LedgerUnavailable:
        if error.code() in _HAS_MEMBERS:
            return LedgerUnavailable(
                f"{self._where}: the group has members of its own, so the brokers take no offsets from others: stop them, or "
                f"give another name ({error.name()})"
            )
        right = f"Read on group {self._group}, and on topic {self._topic}"
        return unavailable(error, self._where, "commit offsets", right=right)

    def _error(self, error: KafkaError) -> None:
        log.debug("%s: %s", self._where, self._settings.scrubbed(error.str()))
