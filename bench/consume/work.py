"""What all workers do, whatever shares the work out: look at records, take their time, and tell how far they have come.

Lines out, beside those of `bench.part`: `ready - NS`; `holds - NS N` when the number of partitions (or slots) that it has
changes; `lead PARTITION NS` where that is asked for; `did - NS N`, records so far, with the first record (N is 0 then) and
after every tick in which some were done. NS is when the last of them was done.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterable
from typing import IO

from bench.consume.order import ROW
from bench.consume.plan import Plan
from bench.part import tell
from pares.runtime.clock import stopwatch

Seen = tuple[int, int, bytes | None, bytes | None]
"""Of one record: offset, time, key, payload."""
_NUMBER = struct.Struct(">Q")


class Work:
    """Of one process. `join`: it may join its group. `go`: records may be asked for. `over`: it is to end."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.join = threading.Event()
        if not plan.waits:
            self.join.set()
        self.go = threading.Event()
        self.over = threading.Event()
        self.holding: Callable[[], int] = lambda: self.held
        self.held = 0
        self._began = False
        self._count = 0
        self._last = 0
        self._lock = threading.Lock()
        self._trace: IO[bytes] | None = open(plan.trace, "ab", buffering=0) if plan.trace else None  # noqa: SIM115
        threading.Thread(target=self._tick, daemon=True).start()

    def ready(self) -> None:
        """What comes before joining is done; returns when this worker may join."""
        tell("ready", "-", stopwatch())
        self.join.wait()

    def batch(self, records: Iterable[Seen]) -> None:
        """The work on records that are handed over together."""
        count = 0
        self._begins()
        handler, trace = self.plan.handler_ms, self._trace
        for record in records:
            count += 1
            if handler or trace is not None:
                self.one(record)
                if self.over.is_set():
                    return
        if self.plan.batch_ms:
            time.sleep(self.plan.batch_ms / 1000)
        if not (handler or trace is not None):
            self.did(count)

    def one(self, record: Seen) -> None:
        """The work on one record."""
        _, _, key, payload = record
        self._begins()
        began = stopwatch()
        time.sleep(self.plan.handler_ms / 1000)
        if self._trace is not None:
            number = int.from_bytes((key or b"")[1:] or b"0")
            # One write of a short row at the end of the file: all of it, or, in a process that is killed, none.
            self._trace.write(ROW.pack(number, _NUMBER.unpack_from(payload or bytes(8))[0], began, stopwatch()))
        self.did(1)

    def _begins(self) -> None:
        """The first record is there."""
        if not self._began:
            self._began = True
            tell("did", "-", stopwatch(), 0)

    def did(self, count: int) -> None:
        with self._lock:
            self._count += count
            self._last = stopwatch()

    def _tick(self) -> None:
        told = held = 0
        while not self.over.wait(self.plan.tick):
            with self._lock:
                count, last = self._count, self._last
            if count != told:
                tell("did", "-", last, count)
                told = count
            holding = self.holding()
            if holding != held:
                tell("holds", "-", stopwatch(), holding)
                held = holding
