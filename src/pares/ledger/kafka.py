"""Kafka as a ledger: `kafka://HOST:PORT[,HOST:PORT...]/TOPIC`. One topic is one log.

What it promises is `Log`'s, and how:

- one total order: a partition's leader gives out the offsets. Foreign transactions and compaction leave holes;
- acknowledged records stay: `acks=all`, on a topic whose `min.insync.replicas` is 2 and which has no unclean elections (see
  `kafka_topic`; `pares doctor` says if it is otherwise). How many of the brokers must be lost at once to lose a record is
  for the topic to say;
- all or nothing: an append is one record batch, as long as it is not larger than the topic's `max.message.bytes` (18 MiB on
  topics made here). A larger one goes in several, in order, and may end after any of them. A process that is stopped for
  longer than `timeout` in the very middle of handing over an append may send it in two parts;
- **an append whose outcome is unknown** (`LedgerUnavailable` with `unknown=True`) may still land: until an append of the same
  ledger to the same partition is acknowledged, never after; see `kafka_append`. There is at most one such append a partition
  and ledger;
- a reader is told of appends: a thread waits for them at the brokers (see `kafka_tail`); a bell rings
  for its own partition alone. An empty answer of `read` is
  at most 50 ms old: it never misses what this ledger has appended, or what an `end` of it has told of.

What it does not promise: to see at once that the topic was deleted and made anew. It shows in the next fetch, within about
a quarter of a second; `identity` asks the brokers at least every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from urllib.parse import quote

from pares.core.errors import LedgerUnavailable

from .address import Address, Options
from .base import (
    Entry,
    Log,
    Membership,
    check_partitions,
    grown_partitions,
)
from .kafka_append import Appender
from .kafka_seek import Seeker
from .kafka_settings import Settings, take
from .kafka_tail import Tails
from .kafka_topic import Topics, checks
from .lifetime import Lifetime, keep_after_fork
from .tailed import Known, TailedLog
from .window import Window


class _Shared:
    """What a ledger and its topics have in common: the clients, each made when it is needed."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lifetime = Lifetime(settings.url)
        where = f"kafka://{settings.servers}/{settings.topic}"
        self.topics = Topics(settings, where)
        self.seeker = Seeker(settings, where)
        self.appender = Appender(settings, where, self.topics.largest, self.seeker.ends)
        self.tails = Tails(settings, where, self.replaced)
        self.known = Known()
        keep_after_fork(self)

    @property
    def timeout(self) -> float:
        return self.settings.timeout

    @property
    def retention(self) -> float | None:
        return self.settings.retention

    def look(self, topic: str) -> tuple[str, int]:
        asked = time.monotonic()
        found = self.topics.describe(topic)
        if found is None:
            self.known.forget(topic)
            raise LedgerUnavailable(
                f"{self.settings.url}: the topic {topic} is gone; whoever opens the ledger next makes it anew"
            )
        if self.known.put(topic, found.identity, found.partitions, asked):
            self.seeker.forget()
        return found.identity, found.partitions

    def replaced(self, topic: str) -> None:
        self.seeker.forget()
        self.known.doubt(topic)

    def refresh(self, topic: str) -> None:
        self.appender.refresh(topic)

    def ends(self, topic: str, partition: int, least: int = 0) -> tuple[int, int]:
        return self.seeker.ends(topic, partition)

    def fetch(self, topic: str, partition: int, offset: int, end: int, max_records: int) -> list[Entry]:
        return self.seeker.fetch(topic, partition, offset, end, max_records)

    def append(self, topic: str, payloads: Sequence[bytes], partition: int) -> list[int]:
        return self.appender.append(topic, payloads, partition)

    def trim(self, topic: str, partition: int, before: int) -> None:
        self.topics.delete_before(topic, partition, before)
        self.seeker.forget()

    def window(self, topic: str, partition: int) -> Window:
        return self.tails.window(topic, partition)

    def follow(self, window: Window, offset: int) -> None:
        self.tails.follow(window, offset)

    def follows(self, topic: str) -> bool:
        return self.tails.follows(topic)

    def close(self) -> None:
        if self.lifetime.end():
            self.tails.close()
            self.appender.close()
            self.seeker.close()
            self.topics.close()


class KafkaLog(TailedLog):
    """One topic as a log."""

    kind = "kafka"

    def __init__(self, shared: _Shared, topic: str, url: str) -> None:
        super().__init__(shared, topic, url)
        self._shared = shared


class KafkaLedger(KafkaLog):
    """A Kafka cluster, and in it the topic that the URL names; made when it is missing.

    Options: `partitions` (grows an existing topic), `replication` (of a new one), `retention` (seconds, or "none"),
    `timeout` (seconds that a request may take before it is given up; 1), `prefix` (before the names of the topics that
    `topic` is asked for), `config` (a properties file with client settings) and `options` (the same as a dictionary).

    `topic(name)` is the Kafka topic of that name, where Kafka allows the name. It is also a `Group`, by Kafka's own.
    """

    def __init__(self, address: Address, options: Options) -> None:
        settings = take(address, options)
        shared = _Shared(settings)
        super().__init__(shared, settings.topic, settings.url)
        try:
            shared.topics.connect()
            there = shared.topics.settle(settings.topic, settings.partitions or 1).partitions
            if grown_partitions(self.url, there, settings.partitions) > there:
                self._grow(settings.partitions or there)
            shared.look(settings.topic)
            shared.appender.refresh(settings.topic)
        except BaseException:
            self.close()
            raise

    def _grow(self, partitions: int) -> None:
        self._open()
        shared = self._shared
        shared.topics.grow(self._topic, partitions)
        deadline = time.monotonic() + 5.0
        while shared.look(self._topic)[1] < partitions and time.monotonic() < deadline:
            time.sleep(0.01)

    def topic(self, name: str, partitions: int = 4) -> Log:
        self._open()
        shared = self._shared
        full = shared.settings.topic_name(name)
        check_partitions(partitions, f"topic {name!r}")
        shared.topics.settle(full, partitions)
        shared.look(full)
        return KafkaLog(shared, full, f"{self.url}#{quote(name, safe='')}")

    def join(
        self,
        group: str,
        partitions: int,
        on_assigned: Callable[[Sequence[int]], None],
        on_revoked: Callable[[Sequence[int]], None],
        on_lost: Callable[[Sequence[int]], None],
    ) -> Membership:
        """Join Kafka's consumer group `group` for the partitions 0 to `partitions - 1`; see `kafka_group`."""
        from .kafka_group import KafkaMembership

        self._open()
        shared = self._shared
        check_partitions(partitions, f"group {group!r}")
        topic = self._topic
        if shared.look(topic)[1] != partitions:
            # Kafka shares out all partitions of a topic: so one that has just as many, and carries nothing.
            topic = f"{self._topic[:200]}.group-{partitions}"
            shared.topics.settle(topic, partitions)
        return KafkaMembership(shared.settings, shared.lifetime, topic, group, (on_assigned, on_revoked, on_lost))

    def checks(self) -> list[tuple[str, str]]:
        """What `pares doctor` is to say of the topic and its settings: (good, note, warning or problem, and the text)."""
        self._open()
        shared = self._shared
        return [*checks(shared.topics, shared.settings, self.retention)]

    def close(self) -> None:
        super().close()
        self._shared.close()
