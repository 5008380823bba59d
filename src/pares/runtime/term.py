"""A term as its user sees it: true while this process provably leads."""

from __future__ import annotations

import threading
from typing import Final

from pares.core.errors import ForkedError, LeadershipLost
from pares.core.reasons import LEASE_RAN_OUT
from pares.runtime.clock import stopwatch

NEVER: Final = 0


class Term:
    """One member's tenure of one seat.

    Promised (exclusive mode): while ``bool(term)`` is True no other member believes that it holds this seat.
    It turns False by this process' own stopwatch, also when the process was frozen or the ledger is out of reach, and never
    turns True again. Not promised: anything for the time after the check. A process may be stopped between the check and the
    write that follows; for that, hand `token` to a fence.
    """

    __slots__ = ("__weakref__", "_forked", "_over", "_until", "_why", "member", "role", "seat", "token")

    def __init__(self, role: str, seat: int, token: int, member: str, until: int) -> None:
        self.role = role
        self.seat = seat
        """The seat's index within the role: 0 unless the role has several seats."""
        self.token = token
        """The fencing token: greater than that of every earlier term of this seat. (With protocol "allcall" only on one side of
        a split: two sides may both hold one, and either may be the higher.)"""
        self.member = member
        self._until = until
        self._why = ""
        self._forked = False
        self._over = threading.Event()

    def __bool__(self) -> bool:
        return stopwatch() < self._until

    def __repr__(self) -> str:
        state = f"{self.remaining():.3f} s left" if self else f"over: {self.why or 'lease ran out'}"
        return f"<Term {self.role!r}/{self.seat} token={self.token} {state}>"

    @property
    def key(self) -> tuple[str, int, int]:
        """Role, seat and token: what tells this term from every other one of its group."""
        return (self.role, self.seat, self.token)

    @property
    def why(self) -> str:
        """Why the term ended; empty while it lasts."""
        return "" if self else self._why or LEASE_RAN_OUT

    @property
    def deadline_ns(self) -> int:
        """Up to when the belief lasts, on the stopwatch `pares.runtime.clock`; 0 when it is over. For watchdogs."""
        return self._until

    def remaining(self) -> float:
        """Seconds that the belief lasts if nothing renews it; 0.0 when the term is over."""
        return max(0, self._until - stopwatch()) / 1e9

    def check(self) -> None:
        """Raises `LeadershipLost` (`ForkedError` in a forked child) if the term is over."""
        if self:
            return
        if self._forked:
            raise ForkedError(f"the term of {self.role!r} belongs to the parent process; make a member after the fork")
        raise LeadershipLost(
            f"{self.member} no longer leads {self.role!r} (token {self.token}): {self.why}; drop the work of this term"
        )

    def wait_lost(self, timeout: float | None = None) -> bool:
        """Waits until the term is over, `timeout` seconds at most (None: as long as it takes). Whether it is over.

        It returns at the latest when the lease has run out by this process' own stopwatch, whatever the ledger does.
        """
        end = None if timeout is None else stopwatch() + int(timeout * 1e9)
        while self:
            now = stopwatch()
            if end is not None and now >= end:
                return False
            step = self._until if end is None else min(end, self._until)
            self._over.wait(max(0.0, (step - now) / 1e9) + 0.0005)
        return True

    # For the member's loop -------------------------------------------------------------------------------------------

    def _renew(self, until: int) -> None:
        if self._until != NEVER:
            self._until = until

    def _end(self, why: str) -> None:
        self._why = self._why or why or "over"  # first: whoever finds the term over finds out why
        self._until = NEVER
        self._over.set()

    def _die_in_child(self) -> None:
        self._until, self._forked, self._why = NEVER, True, "forked"
        self._over = threading.Event()
        self._over.set()
