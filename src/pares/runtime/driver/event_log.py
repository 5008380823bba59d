"""What has happened to a member: events to iterate over, counters and problems for health."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final

from pares.core.errors import ParesError
from pares.core.reasons import LEASE_RAN_OUT
from pares.ledger.weak_set import WeakBag
from pares.runtime.events import Event
from pares.runtime.host import Empty, Host, Mailbox

log: Final = logging.getLogger("pares.member")

MAX_PROBLEMS: Final = 20
TOLD: Final = frozenset(10**power for power in range(9))
"""At which times the same problem in a row is logged."""
MAX_EVENTS: Final = 10_000
"""The most events that are kept for an iterator that is not read; later ones are dropped, with a warning."""


class Events(Iterator[Event]):
    """The events from when it was made until the member is closed. The journal keeps no reference to it. Each event comes once;
    the end comes to every iteration, as the error with which the member failed, if it did."""

    def __init__(self, host: Host, wake: Callable[[], None] | None = None) -> None:
        self._queue: Mailbox[Event | None] = host.mailbox()
        """The events that have come. The None that marks the end stays in it."""
        self._wake = wake
        """Called on the member's thread when an event has come: for event loops."""
        self.error: ParesError | None = None
        """The error with which the member failed; None before the end, and after a planned one."""

    def __next__(self) -> Event:
        event = self._queue.get()
        if event is None:
            self._queue.put(None)
            if self.error is not None:
                raise self.error
            raise StopIteration
        return event

    def take(self) -> list[Event] | None:
        """The events that have come so far, without waiting; None after the end."""
        found: list[Event] = []
        while True:
            try:
                event = self._queue.get_nowait()
            except Empty:
                return found
            if event is None:
                self._queue.put(None)
                return found or None
            found.append(event)

    def put(self, event: Event | None) -> None:
        if event is not None and self._queue.qsize() >= MAX_EVENTS:
            log.warning("events() is iterated over too slowly: dropped %s", event)
        else:
            self._queue.put(event)
        if self._wake is not None:
            self._wake()


class Journal:
    """Written by the member's loop, read by any thread."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.fences = 0
        """Terms that ended otherwise than by plan."""
        self.lapses = 0
        """How many of these ended because the lease ran out."""
        self.restarts = 0
        self.problems: tuple[str, ...] = ()
        self._last = ("", 0)
        """The last problem, and how often it has come in a row."""
        self._listeners: WeakBag[Events] = WeakBag()
        self._over = False
        self._error: ParesError | None = None

    def problem(self, kind: str, text: str) -> None:
        """Notes something that a person should know, for `health()` and the log. What comes again and again
        is counted, and logged the first, the tenth, the hundredth time."""
        problem, again = f"{kind}: {text}", self._last[1] + 1
        if problem != self._last[0]:
            again = 1
        self._last = problem, again
        said = problem if again == 1 else f"{problem} ({again} times)"
        if again in TOLD:
            log.warning("%s", said)
        before = self.problems[:-1] if again > 1 else self.problems[1 - MAX_PROBLEMS :]
        self.problems = (*before, said)

    def fenced(self, why: str) -> None:
        self.fences += 1
        self.lapses += why == LEASE_RAN_OUT

    def events(self, wake: Callable[[], None] | None = None) -> Events:
        """An iterator over what is published from this call on, until the end."""
        mine = Events(self._host, wake)
        self._listeners.add(mine)
        # `end` sets `_over` and then looks at the listeners; here it is the other way round: so one of the two sees the other.
        if self._over:
            self._end(mine)
        return mine

    def publish(self, event: Event) -> None:
        for mine in self._listeners:
            mine.put(event)

    def end(self, error: ParesError | None = None) -> None:
        """Ends all iterations, once they have given what was published before; with `error` if there is one."""
        self._error = error
        self._over = True
        for mine in self._listeners:
            self._end(mine)

    def _end(self, mine: Events) -> None:
        mine.error = self._error
        mine.put(None)

    def die_in_child(self) -> None:
        self._listeners, self._over = WeakBag(), True
