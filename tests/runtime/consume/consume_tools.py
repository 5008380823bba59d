"""Topics in memory, and consumers that are closed at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pares.core.errors import LedgerGap, LedgerRewound
from pares.ledger.sources import Fetched, Record


class Topic:
    """A topic that lives in this process: the world that its sources look at."""

    def __init__(self, name: str = "orders", partitions: int = 1) -> None:
        self.name = name
        self.identity = f"{name}:1"
        self.logs: list[list[Record]] = [[] for _ in range(partitions)]
        self.begin = [0] * partitions
        """What retention has left of each partition."""
        self.fail: Callable[[str], object] = lambda call: None
        """Called with the name of each call; may raise."""
        self._changed = threading.Condition()

    def grow(self, partitions: int) -> None:
        while len(self.logs) < partitions:
            self.logs.append([])
            self.begin.append(0)

    def append(self, *payloads: bytes | str, partition: int = 0, skip: int = 0, key: bytes | None = None) -> int:
        """`skip`: a hole of so many offsets before the first. The offset of the last one."""
        with self._changed:
            for payload in payloads:
                data = payload.encode() if isinstance(payload, str) else payload
                offset = self.stop(partition) + skip
                self.logs[partition].append(Record(offset, 0, key, data))
                skip = 0
            self._changed.notify_all()
            return self.stop(partition) - 1

    def stop(self, partition: int) -> int:
        log = self.logs[partition]
        return log[-1].offset + 1 if log else self.begin[partition]

    def trim(self, before: int, partition: int = 0) -> None:
        self.begin[partition] = before
        self.logs[partition] = [record for record in self.logs[partition] if record.offset >= before]

    def replace(self) -> None:
        """Deleted, and made anew."""
        self.identity = f"{self.name}:{int(self.identity.rpartition(':')[2]) + 1}"
        self.logs = [[] for _ in self.logs]
        self.begin = [0 for _ in self.logs]

    # Source ----------------------------------------------------------------------------------------------------------

    def partitions(self) -> int:
        self.fail("partitions")
        return len(self.logs)

    def start(self, partition: int) -> int:
        self.fail("start")
        return self.begin[partition]

    def end(self, partition: int) -> int:
        self.fail("end")
        return self.stop(partition)

    def ends(self, partitions: Collection[int]) -> dict[int, int]:
        self.fail("ends")
        return {partition: self.stop(partition) for partition in partitions}

    def changed(self, places: Mapping[int, int]) -> Collection[int]:
        self.fail("changed")
        return [partition for partition, offset in places.items() if self.stop(partition) != offset]

    def fetch(self, partition: int, offset: int, *, max_records: int, max_bytes: int, timeout: float) -> Fetched:
        self.fail("fetch")
        if offset < self.begin[partition]:
            raise LedgerGap(f"{self.name}/{partition} begins at {self.begin[partition]}")
        if offset > self.stop(partition):
            raise LedgerRewound(f"{self.name}/{partition} ends at {self.stop(partition)}")
        found = [record for record in self.logs[partition] if record.offset >= offset][:max_records]
        return Fetched(tuple(found), found[-1].offset + 1 if found else offset)

    def close(self) -> None:
        """There is nothing to give back."""


class Worker:
    """A thread that works on a consumer, and remembers what it was given."""

    def __init__(self, consumer: Any, *, handle: Callable[[Any], object] | None = None, done: bool = True) -> None:
        self.consumer = consumer
        self.seen: list[tuple[str, int, int]] = []
        """(topic, partition, offset), in order."""
        self.tokens: list[int] = []
        self.error: BaseException | None = None
        self._handle = handle
        self._marks = done
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for batch in self.consumer.batches():
                self.tokens.append(batch.token)
                self.seen += [(batch.topic, batch.partition, record.offset) for record in batch.records]
                if self._handle is not None:
                    self._handle(batch)
                if self._marks:
                    batch.done()
        except BaseException as error:
            self.error = error

    def offsets(self, partition: int = 0) -> list[int]:
        return [offset for _, number, offset in self.seen if number == partition]

    def join(self, timeout: float = 30.0) -> None:
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "the worker goes on"


class Handler:
    """A handler that remembers what it was called with, and may be held up: by record, until `go` lets it on."""

    def __init__(self, *, stuck: Callable[[Any], bool] = lambda item: False) -> None:
        self.calls: list[Any] = []
        self.ended: list[Any] = []
        self.go = threading.Event()
        self._stuck = stuck
        self._lock = threading.Lock()
        self._busy: dict[object, int] = {}
        self.most: dict[object, int] = {}
        """By key: how many were handled at once at the most; under "all" those of any key."""

    def __call__(self, item: Any) -> None:
        with self._lock:
            self.calls.append(item)
            for each in (item.key, "all"):
                self._busy[each] = self._busy.get(each, 0) + 1
                self.most[each] = max(self.most.get(each, 0), self._busy[each])
        try:
            if self._stuck(item):
                assert self.go.wait(60), "nobody lets it on"
        finally:
            with self._lock:
                self.ended.append(item)
                for each in (item.key, "all"):
                    self._busy[each] -= 1

    def offsets(self, partition: int = 0) -> list[int]:
        return [item.offset for item in list(self.calls) if item.partition == partition]


class Running:
    """`Consumer.run` on a thread of its own."""

    def __init__(self, consumer: Any, handler: Callable[[Any], object]) -> None:
        self.error: BaseException | None = None
        self._consumer, self._handler = consumer, handler
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._consumer.run(self._handler)
        except BaseException as error:
            self.error = error

    def join(self, timeout: float = 30.0) -> None:
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "run goes on"
