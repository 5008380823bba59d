"""What this process believes now, for checks that cost about a hundred nanoseconds: a deadline for each role.

The member's loop writes, everybody else reads, and there is no lock between them: each write is one step for the interpreter,
and a reader that sees the deadline before it is renewed is only too careful. Who closes the member may end everything without
waiting for the loop; so between these two there is a lock, and what was ended is renewed by nobody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue

from pares.core.protocol import Follow, Lead, Renew
from pares.core.shares import Extend
from pares.runtime.clock import stopwatch
from pares.runtime.term import Term


class Beliefs:
    """The terms of one member that are in force."""

    def __init__(self) -> None:
        self.until: dict[str, int] = {}
        """role -> deadline of the belief, in nanoseconds of the stopwatch."""
        self.terms: dict[str, Term] = {}
        self._told: dict[str, int] = {}
        """role -> token of the term whose beginning everybody was told."""
        self.listeners: list[Callable[[], None]] = []
        """Called after every change, on the loop's thread: for who waits. They return at once."""
        self.begun = 0
        self._lock = threading.RLock()
        """Its holder may take it again: a signal's handler may close the member while the thread that it interrupts does."""
        self._over = False
        """Nothing is believed any more, whatever comes."""

    def lead(self, effect: Lead, member: str) -> Term | None:
        """The term that begins; None when it is too late for one."""
        role, seat = effect.seat
        with self._lock:
            if self._over:
                return None
            term = Term(role, seat, effect.token, member, effect.until)
            self.begun += 1  # first: whoever finds the term finds it counted
            self.terms[role] = term
            self.until[role] = effect.until
            return term

    def told(self, term: Term) -> None:
        """Its beginning was told: whoever waits for it gets it, and listens to what comes after it."""
        self._told[term.role] = term.token
        self.notify()

    def renew(self, effect: Renew) -> int:
        """Until when what is renewed was believed before; 0 if there is nothing."""
        with self._lock:
            before = next(iter(self.until.values()), 0)
            for term in () if self._over else self.terms.values():
                self._renew(term, effect.until)
            return before

    def extend(self, effect: Extend) -> int:
        """As `renew`, for some seats."""
        with self._lock:
            before = min((self.until.get(role, 0) for role, _ in effect.seats), default=0)
            for role, seat in () if self._over else effect.seats:
                term = self.terms.get(role)
                if term is not None and term.seat == seat:
                    self._renew(term, effect.until)
            return before

    def _renew(self, term: Term, until: int) -> None:
        term._renew(until)  # pyright: ignore[reportPrivateUsage]
        self.until[term.role] = until

    def follow(self, effect: Follow) -> Term | None:
        role = effect.seat[0]
        with self._lock:
            term = self.terms.get(role)
            if term is None or term.token != effect.token:
                return None
            self.until.pop(role, None)
            self._told.pop(role, None)
            del self.terms[role]
            term._end(effect.why)  # pyright: ignore[reportPrivateUsage]
            return term

    def stop(self, why: str) -> None:
        """From any thread: nothing is believed any more. The loop finds the terms that this ended, and tells of them."""
        with self._lock:
            self._over = True
            self.until.clear()
            for term in self.terms.values():
                term._end(why)  # pyright: ignore[reportPrivateUsage]

    def end_all(self, why: str) -> list[Term]:
        """By the loop, as its last word: nothing is believed any more. The terms that nobody was told the end of."""
        with self._lock:
            self.stop(why)
            terms, self.terms = list(self.terms.values()), {}
            return terms

    def die_in_child(self) -> None:
        self._lock, self._over = threading.RLock(), True  # another thread of the parent may have held it
        terms = list(self.terms.values())
        self.until.clear()
        self.terms = {}
        self.listeners = []
        for term in terms:
            term._die_in_child()  # pyright: ignore[reportPrivateUsage]

    def valid(self, role: str) -> Term | None:
        """The current term, if it is believed right now."""
        term = self.terms.get(role)
        return term if term else None

    def awaited(self, role: str) -> Term | None:
        """As `valid`, for who waits for terms: not before its beginning was told."""
        term = self.valid(role)
        return term if term is not None and self._told.get(role) == term.token else None

    def notify(self) -> None:
        for listener in list(self.listeners):
            listener()

    def wait_for(self, what: Callable[[], bool], timeout: float | None) -> bool:
        """Waits until `what()`, looked at after each change, is true; `timeout` in seconds."""
        end = None if timeout is None else stopwatch() + int(timeout * 1e9)
        # No lock that the loop would need: a signal's handler may close the member on the thread that waits here.
        changed: SimpleQueue[None] = SimpleQueue()
        listeners, wake = self.listeners, partial(changed.put, None)
        listeners.append(wake)
        try:
            while not what():
                left = None if end is None else (end - stopwatch()) / 1e9
                if left is not None and left <= 0:
                    return False
                with suppress(Empty):
                    changed.get(timeout=left)
            return True
        finally:
            listeners.remove(wake)
