"""What this process believes now, for checks that cost about a hundred nanoseconds: a deadline for each role.

The member's loop writes, everybody else reads, and there is no lock between them: each write is one step for the interpreter,
and a reader that sees the deadline before it is renewed is only too careful.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

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
        self.changed = threading.Condition()
        self.listeners: list[Callable[[], None]] = []
        """Called after every change, on the loop's thread: for event loops."""
        self.begun = 0

    def lead(self, effect: Lead, member: str) -> Term:
        role, seat = effect.seat
        term = Term(role, seat, effect.token, member, effect.until)
        self.begun += 1  # first: whoever finds the term finds it counted
        self.terms[role] = term
        self.until[role] = effect.until
        return term

    def renew(self, effect: Renew) -> None:
        for role, term in self.terms.items():
            term._renew(effect.until)  # pyright: ignore[reportPrivateUsage]
            self.until[role] = effect.until

    def extend(self, effect: Extend) -> None:
        """As `renew`, for some seats."""
        for role, seat in effect.seats:
            term = self.terms.get(role)
            if term is not None and term.seat == seat:
                term._renew(effect.until)  # pyright: ignore[reportPrivateUsage]
                self.until[role] = effect.until

    def follow(self, effect: Follow) -> Term | None:
        role = effect.seat[0]
        term = self.terms.get(role)
        if term is None or term.token != effect.token:
            return None
        self.until.pop(role, None)
        del self.terms[role]
        term._end(effect.why)  # pyright: ignore[reportPrivateUsage]
        return term

    def end_all(self, why: str) -> list[Term]:
        """Whatever else happens: nothing is believed any more."""
        self.until.clear()
        terms, self.terms = list(self.terms.values()), {}
        for term in terms:
            term._end(why)  # pyright: ignore[reportPrivateUsage]
        return terms

    def die_in_child(self) -> None:
        terms = list(self.terms.values())
        self.until.clear()
        self.terms = {}
        self.changed, self.listeners = threading.Condition(), []
        for term in terms:
            term._die_in_child()  # pyright: ignore[reportPrivateUsage]

    def valid(self, role: str) -> Term | None:
        """The current term, if it is believed right now."""
        term = self.terms.get(role)
        return term if term else None

    def notify(self) -> None:
        with self.changed:
            self.changed.notify_all()
        for listener in list(self.listeners):
            listener()

    def wait_for(self, what: Callable[[], bool], timeout: float | None) -> bool:
        """Waits until `what()`, looked at after each change, is true; `timeout` in seconds."""
        end = None if timeout is None else stopwatch() + int(timeout * 1e9)
        with self.changed:
            while not what():
                left = None if end is None else (end - stopwatch()) / 1e9
                if left is not None and left <= 0:
                    return False
                self.changed.wait(left)
        return True
