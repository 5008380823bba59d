"""Reading ahead from many partitions of one topic with one client, for any number of threads.

librdkafka fetches all assigned partitions in the background, as much as its own queue takes. No thread of ours does: of the
threads that wait in `take`, one at a time polls the client, and sorts what comes into a queue for each partition; it is its
*turn*. All that changes which records come next (another place, another client) happens in a turn too, so that no message of
before can be on its way into a queue.

**Back-pressure.** A partition that is read more slowly than it is fetched is paused when its queue is full, and resumed when a
quarter is left. Pausing makes the client drop what it has of that partition and fetch it again later, which is why there is
room between the two. All queues together hold `PREFETCH` bytes at most, and what one poll has brought; where there are so many
partitions that each would get less than `_LEAST`, they get that.

Two threads that fetch one partition take turns with it, and where they read at different places each moves the other's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from itertools import groupby
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

from pares.ledger.handle_state import Lifetime
from pares.ledger.kafka.ahead.heap import Spare, give_back
from pares.ledger.kafka.ahead.queue import Queue
from pares.ledger.kafka.client import client_module, new_client
from pares.ledger.kafka.errors import GONE, GROUP_AUTHORIZATION, LOST_POSITION, NO_RIGHT, PARTITION_EOF
from pares.ledger.kafka.seek import READING
from pares.ledger.kafka.settings import Settings, log
from pares.ledger.source import Fetched

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

PREFETCH: Final = 32 << 20
"""Bytes of keys and payloads that all queues hold at most."""
COMMITTED: Final[dict[str, Any]] = {"isolation.level": "read_committed"}
"""Users' records: those of an aborted transaction are none, and of an open one not yet."""
_LEAST: Final = 64 << 10
_AT_ONCE: Final = 500
"""Messages of one poll: what a processor has at hand until they are sorted. [2,000 took a quarter more time for each]"""
_TICK: Final = 0.001
"""Seconds below which a client does not wait, but looks."""
_SLICE: Final = 0.1
"""Seconds of one poll: after that another thread may have its turn, or the client be changed."""
_HELD: Final = 5.0
"""Seconds for which a place is kept for the reader that asked for it, until something of it has come."""
_TAKEN: Final = 0.25
"""And until it has been taken, from then on: its reader may be busy for long, or gone."""
_UNUSED: Final = 30.0
"""Seconds after which a partition is no longer fetched that nobody has asked for."""
_TIDY: Final = 1.0
_DEAF: Final = 5.0
"""Seconds for which a client may bring nothing of what its partition's leader has, the first time."""
_DEAFEST: Final = 80.0
_partition_of: Final = methodcaller("partition")
_error_of: Final = methodcaller("error")


