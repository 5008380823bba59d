"""Following Kafka: threads that wait at the end of the partitions in use, and ring when something comes.

They keep the newest entries of each, so a read at the end costs no request: the broker sends what is appended to each client
that has asked before (a long poll). An empty answer is as good as the last word of the broker; when that is older than
`FRESH`, or an append has failed since, the reader asks the partition's leader.

There are two followers, each with a client of its own, as what a fetch waits for is a setting of the client. The eager one is
answered at once. A partition most of whose entries are not urgent is followed by the lazy one (see `kafka.marks`): it hears of
urgent entries at once, and of others when `LAZY_WAIT_MS` are over; readers bring them through the seeker (`Tails.put`). A
follower that follows nothing has neither thread nor client.

They hear of a log that was cut or replaced before anybody asks: the broker refuses the next fetch, which names the topic by
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
from pares.ledger.kafka.marks import LAZY_BYTES, is_quiet
from pares.ledger.kafka.seek import READING, News, to_entry
from pares.ledger.kafka.settings import Settings, log
from pares.ledger.window import Window, Windows

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

FRESH: Final = 1.0
"""Seconds for which the broker's last word on the end of a partition is taken for its end. Where members beat they hear that
word again and again, and ask for nothing; a reader of a log that stands still asks once a second."""
WAIT_MS: Final = 1000
LAZY_WAIT_MS: Final = 2500
"""How long a broker waits for something to answer with. What is answered at once does not depend on it; how many fetches an
idle client makes does, and how long it takes to hear that a broker is silent."""
_POLL: Final = 0.2
"""Seconds after which a thread looks whether it is to end, or to follow another partition. The client library wakes as often
in any wait."""
_TIDY: Final = 5.0
_UNUSED: Final = 60.0
"""Seconds after which a partition is no longer followed that nobody has read and that has no bell."""

Key = tuple[str, int]


class Tails:
    """The windows, and who fills them. For any thread."""

    def __init__(
        self, settings: Settings, where: str, replaced: Callable[[str], None], tidy: Callable[[], None] = lambda: None
    ) -> None:
        self.windows = Windows(FRESH)
        self.replaced = replaced
        self.tidy = tidy
        """Called every few seconds, as long as anything is followed."""
        self._lock = threading.Lock()
        self._eager = Follower(self, settings, where, lazy=False)
        self._lazy = Follower(self, settings, where, lazy=True)

    def window(self, topic: str, partition: int) -> Window:
        return self.windows.get(topic, partition)

    def follow(self, window: Window, offset: int) -> None:
        """Follow the partition from `offset` on, unless it is followed already."""
        with self._lock:
            if not window.open:
                (self._lazy if window.lazy else self._eager).follow((window.topic, window.partition), offset)

    def put(self, window: Window, news: News, life: int, since: float) -> None:
        """A reader has brought this from the leader, which it has asked at `since`."""
        if window.put(news.entries, 0, news.quiet, life=life, at_end=news.at_end, since=since):
            self.settle(window)

    def settle(self, window: Window) -> None:
        """Have the other follower take the partition, if its window should be lazy and isn't, or is and shouldn't."""
        with self._lock:
            lazy = window.should_be_lazy
            if lazy == window.lazy or not window.open:
                return
            key = (window.topic, window.partition)
            before, after = (self._eager, self._lazy) if lazy else (self._lazy, self._eager)
            log.debug("%s: readers of %s are %s", key[0], key, "lazy" if lazy else "eager")
            before.leave(key)
            window.lazy = lazy
            after.follow(key, window.high)  # what the one before brings meanwhile is brought twice, and taken once
        window.ring()  # a reader may have brought what the one before would have rung for

    def stuck(self, window: Window) -> None:
        """The leader has what the follower does not bring: it goes on with a new client, whatever the old one waits for."""
        (self._lazy if window.lazy else self._eager).move()

    def heard(self, topic: str) -> float | None:
        """When the brokers have last said anything of the topic, by `time.monotonic`; None if it isn't followed."""
        return max((window.heard for window in self.windows.of(topic) if window.open), default=None)

    def forget(self, topic: str) -> None:
        """It may be another topic now: what came of it so far counts no more."""
        for window in self.windows.of(topic):
            window.shut()

    def renew(self) -> None:
        """Go on with new clients: the old ones may follow a topic that was made anew where the one before was."""
        self.windows.shut()
        for follower in (self._eager, self._lazy):
            follower.begin_anew()

    def close(self) -> None:
        """End the threads, and all waits for them."""
        for follower in (self._eager, self._lazy):
            follower.end()
        self.windows.shut()
        for follower in (self._eager, self._lazy):
            follower.join()


