"""A member's place in a `Group`, polled by a thread of its own: a revocation blocks here and nowhere else.

A member that its group has not let in keeps the last reason that it heard until it is in: a group's service answers only now
and then.

Callbacks become events of the protocol. `on_revoked` waits until the protocol has yielded each partition, but no longer than
the barrier's limit plus `GRACE` for the release.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from pares.core.errors import ClosedError, LedgerUnavailable
from pares.core.events import Assigned, Lost, Revoked
from pares.ledger import Membership
from pares.runtime.host import Flag, Host, Task
from pares.runtime.neli.claims_group import ClaimsMembership

log: Final = logging.getLogger("pares.member")

POLL: Final = 0.1
"""Seconds of one poll: how late this thread may notice that it is to leave. Callbacks don't wait for its end: they come during
a poll, as soon as the group calls."""
LONG_POLL: Final = 1.0
"""The same where another thread can end a poll."""
PAUSE: Final = 0.05
"""Seconds between two looks while this member is out of its group, or the group is out of reach."""
SILENCE: Final = 10.0
"""After so many seconds, or twice the group's bound if that is more, it is reported that the group has not let this member
in."""
LASTING: Final = 1_000_000_000
"""After so many nanoseconds out of the group, with a known reason, the member's user is told."""
GRACE: Final = 5.0
"""Seconds beyond the barrier's limit for the record that says that it is over."""

Hear = Callable[[Assigned | Revoked | Lost], None]
Join = Callable[["Callbacks"], Membership]


class Callbacks:
    """What a `Group` calls. Made before there is a membership, as some groups call while they are being joined."""

    def __init__(self, hear: Hear, limit: float, host: Host) -> None:
        self._host = host
        self._hear = hear
        self._limit = limit
        self._lock = host.lock()
        """Held while an event is handed over: once `end` has returned, none is any more, and no call waits for an answer. By
        then the listener may be the next incarnation, for which the event would be false."""
        self._waiting: dict[int, Flag] = {}
        self._over = False
        """Whether the protocol has stopped answering."""

    def assigned(self, numbers: Sequence[int]) -> None:
        with self._lock:
            if not self._over:
                self._hear(Assigned(tuple(numbers)))

    def revoked(self, numbers: Sequence[int]) -> None:
        with self._lock:
            if self._over:
                return
            waits = [self._waiting.setdefault(number, self._host.flag()) for number in numbers]
            self._hear(Revoked(tuple(numbers)))
        end = self._host.now() + int(self._limit * 1e9)
        for wait in waits:
            wait.wait(max(0.0, (end - self._host.now()) / 1e9))
        with self._lock:
            for number in numbers:
                self._waiting.pop(number, None)

    def lost(self, numbers: Sequence[int]) -> None:
        with self._lock:
            if not self._over:
                self._hear(Lost(tuple(numbers)))

    def yielded(self, number: int) -> None:
        """The protocol has given this partition up."""
        with self._lock:
            wait = self._waiting.get(number)
        if wait is not None:
            wait.set()

    def end(self) -> None:
        with self._lock:
            self._over = True
            waits = list(self._waiting.values())
        for wait in waits:
            wait.set()


