"""What this process believes now, for checks that cost about a hundred nanoseconds: a deadline for each role.

The member's loop writes, everybody else reads, and there is no lock between them: each write is one step for the interpreter,
and a reader that sees the deadline before it is renewed is only too careful. The thread that closes the member may end
everything without waiting for the loop; so between these two there is a lock, and what was ended is renewed by nobody. Nor is
what has run out (`term.Lease`): the loop is told of such terms, and gives their seats up.

A term is ended before it is forgotten: a fork may come between any two steps, and in the child only what stands in the table
can be ended.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from pares.core.events import Extend, Follow, Lead
from pares.core.reasons import SUPERSEDED
from pares.runtime.host import Empty, Host, Mailbox
from pares.runtime.term import Term


class Beliefs:
    """The terms of one member that are in force."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.until: dict[str, int] = {}
        """role -> deadline of the belief, in nanoseconds of the stopwatch."""
        self.terms: dict[str, Term] = {}
        self._begun: dict[str, int] = {}
        """role -> token of the term whose work may begin."""
        self.listeners: list[Callable[[], None]] = []
        """Called after every change, on the thread that made it: for those that wait. They return at once."""
        self.begun = 0
        self._lock = host.rlock()
        """Its holder may take it again: a signal's handler may close the member while the thread that it interrupts does."""
        self._over = False
        """Nothing is believed any more, whatever comes."""

    def lead(self, effect: Lead, member: str) -> Term | None:
        """The term that begins; None when it is too late for one."""
        role, seat = effect.seat
        with self._lock:
            if self._over:
                return None
            before = self.terms.get(role)
            if before is not None:
                self.until.pop(role, None)  # first: `holds` looks here alone, and must not say more than the term
                before._end(SUPERSEDED)  # pyright: ignore[reportPrivateUsage]
            term = Term(role, seat, effect.token, member, effect.until, self._host)
            self.begun += 1  # first: a term that can be seen has been counted
            self.terms[role] = term
            self.until[role] = effect.until
            return term

    def begin_work(self, term: Term) -> None:
        """The barrier has returned from its beginning: whatever waits for the term gets it. From any thread."""
        with self._lock:
            if self.terms.get(term.role) is term:
                self._begun[term.role] = term.token
        self.notify()

    def extend(self, effect: Extend) -> tuple[int, list[Term]]:
        """Until when what is extended was believed before (0 if there is nothing), and the terms that had run out by then."""
        with self._lock:
            if effect.seats is None:
                return self._renew(list(self.terms.values()), effect.until)
            terms = [self.terms[role] for role, _ in effect.seats if role in self.terms]
            return self._renew([term for term in terms if (term.role, term.seat) in effect.seats], effect.until)

    def _renew(self, terms: list[Term], until: int) -> tuple[int, list[Term]]:
        before = min((self.until.get(term.role, 0) for term in terms), default=0)
        lapsed: list[Term] = []
        for term in () if self._over else terms:
            if term._renew(until):  # pyright: ignore[reportPrivateUsage]
                self.until[term.role] = until
            else:
                self.until.pop(term.role, None)
                lapsed.append(term)
        return before, lapsed

    def follow(self, effect: Follow) -> Term | None:
        """The term that this ends; None if it is not in force."""
        role = effect.seat[0]
        with self._lock:
            term = self.terms.get(role)
            if term is None or term.key != (*effect.seat, effect.token):
                return None
            self.until.pop(role, None)  # first, as in `lead`
            term._end(effect.why)  # pyright: ignore[reportPrivateUsage]
            self._begun.pop(role, None)
            del self.terms[role]
            return term

    def stop(self, why: str) -> None:
        """From any thread: nothing is believed any more. The loop finds the terms that this ended, and tells of them."""
        with self._lock:
            self._over = True
            self._end_terms(why)

    def end_all(self, why: str, *, for_good: bool = True) -> list[Term]:
        """By the loop, whatever the protocol has said: nothing is believed any more. With `for_good` as its last word; else an
        incarnation is over, and the next one may lead. The terms that nobody was told the end of."""
        with self._lock:
            self._over = self._over or for_good
            self._end_terms(why)
            terms, self.terms = list(self.terms.values()), {}
            return terms

    def _end_terms(self, why: str) -> None:
        self.until.clear()
        for term in self.terms.values():
            term._end(why)  # pyright: ignore[reportPrivateUsage]

    def die_in_child(self) -> None:
        self._lock, self._over = self._host.rlock(), True  # another thread of the parent may have held it
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

    def believes(self, role: str) -> bool:
        """What `valid` says: asked when the deadline in `until` has passed, and there may be another by now."""
        return bool(self.terms.get(role))

    def working(self, role: str) -> Term | None:
        """As `valid`, for work that belongs to a term: not before that may begin (`begin_work`)."""
        term = self.valid(role)
        return term if term is not None and self._begun.get(role) == term.token else None

    def notify(self) -> None:
        for listener in list(self.listeners):
            listener()

    def wait_for(self, what: Callable[[], bool], timeout: float | None) -> bool:
        """Waits until `what()`, looked at after each change, is true; `timeout` in seconds."""
        now = self._host.now
        end = None if timeout is None else now() + int(timeout * 1e9)
        # No lock that the loop would need: a signal's handler may close the member on the thread that waits here.
        changed: Mailbox[None] = self._host.mailbox()
        listeners, wake = self.listeners, partial(changed.put, None)
        listeners.append(wake)
        try:
            while not what():
                left = None if end is None else (end - now()) / 1e9
                if left is not None and left <= 0:
                    return False
                with suppress(Empty):
                    changed.get(timeout=left)
            return True
        finally:
            listeners.remove(wake)
