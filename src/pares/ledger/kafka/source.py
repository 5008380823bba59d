"""A Kafka topic as a source: `open_source("kafka://HOST:PORT", "orders")`.

What it promises is `Source`'s, and how:

- records of committed transactions alone (`isolation.level=read_committed`). What was aborted, compacted away or written by
  the broker itself is passed over: `next` goes behind it, also where no record follows. `end` is the last stable offset;
- one client fetches all partitions that were asked for in the last half minute, ahead of those who read them, and holds a
  bounded number of bytes (see `ahead.prefetch`). What it has fetched it may return although retention has deleted it since;
- a record without a value (a tombstone) has an empty payload. Headers are not shown;
- a topic that was deleted and made anew is told by its topic id, which the source asks for once a second, and before it
  returns records if it has not asked for a quarter of a second. From then on fetches raise `LedgerRewound`. librdkafka itself
  goes on in the new topic and says nothing. So for that quarter of a second a fetch may bring records of the new one, if it was
  made, and has got as many records as the one before had, in less.

It reads, and does nothing else: no group is joined, nothing is committed, no topic is made. (`group_offsets` gives what can
commit, to those who ask for it.)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pares.core.errors import ConfigError, LedgerUnavailable
from pares.ledger.address import Address, Options
from pares.ledger.base import gap, no_such_partition, rewound
from pares.ledger.handle_state import Lifetime, keep_after_fork
from pares.ledger.kafka.ahead.prefetch import COMMITTED, Prefetch
from pares.ledger.kafka.errors import GONE, LOST_POSITION, unavailable
from pares.ledger.kafka.offsets import KafkaOffsets
from pares.ledger.kafka.seek import Seeker
from pares.ledger.kafka.settings import Settings, take
from pares.ledger.kafka.topic import Topics
from pares.ledger.source import Fetched, another, check_fetch

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

QUIET: Final = 1.0
"""Seconds for which an answer of the brokers on what the topic is counts, and after which a reader that hears nothing asks."""
_SURE: Final = 0.25
"""The same, before records are returned."""
_NEWS: Final = 0.3
"""Seconds for which a topic that is not there is asked for again: a broker may hear of it later than another one."""
_PAUSE: Final = 0.02
_COMPARE: Final = 3.0
"""Seconds after which a reader that hears nothing asks the leaders whether there is something."""


class KafkaSource:
    """See `Source`."""

    def __init__(self, settings: Settings, name: str) -> None:
        topic = settings.topic_name(name)
        self._settings = settings
        self._name = name
        self._topic = topic
        self._url = f"kafka://{settings.servers}/{topic}"
        self._lifetime = Lifetime(self._url)
        self._looking = threading.Lock()
        self._asked = -QUIET
        self._compared = time.monotonic()
        self._identity = self._told = ""
        self._partitions = 0
        keep_after_fork(self)
        self._topics = Topics(settings, self._url)
        self._seeker = Seeker(settings, self._url, COMMITTED)
        self._prefetch = Prefetch(settings, self._url, topic, self._lifetime)
        try:
            self._topics.connect()
            if not self._topics.there(topic):
                raise ConfigError(
                    f"{self._url}: there is no topic {topic} that this user may see: correct the name, or make it"
                )
            self._look(0.0, settings.connect)
            self._told = self._identity
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        return self._name

    @property
    def identity(self) -> str:
        self._lifetime.check()
        self._look(QUIET)
        self._told = self._identity
        return self._told

    def partitions(self) -> int:
        self._lifetime.check()
        self._look(QUIET)
        return self._partitions

    def start(self, partition: int) -> int:
        return self._ends(partition)[0]

    def end(self, partition: int) -> int:
        return self._ends(partition)[1]

    def ends(self, partitions: Collection[int]) -> dict[int, int]:
        self._lifetime.check()
        there = self._those_there(partitions)
        if not there:
            return {}
        found = self._topics.ends(self._topic, there)
        self._compared = time.monotonic()
        self._prefetch.compare(found)
        return found

    def changed(self, places: Mapping[int, int]) -> Collection[int]:
        self._lifetime.check()
        if self._told != self._identity or len(self._those_there(places)) < len(places):
            return places  # each fetch says what the matter is
        found = self._prefetch.changed(places)
        self._look(QUIET)
        return found if self._told == self._identity else places

    @property
    def prefetched(self) -> int:
        """Bytes of keys and payloads that were fetched ahead, and are held for their readers."""
        return self._prefetch.held

    @property
    def seeks(self) -> int:
        """How often a reader went on at a place that reading on does not lead to: that costs what was fetched ahead."""
        return self._prefetch.seeks

    def fetch(self, partition: int, offset: int, *, max_records: int, max_bytes: int, timeout: float) -> Fetched:
        check_fetch(offset, max_records, max_bytes)
        deadline = time.monotonic() + timeout
        while True:
            self._lifetime.check()
            generation = self._prefetch.generation
            if self._told != self._identity:
                raise another(self._url)
            self._has(partition)
            now = time.monotonic()
            end = min(deadline, now + QUIET)
            found = self._prefetch.take(partition, offset, max_records, max_bytes, end, generation)
            if found is None:
                continue
            if isinstance(found, Fetched):
                # Silence may have another cause than that there is nothing. And the client follows a topic that was made anew
                # without a word, wherever it has got to in the one before.
                self._look(_SURE if found.records else QUIET)
                if self._told == self._identity and (found.records or found.next > offset):
                    return found
            else:
                self._heed(found, partition, offset)
            if time.monotonic() >= deadline and self._told == self._identity:
                if time.monotonic() > self._compared + _COMPARE:
                    self.ends(self._prefetch.partitions)
                return Fetched((), offset)

    def group_offsets(self, group: str) -> KafkaOffsets:
        return KafkaOffsets(self._settings, self._topic, group)

    def close(self) -> None:
        if self._lifetime.end():
            self._prefetch.close()
            self._seeker.close()
            self._topics.close()

    # What the topic is -----------------------------------------------------------------------------------------------

    def _look(self, age: float, wait: float | None = None) -> None:
        """Know what the brokers say of the topic, no longer ago than so many seconds."""
        began = time.monotonic()
        if began < self._asked + age:
            return
        with self._looking:
            if self._asked >= began or time.monotonic() < self._asked + age:
                return  # another thread has asked meanwhile
            asked = time.monotonic()
            found = self._topics.describe(self._topic, wait)
            while found is None and time.monotonic() < asked + _NEWS:
                time.sleep(_PAUSE)
                found = self._topics.describe(self._topic)
            self._lifetime.check()
            if found is None:
                raise LedgerUnavailable(
                    f"{self._url}: the topic {self._topic} is gone: it was deleted, or is being made anew"
                )
            before, self._identity = self._identity, found.identity
            grown, self._partitions = found.partitions > self._partitions > 0, found.partitions
            self._asked = asked
        if before not in ("", found.identity):
            self._prefetch.renew()
            self._seeker.renew()
        elif grown:
            self._prefetch.refresh()

    def _has(self, partition: int) -> None:
        """Raise unless there is such a partition."""
        if not 0 <= partition < self._partitions:
            self._look(0.0)
            if not 0 <= partition < self._partitions:
                raise no_such_partition(partition, self._partitions, self._url)

    def _those_there(self, partitions: Collection[int]) -> list[int]:
        if max(partitions, default=-1) >= self._partitions:
            self._look(0.0)
        return [partition for partition in partitions if 0 <= partition < self._partitions]

    def _ends(self, partition: int) -> tuple[int, int]:
        self._lifetime.check()
        self._has(partition)
        return self._seeker.ends(self._topic, partition)

    def _heed(self, error: KafkaError, partition: int, offset: int) -> None:
        """Something went wrong with the partition: raise, unless another attempt may help."""
        if error.code() not in (*GONE, *LOST_POSITION):
            right = f"Read on topic {self._topic}"
            raise unavailable(error, self._url, f"read at offset {offset}", right=right)
        self._look(0.0)
        if self._told != self._identity:
            return  # which the caller finds
        if error.code() in GONE:
            self._prefetch.renew()  # it is there: the client is at a loss
            return
        first, end = self._seeker.ends(self._topic, partition)
        if offset < first:
            raise gap(self._url, partition, offset, first)
        if offset > end:
            raise rewound(self._url, partition, offset, end)


def open_kafka(address: Address, options: Options, topic: str) -> KafkaSource:
    """The source of a topic on the brokers of a `kafka://` URL, of which only the path may be missing."""
    return KafkaSource(replace(take(address, options, bare=True), readonly=True), topic)
