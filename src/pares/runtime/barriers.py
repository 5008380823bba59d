"""Calls into user code: barriers, and whatever else is told to the user's callback (R5).

They run beside the member's loop, so that beats go on: on threads that exist only while there is something to run, at most
`MAX_THREADS` of them. For one seat, calls come one at a time and in order; only `Fenced` does not wait for a `Revoked` that
still runs, for it is meant for exactly that barrier.

A planned end of a term is over when the callback has returned and every body that is known to run for that term (`terms`,
`only`, `background`, `aio`) has seen its end. With neither, it is over at once.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from pares.core.records import Seat
from pares.runtime.events import Event, Fenced, Joined, Left

log: Final = logging.getLogger("pares.barrier")

MAX_THREADS: Final = 8
MAX_FENCE_THREADS: Final = 4

Callback = Callable[[Event], object]


class _Lane:
    """Runs jobs on a few threads, in order for each key, and ends the threads when there are none."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._lock = threading.Lock()
        self._ready: deque[object] = deque()
        self._jobs: dict[object, deque[Callable[[], None]]] = {}
        self._threads = 0

    def add(self, key: object, job: Callable[[], None]) -> None:
        with self._lock:
            queue = self._jobs.get(key)
            if queue is not None:
                queue.append(job)
                return
            self._jobs[key] = deque([job])
            self._ready.append(key)
            if self._threads >= self._most:
                return
            self._threads += 1
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError:
            # No new threads while the interpreter shuts down: then the caller's own has to do.
            self._run()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._ready:
                    self._threads -= 1
                    return
                key = self._ready.popleft()
                job = self._jobs[key].popleft()
            job()
            with self._lock:
                if self._jobs[key]:
                    self._ready.append(key)
                else:
                    del self._jobs[key]


class Barriers:
    """The user's callback of one member, and the bodies that run in its terms."""

    def __init__(self, name: str, callback: Callback | None, done: Callable[[int], None]) -> None:
        self._callback = callback
        self._done = done
        """Called with a token when the planned end of that term is over."""
        self._lock = threading.Lock()
        self._bodies: dict[int, int] = {}
        self._ending: dict[int, int] = {}
        """token -> what a planned end still waits for: its callback, and each body."""
        self._lane = _Lane(f"{name} barrier", MAX_THREADS)
        self._fences = _Lane(f"{name} fenced", MAX_FENCE_THREADS)

    def tell(self, event: Event) -> None:
        """Calls the callback with an event that nothing waits for."""
        if self._callback is None:
            return
        if isinstance(event, Joined | Left):
            self._lane.add("members", lambda: self._call(event))
        else:
            lane = self._fences if isinstance(event, Fenced) else self._lane
            lane.add((event.role, event.seat), lambda: self._call(event))

    def run(self, job: Callable[[], object], key: str) -> None:
        """Runs something else of the user's, in order with others of the same `key`."""

        def safely() -> None:
            try:
                job()
            except Exception:
                log.exception("%s raised", key)

        self._lane.add(key, safely)

    def end(self, seat: Seat, token: int, event: Event) -> None:
        """A planned end: `done` is called when the callback has returned and the bodies are through, perhaps right here."""
        with self._lock:
            waits = self._bodies.get(token, 0) + (self._callback is not None)
            if waits:
                self._ending[token] = waits
        if not waits:
            self._done(token)
        elif self._callback is not None:
            self._lane.add(seat, lambda: self._call_and_return(event, token))

    def body_begins(self, token: int) -> None:
        """A piece of the user's work begins that belongs to this term."""
        with self._lock:
            self._bodies[token] = self._bodies.get(token, 0) + 1
            if token in self._ending:
                self._ending[token] += 1

    def body_ends(self, token: int) -> None:
        """It has seen the end of the term, or is through."""
        with self._lock:
            left = self._bodies.get(token, 0) - 1
            if left > 0:
                self._bodies[token] = left
            else:
                self._bodies.pop(token, None)
        self._one_less(token)

    def _one_less(self, token: int) -> None:
        with self._lock:
            waits = self._ending.get(token)
            if waits is None:
                return
            if waits > 1:
                self._ending[token] = waits - 1
                return
            del self._ending[token]
        self._done(token)

    def _call_and_return(self, event: Event, token: int) -> None:
        self._call(event)
        self._one_less(token)

    def _call(self, event: Event) -> None:
        try:
            if self._callback is not None:
                self._callback(event)
        except Exception:
            # An exception counts as a return (api): whoever waits for the barrier must not wait for ever.
            log.exception("the barrier raised on %s", event)
