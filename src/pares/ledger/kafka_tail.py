"""Following Kafka: a thread that waits at the end of the partitions in use, and rings when something comes.

It keeps the newest entries of each, so a read at the end costs no request: the broker sends what is appended to whoever has
asked before (a long poll). An empty answer is as good as the last word of the broker; when that is older than `FRESH`, or an
append has failed since, the reader asks the partition's leader.

It hears of a log that was cut or replaced before anybody asks: the broker refuses the next fetch, which names the topic by
its id. Then the window on that partition is shut, and every bell rings.
"""

from __future__ import annotations

import bisect
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from .base import Entry
from .bell import PipeBell
from .kafka_client import client_module, new_client
from .kafka_errors import GONE, GROUP_AUTHORIZATION, LOST_POSITION, PARTITION_EOF
from .kafka_seek import READING, limited, to_entry
from .kafka_settings import Settings, log

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

FRESH: Final = 1.0
"""Seconds for which the broker's last word on the end of a partition is taken for its end. Where members beat they hear that
word again and again, and ask for nothing; a reader of a log that stands still asks once a second."""
NEAR: Final = 0.1
"""Seconds for which what is known to be in the log is awaited from the tail before the leader is asked: it is on its way."""
_POLL: Final = 0.1
"""Seconds after which the thread looks whether it is to end, or to follow another partition."""
_KEEP: Final = 8192
_KEEP_BYTES: Final = 8 << 20
"""Entries, and bytes, that are kept of each partition."""
_UNUSED: Final = 60.0
"""Seconds after which a partition is no longer followed that nobody has read and that has no bell."""


class Window:
    """The newest entries of one partition, as far as they have come. `changed` guards every field."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.changed = threading.Condition()
        self.open = False
        """Whether the thread follows this partition."""
        self.low = self.high = 0
        """It has everything from `low` to below `high`."""
        self.known = 0
        """The partition's end as far as anybody has heard: `high` will reach it."""
        self.heard = -1.0
        """When something has last come from the broker that is followed."""
        self.asked = -1.0
        """When the leader has last said, asked for it, that there is nothing at `high`."""
        self.used = time.monotonic()
        self.bells: weakref.WeakSet[PipeBell] = weakref.WeakSet()
        self._entries: list[Entry] = []
        self._bytes = 0

    def take(self, offset: int, max_records: int) -> list[Entry] | None:
        """Entries from `offset` on; None if that can't be said from here."""
        with self.changed:
            self.used = time.monotonic()
            if not self.open or not self.low <= offset <= self.high:
                return None
            at = bisect.bisect_left(self._entries, offset, key=_offset)
            found = limited(self._entries[at : at + max_records], max_records)
            if found or (offset == self.high >= self.known and self.used < max(self.heard, self.asked) + FRESH):
                return found
            return None

    def reach(self, offset: int, timeout: float) -> bool:
        """Wait until there is something at or after `offset`; False if that doesn't come, or from elsewhere."""
        with self.changed:
            if not self.open or offset < self.low:
                return False
            return self.changed.wait_for(lambda: not self.open or self.high > offset, timeout) and self.open

    def comes(self, offset: int) -> bool:
        """Wait a moment for an entry at `offset` or after it that is in the log, as somebody has said; whether it came."""
        with self.changed:
            if not self.open or not self.low <= offset <= self.high or offset >= self.known:
                return False
            return self.changed.wait_for(lambda: not self.open or self.high > offset, NEAR) and self.open

    def wait(self, offset: int, timeout: float) -> None:
        """Wait until something has changed, or is there at `offset` already."""
        with self.changed:
            if not self.open or self.high <= offset:
                self.changed.wait(timeout)

    def expect(self, end: int, *, at_least: bool) -> None:
        """The partition ends there, or later: so says an acknowledged append."""
        with self.changed:
            self.known = max(self.known, end) if at_least else end

    def answered(self, end: int) -> None:
        """The partition ends there: so says the leader, now."""
        with self.changed:
            self.known = end
            if self.open and end == self.high:
                self.asked = time.monotonic()

    def trimmed(self, before: int) -> None:
        with self.changed:
            self.low = max(self.low, before)
            self.high = max(self.high, before)

    # By the thread that follows --------------------------------------------------------------------------------------

    def begin(self, offset: int) -> None:
        with self.changed:
            self._entries, self._bytes = [], 0
            self.low = self.high = offset
            self.heard, self.asked, self.open = -1.0, -1.0, True
            self.changed.notify_all()

    def put(self, entries: list[Entry], end: int) -> None:
        """These came; `end`: where the thread goes on, if the broker has said so."""
        with self.changed:
            if not self.open:
                return
            new = [entry for entry in entries if entry.offset >= self.high]
            self._entries += new
            self._bytes += sum(len(entry.payload) for entry in new)
            self.high = max(self.high, end, new[-1].offset + 1 if new else 0)
            self.heard = time.monotonic()
            if len(self._entries) > 2 * _KEEP or self._bytes > 2 * _KEEP_BYTES:
                self._forget()
            self.changed.notify_all()
        if new:
            self.ring()

    def _forget(self) -> None:
        kept, size = 0, 0
        while kept < min(_KEEP, len(self._entries)) and size < _KEEP_BYTES:
            kept += 1
            size += len(self._entries[-kept].payload)
        self._entries, self._bytes = self._entries[-kept:], size
        self.low = max(self.low, self._entries[0].offset)

    def shut(self) -> None:
        """What is here may no longer be in the log."""
        with self.changed:
            self.open, self._entries, self._bytes = False, [], 0
            self.changed.notify_all()
        self.ring()

    def doubt(self) -> None:
        """The broker has not said anything lately."""
        with self.changed:
            self.heard = self.asked = -1.0
            self.changed.notify_all()

    def ring(self) -> None:
        with self.changed:
            bells = [*self.bells]
        for bell in bells:
            bell.ring()


