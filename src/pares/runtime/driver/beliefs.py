"""What this process believes now, for checks that cost about a hundred nanoseconds: a deadline for each role.

The member's loop writes, other threads read, and no lock stands between them: each write is one step for the interpreter, and a
reader that sees a deadline before it is renewed is only too careful. The thread that closes the member may end all terms
without waiting for the loop. So these two share a lock, and a term that was ended is never renewed. Neither is one whose lease
has run out (`term.Lease`): the loop is told of such terms, and gives their seats up.

A term is ended before it is taken out of the table: a fork may come between any two steps, and the child can only end what
stands in the table.
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
        """Called after every change, on the thread that made it, to wake callers that wait. They return at once."""
        self.begun = 0
        """How many terms have begun."""
        self._lock = host.rlock()
        """The thread that holds it may take it again: a signal handler may close the member on a thread that is closing it."""
        self._over = False
        """Set when nothing is believed any more, whatever effects still come."""

    def lead(self, effect: Lead, member: str) -> Term | None:
        """The term that begins; None when it is too late for one."""
        role, seat = effect.seat
        with self._lock:
            if self._over:
                return None
            before = self.terms.get(role)
            if before is not None:
                # Before the term ends: `holds` looks only here, and must not say yes after the term says no.
                self.until.pop(role, None)
                before._end(SUPERSEDED)  # pyright: ignore[reportPrivateUsage]
            term = Term(role, seat, effect.token, member, effect.until, self._host)
            self.begun += 1  # before the term can be seen
            self.terms[role] = term
            self.until[role] = effect.until
            return term

    def begin_work(self, term: Term) -> None:
        """The barrier has returned from the term's beginning: callers that wait for the term get it. From any thread."""
        with self._lock:
            if self.terms.get(term.role) is term:
                self._begun[term.role] = term.token
        self.notify()

    def extend(self, effect: Extend) -> tuple[int, list[Term]]:
        """Renews beliefs. Returns until when they were believed before (0 if there are none), and the terms among them whose
        lease had run out."""
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
            self.until.pop(role, None)  # before the term ends, as in `lead`
            term._end(effect.why)  # pyright: ignore[reportPrivateUsage]
            self._begun.pop(role, None)
            del self.terms[role]
            return term

    def stop(self, why: str) -> None:
        """Ends all beliefs for good; from any thread. The loop finds the terms that this ended, and reports their ends."""
        with self._lock:
            self._over = True
            self._end_terms(why)

    def end_all(self, why: str, *, for_good: bool = True) -> list[Term]:
        """Ends all beliefs, whatever the protocol has said; on the loop's thread. With `for_good` the member is over; otherwise
        an incarnation is, and the next one may lead. Returns the terms whose end was not reported yet."""
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
        """Whether `valid` returns a term. Asked when the deadline in `until` has passed: the term may have been renewed by
        now."""
        return bool(self.terms.get(role))

    def working(self, role: str) -> Term | None:
        """As `valid`, but None until work in the term may begin (`begin_work`)."""
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
