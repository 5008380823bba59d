"""A member's life as its user sees it: what the protocol's effects mean for beliefs, events, barriers and the member's state.

Everything here is done on the loop's thread, in the order of the effects; users read it from other threads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, Literal

from pares.core.errors import CapabilityError, ConfigError, ForkedError, ParesError
from pares.core.events import Barrier, Closed, Effect, Extend, Follow, Lapsed, Lead, Live, Moved, Report, Restart, Stop
from pares.core.reasons import CLOSED
from pares.core.wire.changes import MemberJoined, MemberLeft, SeatChanged
from pares.core.wire.records import Seat
from pares.runtime.driver.beliefs import Beliefs
from pares.runtime.driver.counters import Measures
from pares.runtime.driver.event_log import Journal
from pares.runtime.events import Acquired, Event, Fenced, Joined, Left, Revoked
from pares.runtime.host import Host
from pares.runtime.term import Term
from pares.runtime.views import State
from pares.runtime.work.barriers import Barriers
from pares.runtime.work.beginnings import Beginnings

log: Final = logging.getLogger("pares.member")

FREE: Final = "free"
"""Why a term begins whose seat was free, as protocols say it."""
UNHELD: Final = "nobody held it"
"""The same, as users are told."""

_FAILURES: Final[dict[str, type[ParesError]]] = {
    "forked": ForkedError,
    "cloned": ForkedError,
    "newer-format": CapabilityError,
    "misconfigured": ConfigError,
    "cannot": CapabilityError,
}


class Life:
    """The states of a member: joining -> live -> closing -> closed, and from any of them failed."""

    def __init__(
        self,
        who: str,
        barriers: Barriers,
        on_lost: Callable[[Term], object] | None,
        host: Host,
        *,
        lapsed: Callable[[Lapsed], object],
        give_up: Callable[[str, str], object],
        barrier_limit: float = 30.0,
    ) -> None:
        self._now, self._wall_us = host.now, host.wall_us
        self.who = who
        """How errors name the member: its name and group."""
        self.barrier_limit = barrier_limit
        """Seconds that a barrier may take."""
        self.id = ""
        """The id of the present incarnation; set before the loop begins and at each restart."""
        self._entered = False
        """Whether the present incarnation is in its group. Written by the loop's thread alone, as is `_outcome`."""
        self._closing = False
        """Written by users alone, on any thread; nothing takes it back."""
        self._outcome: Literal["closed", "failed"] | None = None
        self.beliefs = Beliefs(host)
        self._lapsed = lapsed
        self.journal = Journal(host)
        self.beginnings = Beginnings(
            barriers, barrier_limit, self.beliefs.begin_work, self.journal.problem, give_up, host
        )
        self.barriers = barriers
        self.measures = Measures(host)
        barriers.took = self.measures.barriers
        self.since: dict[Seat, float] = {}
        """Wall-clock seconds at which it was read that a seat got its present holder."""
        self.turned: dict[Seat, int] = {}
        """When this member came to hold a seat, or stopped leading it, whichever was later; by the stopwatch."""
        self.unreached_at = 0
        """When the ledger was last found out of reach, by the stopwatch. Written by the loop's thread alone."""
        self.forked = False
        self._on_lost = on_lost
        self._end: Stop | None = None

    @property
    def state(self) -> State:
        """Computed from fields that one kind of thread writes each, so that no thread overwrites what another has written."""
        return self._outcome or ("closing" if self._closing else "live" if self._entered else "joining")

    @property
    def ended(self) -> bool:
        return self._outcome is not None

    def failure(self) -> ParesError:
        """The error that a call on a failed member raises."""
        end = self._end or Stop("failed", "it failed")
        return _FAILURES.get(end.kind, ParesError)(f"{self.who}: {end.text}")

    def carry(self, effect: Effect) -> None:
        """Carries an effect out for the user."""
        handler = _CARRY.get(type(effect))
        if handler is not None:
            handler(self, effect)

    def begin_closing(self) -> bool:
        """Marks the member as closing. Returns False if it was closing already, or over."""
        if self.state not in ("joining", "live"):
            return False
        self._closing = True  # two threads that do this at the same time do no harm
        return True

    def fail(self, error: BaseException) -> None:
        """The loop itself has failed: keeps the error for callers."""
        self._end = Stop("failed", f"its loop failed: {error!r}")

    def die_in_child(self) -> None:
        self.forked, self._outcome = True, "failed"
        self._end = Stop("forked", "this member belongs to the parent process; make a new one after the fork")
        self.beliefs.die_in_child()
        self.journal.die_in_child()

    # Effects -----------------------------------------------------------------------------------------------------------

    def _live(self, effect: Live) -> None:
        self._entered = True
        log.info("%s is in its group", self.id)
        self.beliefs.notify()

    def _lead(self, effect: Lead) -> None:
        if self.ended:
            return
        self.measures.begins(effect.seat)  # before the term can be seen
        term = self.beliefs.lead(effect, self.id)
        if term is None:
            return  # closed without waiting for this thread
        why = UNHELD if effect.why == FREE else effect.why
        event = Acquired(term.role, term.seat, term.token, why, self._wall_us() / 1e6)
        self.journal.publish(event)
        log.info("%s leads %r (seat %d, token %d): %s", self.id, term.role, term.seat, term.token, why)
        self.beginnings.begin(term, event)
        self.beliefs.notify()

    def _extend(self, effect: Extend) -> None:
        self._renewed(effect.until, *self.beliefs.extend(effect))

    def _renewed(self, until: int, before: int, lapsed: list[Term]) -> None:
        if before:
            self.measures.renews(before, until, self._now())
        if lapsed:
            more = f" and {len(lapsed) - 1} more" if len(lapsed) > 1 else ""
            log.warning("%s: the lease of %r%s ran out before it was renewed", self.id, lapsed[0].role, more)
        for term in lapsed:
            self._lapsed(Lapsed((term.role, term.seat), term.token))

    def _follow(self, effect: Follow) -> None:
        term = self.beliefs.follow(effect)
        self.turned[effect.seat] = self._now()
        if term is not None:
            self.measures.ends(effect.why, effect.fenced)
        role, seat = effect.seat
        log.info("%s no longer leads %r (seat %d, token %d): %s", self.id, role, seat, effect.token, effect.why)
        if effect.fenced:
            self.journal.fenced(effect.why)
            self._tell(Fenced(role, seat, effect.token, effect.why, self._wall_us() / 1e6))
        if term is not None:
            self.beliefs.notify()
            self._lost(term)

    def _lost(self, term: Term) -> None:
        on_lost = self._on_lost
        if on_lost is not None:
            self.barriers.run(lambda: on_lost(term), "on_lost")

    def _barrier(self, effect: Barrier) -> None:
        role, seat = effect.seat
        event = Revoked(role, seat, effect.token, effect.why, self._wall_us() / 1e6)
        self.journal.publish(event)
        self.barriers.end(effect.seat, effect.token, event)

    def _moved(self, effect: Moved) -> None:
        now = self._wall_us() / 1e6
        for change in effect.changes:
            if isinstance(change, SeatChanged):
                self.since[change.seat] = now
                if change.holder == self.id:
                    self.turned[change.seat] = self._now()
                self.measures.changed(change, self.id)
            elif not self._entered:
                continue  # what happened before this member was in its group is no event for its user
            elif isinstance(change, MemberJoined) and change.member != self.id:
                self._tell(Joined(change.member, change.name, change.host, now))
            elif isinstance(change, MemberLeft) and change.member != self.id:
                self._tell(Left(change.member, change.name, change.cause, now))

    def _report(self, effect: Report) -> None:
        self.journal.problem(effect.kind, effect.text)

    def _restart(self, effect: Restart) -> None:
        self._end_all(effect.why, for_good=False)
        self.journal.restarts += 1
        self._entered = False
        self.journal.problem("restarted", effect.why)

    def _over(self, effect: Closed | Stop) -> None:
        self._end_all(CLOSED)
        if self._end is None and isinstance(effect, Stop) and effect.kind != "abandoned":
            self._end = effect
        if self._end is not None:
            self.journal.problem(self._end.kind, self._end.text)  # the reason can be read before the state changes
        self._outcome = "closed" if self._end is None else "failed"
        self.beliefs.notify()
        self.journal.end(None if self._end is None else self.failure())

    def _end_all(self, why: str, *, for_good: bool = True) -> None:
        """An incarnation is over: ends its beliefs, and reports those whose end the protocol has not reported."""
        for term in self.beliefs.end_all(why, for_good=for_good):
            self.measures.ends(term.why, True)
            self.journal.fenced(term.why)
            self._tell(Fenced(term.role, term.seat, term.token, term.why, self._wall_us() / 1e6))
            self._lost(term)

    def _tell(self, event: Event) -> None:
        self.journal.publish(event)
        self.barriers.tell(event)


_CARRY: Final[dict[type, Callable[[Life, Any], None]]] = {
    Live: Life._live,  # pyright: ignore[reportPrivateUsage]
    Lead: Life._lead,  # pyright: ignore[reportPrivateUsage]
    Extend: Life._extend,  # pyright: ignore[reportPrivateUsage]
    Follow: Life._follow,  # pyright: ignore[reportPrivateUsage]
    Barrier: Life._barrier,  # pyright: ignore[reportPrivateUsage]
    Moved: Life._moved,  # pyright: ignore[reportPrivateUsage]
    Report: Life._report,  # pyright: ignore[reportPrivateUsage]
    Restart: Life._restart,  # pyright: ignore[reportPrivateUsage]
    Closed: Life._over,  # pyright: ignore[reportPrivateUsage]
    Stop: Life._over,  # pyright: ignore[reportPrivateUsage]
}
