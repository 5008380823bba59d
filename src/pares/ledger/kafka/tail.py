"""Following Kafka: a thread that waits at the end of the partitions in use, and rings when something comes.

It keeps the newest entries of each, so a read at the end costs no request: the broker sends what is appended to whoever has
asked before (a long poll). An empty answer is as good as the last word of the broker; when that is older than `FRESH`, or an
append has failed since, the reader asks the partition's leader.

It hears of a log that was cut or replaced before anybody asks: the broker refuses the next fetch, which names the topic by
its id. Then the window on that partition is shut, and every bell rings.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pares.ledger.base import Entry
from pares.ledger.kafka.client import client_module, new_client
from pares.ledger.kafka.errors import GONE, GROUP_AUTHORIZATION, LOST_POSITION, PARTITION_EOF
from pares.ledger.kafka.seek import READING, to_entry
from pares.ledger.kafka.settings import Settings, log
from pares.ledger.window import Window, Windows

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

FRESH: Final = 1.0
"""Seconds for which the broker's last word on the end of a partition is taken for its end. Where members beat they hear that
word again and again, and ask for nothing; a reader of a log that stands still asks once a second."""
_POLL: Final = 0.1
"""Seconds after which the thread looks whether it is to end, or to follow another partition."""
_UNUSED: Final = 60.0
"""Seconds after which a partition is no longer followed that nobody has read and that has no bell."""


class Tails:
    """The thread, and the windows that it fills. It starts with the first partition to follow, and ends with `close`."""

    def __init__(self, settings: Settings, where: str, replaced: Callable[[str], None]) -> None:
        self._settings = settings
        self._where = where
        self._replaced = replaced
        self._lock = threading.Lock()
        self._windows = Windows(FRESH)
        self._wanted: dict[tuple[str, int], int] = {}
        """Partitions to be followed, and from where on."""
        self._followed: set[tuple[str, int]] = set()
        self._thread: threading.Thread | None = None
        self._renew = False
        self._ended = False

    def window(self, topic: str, partition: int) -> Window:
        return self._windows.get(topic, partition)

    def follow(self, window: Window, offset: int) -> None:
        """Follow the partition from `offset` on, unless it is followed already."""
        with self._lock:
            if window.open or self._ended:
                return
            self._wanted.setdefault((window.topic, window.partition), offset)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"pares {self._where}", daemon=True)
                self._thread.start()

    def heard(self, topic: str) -> float | None:
        """When the brokers have last said anything of the topic, by `time.monotonic`; None if it isn't followed."""
        return max((window.heard for window in self._windows.of(topic) if window.open), default=None)

    def forget(self, topic: str) -> None:
        """It may be another topic now: what came of it so far counts no more."""
        for window in self._windows.of(topic):
            window.shut()

    def renew(self) -> None:
        """Go on with a new client: the old one may follow a topic that was made anew where the one before was."""
        self._renew = True
        self._windows.shut()

    def close(self) -> None:
        """End the thread, and all waits for it."""
        with self._lock:
            self._ended = True
            thread = self._thread
        self._windows.shut()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    # The thread ------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        consumer: Any = None
        try:
            consumer = self._consumer()
            tidy_at = 0.0
            while not self._ended:
                now = time.monotonic()
                if self._renew:
                    self._renew = False
                    for key in [*self._followed]:
                        self._leave(consumer, key)
                    old, consumer = consumer, None
                    old.close()
                    consumer = self._consumer()
                if now >= tidy_at:
                    self._leave_unused(consumer, now)
                    tidy_at = now + 1.0
                if self._wanted:
                    self._begin(consumer)
                first = consumer.poll(_POLL)
                if first is not None:
                    self._sort(consumer, [first, *consumer.consume(1000, timeout=0)])
        except BaseException as error:
            # Readers ask the leader themselves when nothing is followed: slower, and as right as before.
            level = logging.DEBUG if self._ended else logging.ERROR
            log.log(level, "%s: the tail's thread ended: %r", self._where, error)
            self._ended = True
            self._windows.shut()
        finally:
            if consumer is not None:
                consumer.close()

    def _consumer(self) -> Any:
        return new_client(
            "Consumer",
            self._settings,
            {
                **READING,
                "fetch.wait.max.ms": min(250, max(10, self._settings.milliseconds // 2)),
                "fetch.message.max.bytes": 1 << 20,
                "queued.min.messages": 1000,
                "queued.max.messages.kbytes": 16_384,
                "error_cb": self._error,
            },
        )

    def _begin(self, consumer: Any) -> None:
        kafka = client_module()
        with self._lock:
            wanted, self._wanted = self._wanted, {}
        for key, offset in wanted.items():
            if key in self._followed:
                consumer.incremental_unassign([kafka.TopicPartition(*key)])
            self._followed.add(key)
            # From here on nothing comes that was fetched before: the client drops it.
            consumer.incremental_assign([kafka.TopicPartition(*key, offset)])
            self._windows.get(*key).begin(offset)

    def _sort(self, consumer: Any, messages: list[Message]) -> None:
        """Messages into their windows."""
        entries: dict[tuple[str, int], list[Entry]] = {}
        ends: dict[tuple[str, int], int] = {}
        for message in messages:
            key = (message.topic() or "", _number(message.partition()))
            error = message.error()
            if error is None:
                entries.setdefault(key, []).append(to_entry(message))
            elif error.code() == PARTITION_EOF:
                entries.setdefault(key, [])
                ends[key] = _number(message.offset())
            else:
                self._trouble(consumer, key, error)
        for key, came in entries.items():
            self._windows.get(*key).put(came, ends.get(key, 0))

    def _trouble(self, consumer: Any, key: tuple[str, int], error: KafkaError) -> None:
        log.debug("%s: %s: %s", self._where, key, self._settings.scrubbed(error.str()))
        if error.code() == GROUP_AUTHORIZATION:
            return  # said of a group that nobody joins
        if error.code() not in (*GONE, *LOST_POSITION):
            self._error(error)
            return
        self._replaced(key[0])
        for followed in [*self._followed]:
            if followed == key or (followed[0] == key[0] and key[1] < 0):
                self._leave(consumer, followed)

    def _leave(self, consumer: Any, key: tuple[str, int]) -> None:
        consumer.incremental_unassign([client_module().TopicPartition(*key)])
        self._followed.discard(key)
        self._windows.get(*key).shut()

    def _leave_unused(self, consumer: Any, now: float) -> None:
        for key in [*self._followed]:
            window = self._windows.get(*key)
            if not window.bells and now > window.used + _UNUSED:
                self._leave(consumer, key)

    def _error(self, error: KafkaError) -> None:
        """The connection is in trouble: nobody knows the ends of the partitions now."""
        log.debug("%s: %s", self._where, self._settings.scrubbed(error.str()))
        for window in self._windows:
            window.doubt()


def _number(value: Any) -> int:
    return -1 if value is None else int(value)
