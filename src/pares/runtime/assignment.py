"""A member's place in a `Group`, polled by a thread of its own: a revocation blocks here and nowhere else.

Callbacks become events of the protocol. `on_revoked` waits until the protocol has yielded each partition, for no longer than
the barrier's limit and what a release takes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from pares.core.errors import ClosedError, LedgerUnavailable
from pares.core.shares import Assigned, Lost, Revoked
from pares.ledger import Membership
from pares.runtime.claims_group import ClaimsMembership
from pares.runtime.clock import stopwatch

log: Final = logging.getLogger("pares.member")

POLL: Final = 0.1
"""Seconds of one poll: how late this thread may notice that it is to leave. Callbacks come within a poll, as soon as the group
calls, however long that is."""
LONG_POLL: Final = 1.0
"""The same where a poll can be ended."""
PAUSE: Final = 0.05
"""Seconds between two looks while this member is out of its group, or that is out of reach."""
GRACE: Final = 5.0
"""Seconds beyond the barrier's limit for the record that says that it is over."""

Hear = Callable[[Assigned | Revoked | Lost], None]
Join = Callable[["Callbacks"], Membership]


class Callbacks:
    """What a `Group` calls. Made before there is a membership, as some groups call while they are being joined."""

    def __init__(self, hear: Hear, limit: float) -> None:
        self._hear = hear
        self._limit = limit
        self._lock = threading.Lock()
        self._waiting: dict[int, threading.Event] = {}
        self.over = False
        """Nobody answers any more."""

    def assigned(self, numbers: Sequence[int]) -> None:
        self._hear(Assigned(tuple(numbers)))

    def revoked(self, numbers: Sequence[int]) -> None:
        if self.over:
            return
        with self._lock:
            waits = [self._waiting.setdefault(number, threading.Event()) for number in numbers]
        self._hear(Revoked(tuple(numbers)))
        end = stopwatch() + int(self._limit * 1e9)
        for wait in waits:
            wait.wait(max(0.0, (end - stopwatch()) / 1e9))
        with self._lock:
            for number in numbers:
                self._waiting.pop(number, None)

    def lost(self, numbers: Sequence[int]) -> None:
        self._hear(Lost(tuple(numbers)))

    def yielded(self, number: int) -> None:
        """The protocol has given it up."""
        with self._lock:
            wait = self._waiting.get(number)
        if wait is not None:
            wait.set()

    def end(self) -> None:
        self.over = True
        with self._lock:
            waits = list(self._waiting.values())
        for wait in waits:
            wait.set()


class Assignment:
    """Joins, polls, leaves; and joins again when it was only left for a while."""

    def __init__(self, join: Join, callbacks: Callbacks, who: str, left: Callable[[], None]) -> None:
        self._join = join
        self._callbacks = callbacks
        self._left = left
        """Called when the group was left for good."""
        self._membership: Membership | None = join(callbacks)
        self.bound: float = self._membership.reassignment_bound
        self.unreachable: str | None = None
        self._away_until: int | None = None
        """Out of the group until then; None: in it."""
        self._leaving = False
        self._stopped = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"{who}: group", daemon=True)

    @property
    def membership(self) -> Membership | None:
        """None while this member is out of the group."""
        return self._membership

    def stay_away(self, seconds: float | None) -> None:
        """Leaves the group for so long; None: until `come_back`."""
        self._away_until = 2**62 if seconds is None else stopwatch() + int(seconds * 1e9)
        self._wake()

    def come_back(self) -> None:
        self._away_until = None

    def leave(self) -> None:
        """For good."""
        self._leaving = True
        self._wake()

    def stop(self) -> None:
        """No revocation is waited for any more: there is no more time."""
        self._callbacks.end()
        self._stopped.set()
        self._wake()

    def _wake(self) -> None:
        membership = self._membership
        if isinstance(membership, ClaimsMembership):
            membership.wake()

    def give_up(self) -> None:
        """Of a member that was never begun."""
        if self._membership is not None:
            self._membership.leave()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._round()
                if self._leaving:
                    break
                self.unreachable = None
            except (LedgerUnavailable, ClosedError) as error:
                if self.unreachable is None:
                    log.warning("the group is out of reach: %s", error)
                self.unreachable = str(error)
                if self._leaving:
                    break
                self._stopped.wait(PAUSE)
            except Exception as error:
                log.exception("the group's callbacks failed")
                self.unreachable = repr(error)
                self._stopped.wait(PAUSE)
        try:
            self._go()  # also without time for it: nobody is to keep what nobody here works at
        except Exception as error:
            log.info("the group was not left in order: %s", error)
        self._left()

    def _round(self) -> None:
        away = self._away_until
        if away is not None:
            self._go()
            self._stopped.wait(PAUSE)
            if stopwatch() >= away and self._away_until == away:
                self._away_until = None
            return
        if self._membership is None and not self._leaving:
            self._membership = self._join(self._callbacks)
        if self._membership is not None:
            # By claims there is a way to end a poll; a client library has none.
            self._membership.poll(LONG_POLL if isinstance(self._membership, ClaimsMembership) else POLL)

    def _go(self) -> None:
        membership, self._membership = self._membership, None
        if membership is not None:
            membership.leave()
