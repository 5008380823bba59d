"""Calls into user code: barriers, and whatever else is told to the user's callback (R5).

They run beside the member's loop, so that beats go on. For one seat, calls come one at a time and in order; only `Fenced` does
not wait for a `Revoked` that still runs, for it is meant for exactly that barrier.

A planned end of a term is over when the callback has returned (an exception counts as a return) and every body that is known
to run for that term (`terms`, `only`, `background`, `aio`) has seen its end. With neither, it is over at once. A generator that
waits for its next step counts as a body also when its thread has ended, for any other may resume it; that is logged. Whoever
closes the member from within such a body, or from within the callback, does not wait for itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pares.core.wire.records import Seat
from pares.runtime.driver.counters import Histogram
from pares.runtime.events import Acquired, Event, Fenced, Joined, Left, Revoked
from pares.runtime.host import Host, Task
from pares.runtime.work.hang_watcher import Watch
from pares.runtime.work.thread_pool import Lane

log: Final = logging.getLogger("pares.barrier")

MAX_THREADS: Final = 8
MAX_FENCE_THREADS: Final = 4
MAX_OTHER_THREADS: Final = 2
LEFT_BEHIND: Final = (
    "the end of a term of %r waits, up to barrier_timeout, for work that began on thread %r, which has ended: if that is a "
    "generator of terms() with which nobody goes on, close it (contextlib.closing), or keep no reference to it"
)
NOT_BEGUN: Final = 0
"""The thread of a call that waits for its turn."""

Callback = Callable[[Event], object]
Key = tuple[str, int, int]
"""A term: role, seat, token. A token alone names no term where several roles share a partition (NELI)."""


class Body:
    """A piece of the user's work that belongs to a term."""

    __slots__ = ("began_on", "key", "over", "thread")

    def __init__(self, key: Key, thread: int, began_on: Task | None = None) -> None:
        self.key = key
        self.thread = thread
        self.began_on = began_on
        """None where that says nothing about how long it runs."""
        self.over = False

    def left_behind(self) -> bool:
        """Whether the thread on which it began has ended. It may go on all the same: a generator can be resumed on another."""
        try:
            return self.began_on is not None and not self.began_on.is_alive()
        except RuntimeError:  # of a thread that Python did not start, and that has ended
            return True


class Barriers:
    """The user's callback of one member, and the bodies that run in its terms."""

    def __init__(self, name: str, callback: Callback | None, done: Callable[[Key], None], host: Host) -> None:
        self._host = host
        self._callback = callback
        self._done = done
        """Called with a term when its planned end is over."""
        self._lock = host.lock()
        self._bodies: dict[Key, set[Body]] = {}
        self._ending: dict[Key, int] = {}
        """The terms that are coming to a planned end, and since when."""
        self._telling: dict[int, Seat] = {}
        """The threads that call the callback with what nothing waits for, and of which seat."""
        self._unawaited: set[Seat] = set()
        """Seats of which the callback closes the member: the call that would be waited for comes only after that one."""
        self.took: Histogram | None = None
        self.watch = Watch(name, host)
        self._lane = Lane(f"{name}: barrier", MAX_THREADS, host)
        self._fences = Lane(f"{name}: fenced", MAX_FENCE_THREADS, host)
        self._others = Lane(f"{name}: callback", MAX_OTHER_THREADS, host)

    @property
    def silent(self) -> bool:
        """There is no callback."""
        return self._callback is None

    def ending(self) -> set[Seat]:
        """The seats whose terms are coming to a planned end. Takes no lock: it may be asked in a forked child."""
        return {(role, seat) for role, seat, _ in list(self._ending)}

    def telling(self, role: str) -> bool:
        """Whether the calling thread is the callback's, with news of this role."""
        seat = self._telling.get(self._host.ident())
        return seat is not None and seat[0] == role

    def tell(self, event: Event, around: Callable[[Callable[[], object]], object] | None = None) -> None:
        """Calls the callback with an event for which no handover waits. `around`: is given that call, and makes it."""
        callback = self._callback
        if callback is None:
            return
        if isinstance(event, Joined | Left):
            self._others.add("members", lambda: callback(event))
        else:
            lane = self._fences if isinstance(event, Fenced) else self._lane
            call = lambda: self._tell(callback, event)  # noqa: E731
            lane.add((event.role, event.seat), call if around is None else lambda: around(call))

    def _tell(self, callback: Callback, event: Acquired | Revoked | Fenced) -> None:
        me = self._host.ident()
        if not isinstance(event, Fenced):  # which no other call waits for
            self._telling[me] = (event.role, event.seat)
        try:
            callback(event)
        finally:
            self._telling.pop(me, None)

    def run(self, job: Callable[[], object], key: str) -> None:
        """Runs something else of the user's, in order with others of the same `key`."""
        self._others.add(key, job)

    def end(self, seat: Seat, token: int, event: Event) -> None:
        """A planned end: `done` is called when the callback has returned and the bodies are through, perhaps right here."""
        callback, key = self._callback, (*seat, token)
        returning = None if callback is None else self.begin(key, NOT_BEGUN)
        with self._lock:
            self._ending[key] = self._host.now()
            bodies = list(self._bodies.get(key, ()))
        for body in bodies:
            if body.left_behind() and body.began_on is not None:
                log.warning(LEFT_BEHIND, seat[0], body.began_on.name)
        if callback is not None and returning is not None:
            self._lane.add(seat, lambda: self._call(callback, event, returning))
            if seat in self._unawaited:
                self.finish(returning)
        self._settle(key)

    def _call(self, callback: Callback, event: Event, returning: Body) -> None:
        returning.thread = self._host.ident()
        try:
            callback(event)
        finally:
            self.finish(returning)

    def begin(self, key: Key, thread: int | None = None) -> Body:
        """A piece of work begins, on this thread if no other is said, that belongs to this term."""
        began_on = self._host.task() if thread is None else None
        body = Body(key, self._host.ident() if thread is None else thread, began_on)
        with self._lock:
            self._bodies.setdefault(key, set()).add(body)
        return body

    def finish(self, body: Body) -> None:
        """It has seen the end of the term, or is through. May be called twice."""
        with self._lock:
            if body.over:
                return
            body.over = True
            left = self._bodies.get(body.key, set())
            left.discard(body)
            if not left:
                self._bodies.pop(body.key, None)
        self._settle(body.key)

    def finish_mine(self, me: int | None = None) -> None:
        """The calling thread waits for the end of this member, so nobody waits for what it runs. `me`: who waits, if that is
        another than the thread that calls."""
        me = self._host.ident() if me is None else me
        seat = self._telling.get(me)
        if seat is not None:
            self._unawaited.add(seat)
        with self._lock:
            bodies = [body for bodies in self._bodies.values() for body in bodies]
        for body in bodies:
            if body.thread == me or (body.thread == NOT_BEGUN and body.key[:2] == seat):
                self.finish(body)

    def _settle(self, key: Key) -> None:
        with self._lock:
            if key not in self._ending or self._bodies.get(key):
                return
            since = self._ending.pop(key)
        if self.took is not None:
            self.took.note((self._host.now() - since) / 1e9)
        self._done(key)