class Follower:
    """A thread with a client, while there is anything to follow. Its own methods are for any thread, those below the line for
    its thread alone."""

    def __init__(self, tails: Tails, settings: Settings, where: str, *, lazy: bool) -> None:
        self._tails = tails
        self._settings = settings
        self._where = where
        self._lazy = lazy
        self._lock = threading.Lock()
        self._wanted: dict[Key, int | None] = {}
        """Partitions to be followed, and from where on; None: not any more."""
        self._followed: set[Key] = set()
        self._thread: threading.Thread | None = None
        self._renew = False
        self._move = False
        self._ended = False

    def follow(self, key: Key, offset: int) -> None:
        with self._lock:
            if self._ended or self._wanted.get(key) is not None:
                return
            self._wanted[key] = offset
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"pares {self._where}", daemon=True)
                self._thread.start()

    def leave(self, key: Key) -> None:
        """Its window is another's."""
        with self._lock:
            self._wanted[key] = None

    def move(self) -> None:
        """Go on with a new client where the old one is."""
        self._move = True

    def begin_anew(self) -> None:
        """Follow nothing, until asked to again; then with a new client."""
        self._renew = True

    def end(self) -> None:
        self._ended = True

    def join(self) -> None:
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    # The thread ------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        consumer: Any = None
        try:
            consumer = self._consumer()
            tidy_at = 0.0
            while not self._over():
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
                    self._tails.tidy()
                    tidy_at = now + _TIDY
                if self._wanted or self._move:
                    consumer = self._begin(consumer)
                if self._lazy and not self._heeded():
                    continue
                first = consumer.poll(_POLL)
                if first is not None:
                    self._sort(consumer, [first, *consumer.consume(1000, timeout=0)])
        except BaseException as error:
            # Readers ask the leader themselves when nothing is followed: slower, and as right as before.
            level = logging.DEBUG if self._ended else logging.ERROR
            log.log(level, "%s: the tail's thread ended: %r", self._where, error)
            self._ended = True
            self._tails.windows.shut()
        finally:
            if consumer is not None:
                consumer.close()

    def _heeded(self) -> bool:
        """Whether to go on, after a while: a lazy follower of one partition waits for its readers, which bring what they need
        themselves. Meanwhile the client asks once or twice, and then for nothing (`queued.min.messages`)."""
        return len(self._followed) != 1 or all(self._window(key).heeded(_POLL) for key in self._followed)

    def _over(self) -> bool:
        """Whether it has nothing to do any more. A caller that wants something followed after that finds no thread."""
        with self._lock:
            over = self._ended or not (self._followed or self._wanted or self._renew)
            if over:
                self._thread = None
                self._move = False
            return over

    def _consumer(self) -> Any:
        return new_client(
            "Consumer",
            self._settings,
            {
                **READING,
                "fetch.min.bytes": LAZY_BYTES if self._lazy else 1,
                "fetch.wait.max.ms": LAZY_WAIT_MS if self._lazy else WAIT_MS,
                "fetch.message.max.bytes": 1 << 20,
                "queued.min.messages": 2 if self._lazy else 1000,
                "queued.max.messages.kbytes": 4096,
                "fetch.queue.backoff.ms": 20 if self._lazy else READING["fetch.queue.backoff.ms"],
                "error_cb": self._error,
            },
        )

    def _begin(self, consumer: Any) -> Any:
        """Follow what is to be followed from now on. The client to go on with: another one, where the old one has asked the
        broker already, which takes no other question before it has answered."""
        kafka = client_module()
        with self._lock:
            wanted, self._wanted = self._wanted, {}
            move, self._move = self._move, False
        for key in wanted:
            if key in self._followed:
                consumer.incremental_unassign([kafka.TopicPartition(*key)])
                self._followed.discard(key)
        new = {key: offset for key, offset in wanted.items() if offset is not None}
        old = consumer
        if self._followed and (new or move):
            consumer = self._consumer()
            consumer.incremental_assign([kafka.TopicPartition(*key, self._window(key).high) for key in self._followed])
        for key, offset in new.items():
            self._followed.add(key)
            window = self._window(key)
            if not (window.open and window.lazy == self._lazy):
                window.begin(offset)
            # From here on nothing comes that was fetched before: the client drops it.
            consumer.incremental_assign([kafka.TopicPartition(*key, offset)])
        if consumer is not old:
            old.close()
        return consumer

    def _window(self, key: Key) -> Window:
        return self._tails.windows.get(*key)

    def _sort(self, consumer: Any, messages: list[Message]) -> None:
        """Messages into their windows."""
        entries: dict[Key, list[Entry]] = {}
        ends: dict[Key, int] = {}
        quiet: dict[Key, set[int]] = {}
        for message in messages:
            key = (message.topic() or "", _number(message.partition()))
            error = message.error()
            if error is None:
                entry = to_entry(message)
                entries.setdefault(key, []).append(entry)
                if is_quiet(message):
                    quiet.setdefault(key, set()).add(entry.offset)
            elif error.code() == PARTITION_EOF:
                entries.setdefault(key, [])
                ends[key] = _number(message.offset())
            else:
                self._trouble(consumer, key, error)
        for key, came in entries.items():
            window = self._window(key)
            if window.put(came, ends.get(key, 0), quiet.get(key, ())):
                self._tails.settle(window)

    def _trouble(self, consumer: Any, key: Key, error: KafkaError) -> None:
        log.debug("%s: %s: %s", self._where, key, self._settings.scrubbed(error.str()))
        if error.code() == GROUP_AUTHORIZATION:
            return  # said of a group that nobody joins
        if error.code() not in (*GONE, *LOST_POSITION):
            self._error(error)
            return
        self._tails.replaced(key[0])
        for followed in [*self._followed]:
            if followed == key or (followed[0] == key[0] and key[1] < 0):
                self._leave(consumer, followed)

    def _leave(self, consumer: Any, key: Key) -> None:
        consumer.incremental_unassign([client_module().TopicPartition(*key)])
        self._followed.discard(key)
        self._window(key).shut()

    def _leave_unused(self, consumer: Any, now: float) -> None:
        for key in [*self._followed]:
            window = self._window(key)
            if not window.bells and now > window.used + _UNUSED:
                self._leave(consumer, key)

    def _error(self, error: KafkaError) -> None:
        """The connection is in trouble: nobody knows the ends of the partitions now."""
        log.debug("%s: %s", self._where, self._settings.scrubbed(error.str()))
        for window in self._tails.windows:
            window.doubt()


def _number(value: Any) -> int:
    return -1 if value is None else int(value)