def _offset(entry: Entry) -> int:
    return entry.offset


class TailBell(PipeBell):
    """A bell on one partition. `close` takes it down."""

    def __init__(self, window: Window) -> None:
        super().__init__()
        self._window = window
        with window.changed:
            window.bells.add(self)

    def close(self) -> None:
        # No lock in a forked child: another thread of the parent may have held it at the fork.
        if self._process == os.getpid() and self._descriptor >= 0:
            with self._window.changed:
                self._window.bells.discard(self)
        super().close()


class Tails:
    """The thread, and the windows that it fills. It starts with the first partition to follow, and ends with `close`."""

    def __init__(self, settings: Settings, where: str, replaced: Callable[[str], None]) -> None:
        self._settings = settings
        self._where = where
        self._replaced = replaced
        self._lock = threading.Lock()
        self._windows: dict[tuple[str, int], Window] = {}
        self._wanted: dict[tuple[str, int], int] = {}
        """Partitions to be followed, and from where on."""
        self._followed: set[tuple[str, int]] = set()
        self._thread: threading.Thread | None = None
        self._renew = False
        self._ended = False

    def window(self, topic: str, partition: int) -> Window:
        with self._lock:
            return self._windows.setdefault((topic, partition), Window(topic, partition))

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
        return max(
            (window.heard for window in [*self._windows.values()] if window.topic == topic and window.open),
            default=None,
        )

    def forget(self, topic: str) -> None:
        """It may be another topic now: what came of it so far counts no more."""
        for window in [*self._windows.values()]:
            if window.topic == topic:
                window.shut()

    def renew(self) -> None:
        """Go on with a new client: the old one may follow a topic that was made anew where the one before was."""
        self._renew = True
        for window in [*self._windows.values()]:
            window.shut()

    def close(self) -> None:
        """End the thread, and whoever waits for it."""
        with self._lock:
            self._ended = True
            thread, windows = self._thread, [*self._windows.values()]
        for window in windows:
            window.shut()
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
            for window in [*self._windows.values()]:
                window.shut()
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
            self._windows[key].begin(offset)

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
            window = self._windows.get(key)
            if window is not None:
                window.put(came, ends.get(key, 0))

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
        self._windows[key].shut()

    def _leave_unused(self, consumer: Any, now: float) -> None:
        for key in [*self._followed]:
            window = self._windows[key]
            if not window.bells and now > window.used + _UNUSED:
                self._leave(consumer, key)

    def _error(self, error: KafkaError) -> None:
        """The connection is in trouble: nobody knows the ends of the partitions now."""
        log.debug("%s: %s", self._where, self._settings.scrubbed(error.str()))
        for window in [*self._windows.values()]:
            window.doubt()


def _number(value: Any) -> int:
    return -1 if value is None else int(value)