class Assignment:
    """Joins the group, polls and leaves it; joins again after an absence that was to last for a while only."""

    def __init__(
        self,
        join: Join,
        callbacks: Callbacks,
        who: str,
        wanted: Callable[[], bool],
        left: Callable[[], None],
        changed: Callable[[], None],
        host: Host,
        after: Assignment | None = None,
    ) -> None:
        """`after`: the assignment of an earlier incarnation, which is leaving. If this one joined first, the group would have
        the member twice, and warn it of itself."""
        self._host = host
        self._join = join
        self._callbacks = callbacks
        self._who = who
        self._wanted = wanted
        """Whether its user wants this member in its group."""
        self._left = left
        """Called when this member has left the group for good."""
        self._changed = changed
        """Called when the group has let this member in, or the member is out again."""
        self._after = after
        self._membership: Membership | None = join(callbacks) if after is None else None
        told = after or self._membership
        assert told is not None
        self.bound: float = told.bound if isinstance(told, Assignment) else told.reassignment_bound
        self.callback_limit: float = told.callback_limit
        self.unreachable: str | None = None
        self._out_since = self._host.now()
        """Since when this member has been out of its group though it wants to be in; 0 while it is in."""
        self._away_until = 0
        """Until when this member stays out of the group. Written by users' threads alone."""
        self._leaving = False
        self._stopped = host.flag()
        self.thread: Task
        """The thread that polls; set by `start`."""

    def start(self) -> None:
        self.thread = self._host.spawn(self._run, f"{self._who}: group")

    @property
    def membership(self) -> Membership | None:
        """None while this member is out of the group."""
        return self._membership

    @property
    def joined(self) -> bool:
        """Whether this member is in its group, or stays out on purpose."""
        membership = self._membership
        return self.away or (membership is not None and membership.joined)

    @property
    def away(self) -> bool:
        """Whether this member is to stay out of its group, for a while or for as long as its user wants."""
        return self._host.now() < self._away_until or not self._wanted()

    @property
    def trouble(self) -> str | None:
        """Why this member is not in its group, if that has lasted for `LASTING`."""
        since = self._out_since
        return self.unreachable if since and self._host.now() >= since + LASTING else None

    def stay_away(self, seconds: float) -> None:
        """Leaves the group, to join it again after `seconds`."""
        self._away_until = self._host.now() + int(seconds * 1e9)
        self.look()

    def leave(self) -> None:
        """Leaves the group for good."""
        self._leaving = True
        self.look()

    def stop(self) -> None:
        """Ends without waiting for any revocation: the caller has no more time."""
        self._callbacks.end()
        self._stopped.set()
        self.look()

    def look(self) -> None:
        """Wakes this thread to look at what has changed."""
        membership = self._membership
        if isinstance(membership, ClaimsMembership):
            membership.wake()

    def give_up(self) -> None:
        """Leaves the group on behalf of a member that was never started."""
        if self._membership is not None:
            self._membership.leave()

    def _run(self) -> None:
        while self._after is not None and not self._stopped.is_set():
            self._after.thread.join(PAUSE)
            if not self._after.thread.is_alive():
                self._after = None
        while not self._stopped.is_set():
            try:
                self._round()
                if self._leaving:
                    break
                if self.joined:
                    self.unreachable = None
                elif self.unreachable is None:
                    self.unreachable = self._silence()
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
            self._look()
        try:
            self._go()  # also when time is short: a member that has ended must not keep partitions
        except Exception as error:
            log.info("the group was not left in order: %s", error)
        self._left()

    def _look(self) -> None:
        joined = self.joined
        if joined == bool(self._out_since):
            self._out_since = 0 if joined else self._host.now()
            self._changed()

    def _silence(self) -> str | None:
        """The reason to give when the group has said nothing for too long; None before that."""
        patience = max(SILENCE, 2 * self.bound)
        if not self._out_since or self._host.now() < self._out_since + int(patience * 1e9):
            return None
        text = (
            f"{self._who} asked to join, and its group has not let it in for {patience:g} s: another member's barrier may hold "
            "that up, the group's coordinator may be out of reach, or the group's name may be in use for something "
            "else; look at its members, and at the service"
        )
        log.warning("%s", text)
        return text

    def _round(self) -> None:
        if self.away:
            self._go()
            self._stopped.wait(PAUSE)
            return
        if self._membership is None:
            if not self._leaving:
                self._membership = self._join(self._callbacks)
            return  # a `look` during the join found no poll to end, so all is looked at again before the first poll
        # A poll of the claims group can be ended; one of a client library can't.
        self._membership.poll(LONG_POLL if isinstance(self._membership, ClaimsMembership) else POLL)

    def _go(self) -> None:
        membership, self._membership = self._membership, None
        if membership is not None:
            membership.leave()
