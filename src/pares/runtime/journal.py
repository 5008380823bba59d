"""What has happened to a member: events for whoever iterates over them, counters and problems for health."""

from __future__ import annotations

import logging
import queue
from collections.abc import Iterator
from typing import Final

from pares.runtime.events import Event

log: Final = logging.getLogger("pares.member")

MAX_PROBLEMS: Final = 20
MAX_EVENTS: Final = 10_000
"""Events kept for an iterator that is not read; then the newest are dropped, and a warning says so."""

_Queue = queue.Queue[Event | None]


class Journal:
    """Written by the member's loop, read by anybody."""

    def __init__(self) -> None:
        self.fences = 0
        """Terms that ended otherwise than by plan."""
        self.lapses = 0
        """Of these, how many because the lease ran out."""
        self.restarts = 0
        self.problems: tuple[str, ...] = ()
        self._queues: list[_Queue] = []
        self._over = False

    def problem(self, kind: str, text: str) -> None:
        """Something that a person should know."""
        log.warning("%s: %s", kind, text)
        self.problems = (*self.problems[1 - MAX_PROBLEMS :], f"{kind}: {text}")

    def fenced(self, why: str) -> None:
        self.fences += 1
        self.lapses += why == "lease ran out"

    def events(self) -> Iterator[Event]:
        """What is published from this call on, until the end."""
        mine: _Queue = queue.Queue(MAX_EVENTS)
        self._queues.append(mine)
        if self._over:
            mine.put(None)
        return self._iterate(mine)

    def _iterate(self, mine: _Queue) -> Iterator[Event]:
        try:
            while (event := mine.get()) is not None:
                yield event
        finally:
            if mine in self._queues:
                self._queues.remove(mine)

    def publish(self, event: Event) -> None:
        for mine in self._queues:
            try:
                mine.put_nowait(event)
            except queue.Full:
                log.warning("events() is iterated over too slowly: dropped %s", event)

    def end(self) -> None:
        """Nothing comes after this: iterations end when they have seen what was before."""
        self._over = True
        for mine in self._queues:
            try:
                mine.put_nowait(None)
            except queue.Full:
                mine.get_nowait()
                mine.put_nowait(None)

    def die_in_child(self) -> None:
        self._queues, self._over = [], True