class Prefetch:
    """The client, and the queues that it fills. Safe to use from several threads; `_changed` guards every field."""

    def __init__(self, settings: Settings, where: str, topic: str, lifetime: Lifetime) -> None:
        self._settings = settings
        self._where = where
        self._topic = topic
        self._lifetime = lifetime
        self._changed = threading.Condition()
        self._fetching: dict[int, threading.Lock] = {}
        self._queues: dict[int, Queue] = {}
        self._client: Any = None
        self._busy = False
        """Whether it is somebody's turn."""
        self._stale = False
        """The client is to be replaced, in the next turn."""
        self._tidied = 0.0
        self._spare = Spare()
        self.generation = 0
        """The number of the client: grows with `renew`."""
        self.seeks = 0
        """How often the client was sent to another place of a partition."""
        self._patience = _DEAF
        """Seconds until the client is taken for deaf; longer each time, until something comes. [a link so slow that one answer
        takes longer]"""

    @property
    def held(self) -> int:
        """Bytes that the queues hold."""
        with self._changed:
            return sum(queue.bytes for queue in self._queues.values())

    @property
    def partitions(self) -> list[int]:
        """Those that are fetched."""
        with self._changed:
            return list(self._queues)

    def take(
        self, partition: int, offset: int, max_records: int, max_bytes: int, deadline: float, generation: int
    ) -> Fetched | KafkaError | None:
        """What there is from `offset` on, as soon as that is something; nothing at the deadline (`time.monotonic`).

        What went wrong with the partition instead, if something did. None once the client is another one than that.
        """
        with self._changed:
            lock = self._fetching.setdefault(partition, threading.Lock())
        if not lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return Fetched((), offset)
        try:
            polled = False
            while True:
                with self._changed:
                    self._lifetime.check()
                    if generation != self.generation:
                        return None
                    wait = 0.0
                    # The client has more at hand, maybe: small batches cost their readers more than a look does.
                    if polled or self._busy or not self._has_few(partition, max_records):
                        found = self._found(partition, offset, max_records, max_bytes)
                        if found is not None:
                            return found
                        left = deadline - time.monotonic()
                        if left < _TICK and (polled or self._busy):
                            return Fetched((), offset)
                        if self._busy:
                            self._changed.wait(left)
                            continue
                        wait = min(max(left, 0.0), _SLICE)
                    self._busy = polled = True
                self._turn(wait)
        finally:
            lock.release()

    def changed(self, places: Mapping[int, int]) -> list[int]:
        """Those of these partitions for which `take` from that offset on would have something. Those that are not fetched yet
        are from now on."""
        with self._changed:
            self._lifetime.check()
            self._begin({number: offset for number, offset in places.items() if number not in self._queues})
            turn = not self._busy
            self._busy = True
        if turn:
            self._turn(0.0)
        with self._changed:
            now = time.monotonic()
            return [number for number, offset in places.items() if self._has_news(number, offset, now)]

    def _has_news(self, partition: int, offset: int, now: float) -> bool:
        queue = self._queues.get(partition)
        if queue is None:
            return True
        queue.used = now
        at_it = queue.seek is None and queue.reaches(offset, now)
        return not at_it or queue.error is not None or queue.position > offset

    def _has_few(self, partition: int, wanted: int) -> bool:
        queue = self._queues.get(partition)
        return queue is not None and queue.error is None and 0 < len(queue.records) < wanted

    def _found(self, partition: int, offset: int, max_records: int, max_bytes: int) -> Fetched | KafkaError | None:
        queue = self._queues.get(partition)
        if queue is None:
            self._begin({partition: offset})
            return None
        queue.used = now = time.monotonic()
        if queue.kept > now and offset != queue.at and queue.seek is None and queue.error is None:
            return None  # another reader has had it sent there, and has got nothing yet
        if queue.seek is not None or not queue.reaches(offset, now):
            queue.seek = offset
            return None
        if queue.error is not None:
            error, queue.error, queue.seek = queue.error, None, offset
            return error
        queue.skip(offset)
        found = queue.take(max_records, max_bytes) if queue.records else None
        if queue.paused and queue.bytes <= self._room() // 4:
            queue.paused = False
            self._client.resume([self._place(partition)])
        if found is not None:
            queue.kept = 0.0
            return found
        if queue.position > offset:
            queue.at, queue.kept = queue.position, 0.0
            return Fetched((), queue.position)
        return None

    def _begin(self, places: Mapping[int, int]) -> None:
        """Fetch partitions that are not fetched yet. Nothing of them can be on its way, so this needs no turn."""
        if places and not self._stale and self._client is not None:  # else the next turn makes a client, for all queues
            self._client.incremental_assign([self._place(*place) for place in places.items()])
        for partition, offset in places.items():
            self._queues[partition] = Queue(offset)

    def renew(self) -> None:
        """Go on with a new client: the topic is another one, or the client does not find it. All that was fetched is void."""
        with self._changed:
            self.generation += 1
            self._stale = True
            self._queues.clear()
            self._changed.notify_all()

    def compare(self, ends: Mapping[int, int]) -> None:
        """Where partitions end, by their leaders. If the client has brought nothing of one for a while that goes on, it is
        replaced, and the new one begins where this one is. [where a cluster's last broker comes back, its first answer may be
        that there is none: the client forgets every address, and is silent from then on (librdkafka's issue 5301)]"""
        with self._changed:
            now, deaf = time.monotonic(), False
            for partition, end in ends.items():
                queue = self._queues.get(partition)
                if queue is None or queue.records or queue.paused or queue.seek is not None or queue.position >= end:
                    if queue is not None:
                        queue.deaf = None
                elif queue.deaf is None or queue.deaf[0] != queue.position:
                    queue.deaf = queue.position, now
                else:
                    deaf = deaf or now > queue.deaf[1] + self._patience
            if deaf and not self._stale:
                log.info("%s: the client brings nothing though there is something: another one is made", self._where)
                self._patience = min(2 * self._patience, _DEAFEST)
                self._stale = True

    def refresh(self) -> None:
        """Have the client look at the topic again: it may have grown."""
        with self._changed:
            client = self._client
        if client is not None:
            try:
                client.list_topics(self._topic, timeout=self._settings.timeout)
            except (client_module().KafkaException, RuntimeError) as error:
                log.debug("%s: no news of %s: %s", self._where, self._topic, error)

    def close(self) -> None:
        """Give the client back; threads that wait are told by their `lifetime`, which has ended."""
        with self._changed:
            self._changed.notify_all()
            while self._busy:
                self._changed.wait()
            client, self._client = self._client, None
            self._queues.clear()
        if client is not None:
            client.close()

    # A turn ----------------------------------------------------------------------------------------------------------

    def _turn(self, timeout: float) -> None:
        try:
            client, spare = self._prepared()
            first = client.poll(timeout)
            if first is not None:
                messages = [first, *client.consume(_AT_ONCE - 1, timeout=0)]
                with self._changed:
                    if not self._stale:
                        self._sort(messages)
            if spare:
                give_back()
                self._spare.gave()
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _prepared(self) -> tuple[Any, bool]:
        """The client, with all partitions at their places; whether there is memory to give back."""
        with self._changed:
            old = None
            if self._stale or self._client is None:
                old, self._stale = self._client, False
                self._client = self._made()
                for queue in self._queues.values():
                    queue.seek = queue.at if queue.seek is None else queue.seek
                self._client.incremental_assign(self._sought(self._queues))
            moved = {number: queue for number, queue in self._queues.items() if queue.seek is not None}
            if moved:
                self.seeks += len(moved)
                # From here on nothing comes that was fetched before: the client drops it.
                self._leave(moved)
                self._client.incremental_assign(self._sought(moved))
            spare = self._tidy(time.monotonic())
            client = self._client
        if old is not None:
            old.close()
        return client, spare

    def _sought(self, queues: Mapping[int, Queue]) -> list[Any]:
        """These queues are at the places that are asked for from now on: those."""
        for queue in queues.values():
            if queue.seek is not None:
                queue.begin(queue.seek)
                queue.seek, queue.kept = None, time.monotonic() + _HELD
        return [self._place(number, queue.at) for number, queue in queues.items()]

    def _tidy(self, now: float) -> bool:
        if now <= self._tidied + _TIDY:
            return False
        self._tidied = now
        unused = {number: queue for number, queue in self._queues.items() if now > queue.used + _UNUSED}
        if unused:
            self._leave(unused)
        for number in unused:
            del self._queues[number]
        return self._spare.due(now)

    def _leave(self, queues: Mapping[int, Queue]) -> None:
        """The client fetches these no longer."""
        paused = [self._place(number) for number, queue in queues.items() if queue.paused]
        if paused:
            self._client.resume(paused)
        self._client.incremental_unassign([self._place(number) for number in queues])

    def _sort(self, messages: list[Message]) -> None:
        """Messages into their queues, in order; what they say of errors is heeded."""
        if not any(map(_error_of, messages)):
            self._keep(messages)
            return
        for message in messages:
            error = message.error()
            if error is None:
                self._keep([message])
            else:
                self._heed(message, error)

    def _keep(self, messages: list[Message]) -> None:
        filled: dict[int, Queue] = {}
        for number, run in groupby(messages, _partition_of):
            queue = self._queues.get(number)
            if queue is not None and queue.came(run):
                filled[number] = queue
        if filled:
            self._patience = _DEAF
        room, soon = self._room(), time.monotonic() + _TAKEN
        for number, queue in filled.items():
            queue.kept = min(queue.kept, soon)
            if not queue.paused and queue.bytes > room:
                queue.paused = True
                self._client.pause([self._place(number)])

    def _heed(self, message: Message, error: KafkaError) -> None:
        code = error.code()
        number: Any = message.partition()
        if code == PARTITION_EOF:
            queue = self._queues.get(number)
            if queue is not None:
                queue.position, queue.kept = max(queue.position, message.offset() or 0), 0.0
            return
        log.debug("%s: partition %s: %s", self._where, number, self._settings.scrubbed(error.str()))
        if code == GROUP_AUTHORIZATION:
            return  # said of a group that nobody joins
        if code not in (*GONE, *LOST_POSITION, *NO_RIGHT) and not error.fatal():
            return  # the connection is in trouble, and the client goes on by itself
        for partition, queue in self._queues.items():
            if number in (partition, -1) or number is None:
                queue.error = error

    def _room(self) -> int:
        """Bytes that the queue of one partition may hold."""
        return max(_LEAST, PREFETCH // max(1, len(self._queues)))

    def _place(self, partition: int, offset: int | None = None) -> Any:
        kafka = client_module()
        if offset is None:
            return kafka.TopicPartition(self._topic, partition)
        return kafka.TopicPartition(self._topic, partition, offset)

    def _made(self) -> Any:
        return new_client(
            "Consumer",
            self._settings,
            {
                **READING,
                **COMMITTED,
                "fetch.wait.max.ms": min(250, max(10, self._settings.milliseconds // 2)),
                "fetch.message.max.bytes": 1 << 20,
                "queued.min.messages": 100_000,
                "queued.max.messages.kbytes": 8192,
                "error_cb": self._error,
            },
        )

    def _error(self, error: KafkaError) -> None:
        log.debug("%s: %s", self._where, self._settings.scrubbed(error.str()))
