"""The mailbox of production: what one thread puts, another takes.

`queue.SimpleQueue` promises the same and doesn't keep it: in Python 3.11 (`_queuemodule.c`), `get(timeout=T)` takes the
queue's lock, finds nothing, works out what is left of T, and when that has passed meanwhile (T is tiny, the machine is
loaded, or the process was frozen right there) waits with a negative time, which means for ever.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from queue import Empty
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """`put` never waits, and may be called where any lock is held, in a signal's handler, too: it appends, and releases a
    lock that nobody needs to hold for longer than it takes. An empty one raises `Empty`; `get` waits `timeout` seconds
    (None: for ever), and never longer because of a timeout that is small or has passed."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._bell = threading.Lock()
        """Free: something was put since somebody last waited."""

    def put(self, item: T) -> None:
        self._items.append(item)
        self._ring()

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            with suppress(IndexError):
                item = self._items.popleft()
                if self._items:  # two were put, and the bell can have rung for one of them only
                    self._ring()
                return item
            left = -1.0 if end is None else end - time.monotonic()
            if not block or (end is not None and left <= 0):
                raise Empty
            self._bell.acquire(timeout=left)

    def get_nowait(self) -> T:
        return self.get(block=False)

    def qsize(self) -> int:
        return len(self._items)

    def empty(self) -> bool:
        return not self._items

    def _ring(self) -> None:
        with suppress(RuntimeError):  # it has rung already
            self._bell.release()
