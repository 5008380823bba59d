"""A term as its user sees it: true while this process provably leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pares.core.errors import ForkedError, LeadershipLost
from pares.core.reasons import LEASE_RAN_OUT
from pares.runtime.host import Host

NEVER: Final = 0


class Lease:
    """One stretch of a belief, up to `until`; and what follows it: another stretch, or for good nothing.

    A belief that has been seen to be over must not come back, though its reader and its renewer are two threads that may be
    stopped anywhere, and share no lock. So what follows a stretch is decided once, in a single step for the interpreter, and
    the first decision stands. The renewer proposes the next stretch; a reader that finds this one over proposes that it is the
    last. [a renewer that looked at the clock, was stopped, and then wrote the new deadline: terms that were False turned True]
    """

    __slots__ = ("_next", "until")

    def __init__(self, until: int) -> None:
        self.until = until
        self._next: dict[str, Lease | None] = {}

    def decide(self, proposed: Lease | None) -> Lease | None:
        """What follows: `proposed`, unless something else was decided before. None: this is the last stretch."""
        return self._next.setdefault("next", proposed)


class Term:
    """One member's tenure of one seat.

    Promised (exclusive mode): while ``bool(term)`` is True no other member believes that it holds this seat.
    It turns False by this process' own stopwatch, also when the process was frozen or the ledger is out of reach, and never
    turns True again: a term that has run out is over for good, and its member needs a new one to lead again. Not promised:
    anything for the time after the check. A process may be stopped between the check and the write that follows; for that,
    hand `token` to a fence.

    This is the bare belief: it is True from the moment at which the lease is good, also while the barrier still has `Acquired`.
    """

    __slots__ = (
        "__weakref__",
        "_forked",
        "_host",
        "_lease",
        "_now",
        "_over",
        "_until",
        "_why",
        "member",
        "role",
        "seat",
        "token",
    )

    def __init__(self, role: str, seat: int, token: int, member: str, until: int, host: Host) -> None:
        self._host = host
        self._now: Callable[[], int] = host.now
        self.role = role
        self.seat = seat
        """The seat's index within the role: 0 unless the role has several seats."""
        self.token = token
        """The fencing token: greater than that of every earlier term of this seat. (With protocol "allcall" only on one side of
        a split: two sides may both hold one, and either may be the higher.)"""
        self.member = member
        self._lease: Lease | None = Lease(until)
        self._until = until
        """That of the lease, for the check."""
        self._why = ""
        self._forked = False
        self._over = host.flag()

    def __bool__(self) -> bool:
        now = self._now  # called by a local name: called as a method of this object it costs a fifth more
        return now() < self._until or self._settle()

    def _settle(self) -> bool:
        """The deadline that was looked at has passed: another may have been decided by now; if not, none ever will be."""
        lease = self._lease
        while lease is not None:
            if self._now() < lease.until:
                return True
            lease = lease.decide(None)
        return False

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
        return max(0, self._until - self._now()) / 1e9

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
        end = None if timeout is None else self._now() + int(timeout * 1e9)
        while self:
            now = self._now()
            if end is not None and now >= end:
                return False
            step = self._until if end is None else min(end, self._until)
            self._over.wait(max(0.0, (step - now) / 1e9) + 0.0005)
        return True

    # For the member's loop -------------------------------------------------------------------------------------------

    def _renew(self, until: int) -> bool:
        """Whether the belief goes on, up to `until`: not when it is over, or when its lease had run out before this was done.
        By one thread at a time."""
        lease = self._lease
        if lease is None:
            return False
        following = Lease(until) if self._now() < lease.until else None
        if following is None or lease.decide(following) is not following:
            lease.decide(None)
            self._end(LEASE_RAN_OUT)
            return False
        self._lease, self._until = following, until
        return True

    def _end(self, why: str) -> None:
        self._why = self._why or why or "over"  # first: the reason stands there before the end can be seen
        self._lease = None
        self._until = NEVER
        self._over.set()

    def _die_in_child(self) -> None:
        self._lease, self._until, self._forked, self._why = None, NEVER, True, "forked"
        self._over = self._host.flag()
        self._over.set()
