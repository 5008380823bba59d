"""Kafka's consumer groups as a `Group`: the classic protocol, cooperative, sticky.

The group's coordinator gives each partition to one member. A member that is silent for a session (6 s, the least that a stock
broker allows; another by the client setting `session.timeout.ms`) is out, and its partitions go to others. What the client
fetches meanwhile is nothing: the partitions are paused as soon as they are assigned.

`on_revoked` holds the rebalance back while it runs, up to `max.poll.interval.ms` (five minutes); the session is kept by a
thread of the client's. A member that does not call `poll` for that long is out as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from pares.core.errors import ConfigError
from pares.ledger.base import check_name
from pares.ledger.handle_state import Lifetime, keep_after_fork
from pares.ledger.kafka.client import new_client
from pares.ledger.kafka.errors import (
    GROUP_AUTHORIZATION,
    GROUP_MAX_SIZE,
    INVALID_GROUP,
    INVALID_SESSION,
    OTHER_ASSIGNMENT,
    PARTITION_EOF,
    unavailable,
)
from pares.ledger.kafka.settings import Settings, log

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, TopicPartition

_SESSION_MS: Final = 6000
_POLL_MS: Final = 300_000
_TURN: Final = 0.1
_SHORT: Final = 0.01
_LEAST: Final = 0.001
"""What the client takes for no time at all: it would be asked again and again until the rest is over."""
_GOODBYE: Final = 1.0
"""Seconds at most until the coordinator has been told: it may be out of reach."""
_SILENT: Final = (-187, -195)
"""No broker can be reached."""
_NOT_LET_IN: Final = (GROUP_MAX_SIZE, OTHER_ASSIGNMENT, INVALID_GROUP, INVALID_SESSION)
"""Answers to who wants to join. The client goes on asking, and says each time what it was answered."""

Told = Callable[[Sequence[int]], None]


class KafkaMembership:
    """One member of a consumer group. Use it from one thread; callbacks run in `poll` and `leave` only."""

    def __init__(
        self,
        settings: Settings,
        lifetime: Lifetime,
        topic: str,
        group: str,
        callbacks: tuple[Told, Told, Told],
        session: float | None = None,
    ) -> None:
        check_name(group, "a group's name")
        self._where = f"kafka://{settings.servers}/{topic}, group {group!r}"
        self._group = group
        self._settings = settings
        self._lifetime = lifetime
        self._on_assigned, self._on_revoked, self._on_lost = callbacks
        self._session_ms = session_ms(settings, session)
        self._poll_ms = _milliseconds(settings, "max.poll.interval.ms", max(_POLL_MS, self._session_ms))
        self._held: set[int] = set()
        self._left = False
        self._joined = False
        self._trouble: KafkaError | None = None
        self._told = ""
        self._raised: BaseException | None = None
        self._consumer: Any = new_client(
            "Consumer",
            settings,
            {
                "group.id": group,
                "group.protocol": "classic",
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": self._session_ms,
                "heartbeat.interval.ms": settings.client.get("heartbeat.interval.ms", max(1, self._session_ms // 6)),
                "max.poll.interval.ms": self._poll_ms,
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
                "isolation.level": "read_uncommitted",
                "error_cb": self._error,
            },
        )
        keep_after_fork(self)
        self._consumer.subscribe([topic], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose)

    @property
    def reassignment_bound(self) -> float:
        return self._session_ms / 1000

    @property
    def callback_limit(self) -> float:
        return self._poll_ms / 1000

    @property
    def joined(self) -> bool:
        return self._joined and not self._left

    def poll(self, timeout: float = 0.0) -> None:
        self._lifetime.check()
        if self._left:
            raise Lifetime.closed_error(self._where)
        deadline = time.monotonic() + timeout
        while True:
            # In short turns: a callback or an error that comes in the middle of one does not end it.
            message = self._consumer.poll(max(0.0, min(_TURN, deadline - time.monotonic())))
            if self._raised is not None:
                raised, self._raised = self._raised, None
                raise raised
            error = None if message is None else message.error()
            if error is not None and error.code() != PARTITION_EOF:
                self._error(error)
            if self._trouble is not None:
                trouble, self._trouble = self._trouble, None
                right = f"Read on group {self._group}, and on the topic"
                told = f"session.timeout.ms={self._session_ms}" if trouble.code() == INVALID_SESSION else self._told
                doing = "join the group" if trouble.code() in _NOT_LET_IN else "poll the group"
                raise unavailable(trouble, self._where, doing, told=told, right=right)
            if time.monotonic() >= deadline - _LEAST:
                return

    def leave(self) -> None:
        if self._left:
            return
        self._left = True
        if self._lifetime.forked:
            return
        try:
            held, self._held = sorted(self._held), set()
            if held:
                # Before the group is told: the next owner must not find this member still at work.
                self._on_revoked(held)
        finally:
            self._say_goodbye()
            self._consumer.close()

    def _say_goodbye(self) -> None:
        """A client of this strategy that has no partitions says nothing when it is closed, and then each rebalance waits for it
        until its session is over. A consumer that unsubscribes says that it leaves, if it is given the time to."""
        self._consumer.unsubscribe()
        end = time.monotonic() + _GOODBYE
        while self._consumer.memberid() and time.monotonic() < end:
            self._consumer.poll(_SHORT)

    # Called by the client, within poll -------------------------------------------------------------------------------

    def _assign(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self._joined = True  # also by an assignment of nothing
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)
        numbers = _numbers(partitions)
        self._held.update(numbers)
        self._call(self._on_assigned, numbers)

    def _revoke(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        numbers = [number for number in _numbers(partitions) if number in self._held]
        self._call(self._on_revoked, numbers)
        self._held.difference_update(numbers)
        if partitions:
            consumer.incremental_unassign(partitions)

    def _lose(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self._joined = False
        numbers = [number for number in _numbers(partitions) if number in self._held]
        self._held.difference_update(numbers)
        self._call(self._on_lost, numbers)
        if partitions:
            consumer.incremental_unassign(partitions)

    def _call(self, callback: Told, numbers: list[int]) -> None:
        """The user's callback; what it raises comes out of `poll`, and the client goes on as if it had returned."""
        if not numbers or self._left:
            return
        try:
            callback(numbers)
        except BaseException as error:
            self._raised = error

    def _error(self, error: KafkaError) -> None:
        text = self._settings.scrubbed(error.str())
        log.debug("%s: %s", self._where, text)
        if error.code() in _NOT_LET_IN or error.fatal():
            self._joined = False
        if error.code() in (*_SILENT, *_NOT_LET_IN, GROUP_AUTHORIZATION) or error.fatal():
            self._trouble = error
        else:
            self._told = text


def _numbers(partitions: list[TopicPartition]) -> list[int]:
    return sorted(partition.partition for partition in partitions)


def session_ms(settings: Settings, asked: float | None = None) -> int:
    """For how long a member may be silent, in milliseconds. `asked`: seconds that a member was made with. Raises `ConfigError`
    for a setting that is no number, and for two that contradict each other."""
    found = _milliseconds(settings, "session.timeout.ms", _SESSION_MS if asked is None else round(1000 * asked))
    if asked is not None and found != round(1000 * asked):
        raise ConfigError(
            f"session is {asked:g} s, and the client settings say session.timeout.ms={found}: on Kafka both are the consumer "
            "group's session; leave one of them out"
        )
    return found


def _milliseconds(settings: Settings, name: str, usual: int) -> int:
    given = settings.client.get(name, usual)
    try:
        return int(str(given))
    except ValueError:
        raise ConfigError(f"{name}={given} is no number of milliseconds") from None
