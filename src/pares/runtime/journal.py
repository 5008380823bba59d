"""What has happened to a member: events for whoever iterates over them, counters and problems for health."""

from __future__ import annotations

import logging
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Final

from pares.core.reasons import LEASE_RAN_OUT
from pares.runtime.events import Event

log: Final = logging.getLogger("pares.member")

MAX_PROBLEMS: Final = 20
MAX_EVENTS: Final = 10_000
"""Events kept for an iterator that is not read; then the newest are dropped, and a warning says so."""


class Events(Iterator[Event]):
    """The events from when it was made, until the member is closed. The journal forgets it when nobody holds it any more."""

    def __init__(self, wake: Callable[[], None] | None = None) -> None:
        self._queue: queue.Queue[Event | None] = queue.Queue(MAX_EVENTS)
        self._wake = wake
        """Called, on the member's thread, when something has come: for event loops."""
        self._over = False

    def __next__(self) -> Event:
        event = None if self._over else self._queue.get()
        if event is None:
            self._over = True
            raise StopIteration
        return event

    def take(self) -> list[Event] | None:
        """What has come so far, without waiting; None after the end."""
        found: list[Event] = []
        while not self._over:
            try:
                event = self._queue.get_nowait()
            except queue.Empty:
                return found
            if event is None:
                self._over = True
            else:
                found.append(event)
        return found or None

    def put(self, event: Event | None) -> None:
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            if event is not None:
                log.warning("events() is iterated over too slowly: dropped %s", event)
            else:
                self._queue.get_nowait()
                self._queue.put_nowait(None)
        if self._wake is not None:
            self._wake()


class Journal:
    """Written by the member's loop, read by anybody."""

    def __init__(self) -> None:
        self.fences = 0
        """Terms that ended otherwise than by plan."""
        self.lapses = 0
        """Of these, how many because the lease ran out."""
        self.restarts = 0
        self.problems: tuple[str, ...] = ()
        self._lock = threading.Lock()
        self._listeners: weakref.WeakSet[Events] = weakref.WeakSet()
        self._over = False

    def problem(self, kind: str, text: str) -> None:
        """Something that a person should know."""
        log.warning("%s: %s", kind, text)
        self.problems = (*self.problems[1 - MAX_PROBLEMS :], f"{kind}: {text}")

    def fenced(self, why: str) -> None:
        self.fences += 1
        self.lapses += why == LEASE_RAN_OUT

    def events(self, wake: Callable[[], None] | None = None) -> Events:
        """What is published from this call on, until the end."""
        mine = Events(wake)
        with self._lock:
            self._listeners.add(mine)
            if self._over:
                mine.put(None)
        return mine

    def publish(self, event: Event) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for mine in listeners:
            mine.put(event)

    def end(self) -> None:
        """Nothing comes after this: iterations end when they have seen what was before."""
        with self._lock:
            self._over = True
            listeners = list(self._listeners)
        for mine in listeners:
            mine.put(None)

    def die_in_child(self) -> None:
        self._lock, self._listeners, self._over = threading.Lock(), weakref.WeakSet(), True
