"""What a member's own round trips say about whether it can lead (R18).

A *round trip* is the time from handing a record over to having read it back. A belief begins when a record is read back and
ends a lease after that record was handed over (R4); and records follow one another a quarter of a session apart, or as far
apart as an append takes, if that is longer. So a trip is *short enough* when it and that distance fit into the lease: then
the next record is back before the lease of this one is over. With longer trips a holder never believes, or loses each term
that it begins. In non-exclusive mode the lease is longer than what the others wait for a silent holder, so the distance has
to fit into a lease without the overlap as well. [its seats are claimed, one after the other, though its beliefs last]

**R18 Who can't lead lets go.** A holder whose trips have been too long, one after the other, for two of its sessions (the
one that is about to begin counted as long as the last), is *slow*; so is a member that lost a seat to a claim before it
could believe for the first time, when the record that it wrote for that seat comes back too late. A slow member gives up
what it holds (why: slow) and says that it is not ready (R19), until three trips in a row were short enough and
its patience is over. The patience is two sessions, and twice as long each time, up to 256; after a good time of eight times its
length it shrinks by one step. [a slow member that lives keeps a role for ever and never leads it; without the memory it
takes the role back at once, for its rank, without end] Where nobody else could lead, patience serves nobody: there the first
short trip will do, and the member writes as often as a holder, to make one. [a ledger that was slow for all leaves nobody
ready when it is well again]

Near the limit, trips are short enough now and then: such a member leads, loses its lease, leads again. So

* a trip is *well inside* the lease when twice its length, or that of the append, and a quarter of a session fit into it;
* a lease that runs out under a term is a *loss* when the last trip before was not well inside, and the second loss within
  sixteen sessions makes a holder slow [each trip that is short by chance begins the two sessions anew];
* after a loss, for so long, and while it is or lately was slow, trips count as short enough only when they are well inside,
  and no patience begins before the last one that was not: to show itself (`shown`; the first patience), and to be ready again.
  Except if there are seats for which there is nobody else: then those will do that are just short enough, after the first
  patience [nobody leads, where all are near the limit];
* sessions are those of the member with the longest one, for that is how long the others need to get used to a change. [a
  member whose session is a quarter of the others' gives and takes four times as often as they can bear]

One long trip says nothing: a process that was stopped, and a ledger that was out of reach, make one, and the next one is short.
Nothing here matters to safety: it decides when a member lets go, and when it wants to be given things.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pares.core.lease import MS

NEVER_YET: Final = -(1 << 62)
NEVER: Final = 1 << 63
LOST_SESSIONS: Final = 2
"""Sessions without a belief after which a holder lets go."""
PATIENCE: Final = 2
"""Sessions for which it is not ready, the first time."""
MOST_DOUBLINGS: Final = 7
GOOD_TRIPS: Final = 3
"""Trips in a row that were short enough, before it is ready again."""
LOSS_SESSIONS: Final = 16
"""Sessions for which a loss is remembered."""
GOOD_TIMES: Final = 8
"""Patiences of good time after which the next patience is half as long."""


class Pace:
    """One member's round trips, newest last. Times are of its own stopwatch, in nanoseconds.

    `lease_ns` is the lease, `heard_ns` the one without an overlap: others wait hardly longer. `longest_ms`
    says how long the longest session in the group is, `wanted` whether there are seats that only this member could hold, of
    those that are ready.
    """

    def __init__(
        self,
        session_ms: int,
        lease_ns: int,
        longest_ms: Callable[[], int] | None = None,
        wanted: Callable[[], bool] = lambda: False,
        heard_ns: int | None = None,
    ) -> None:
        self._session = session_ms * MS
        self._lease = lease_ns
        self._heard = lease_ns if heard_ns is None else heard_ns
        self._longest_ms = longest_ms or (lambda: session_ms)
        self._wanted = wanted
        self._append = 0
        """How long the last append took."""
        self.trip: int | None = None
        """The last round trip."""
        self._sent_at = -1
        self._long_since: int | None = None
        """When the first of the long trips was handed over, of those in a row that hindered it in holding something."""
        self._long = self._good = self._inside = 0
        self._inside_since = 0
        """Since when all trips have been well inside the lease, and no append has failed."""
        self._lost_at: int | None = None
        """When it lost a term last because its trips were too long."""
        self._ran_out_at = self._overslept_at = NEVER_YET
        self.due_at = NEVER
        self._slow_at: int | None = None
        self._doublings = 0
        self._well_since = 0
        self.needed = False
        """Nobody else could lead: then its first short trip will do, whatever its patience says."""

    @property
    def slow(self) -> bool:
        """Whether this member has found that it can't lead."""
        return self._slow_at is not None

    @property
    def well(self) -> bool:
        """Whether its last trip was well inside the lease: what it reads late of others is their own doing."""
        return self._inside > 0

    @property
    def well_since(self) -> int:
        """Since when all its trips have been well inside the lease, and no append has failed."""
        return self._inside_since

    def unhurried(self, now: int, session: int) -> bool:
        """Whether its last trip was well inside the lease, and no lease ran out for a session, nor was it late for anything."""
        return self._inside > 0 and max(self._ran_out_at, self._overslept_at) <= now - session

    def wakes_at(self, at: int) -> int:
        """That is when it is to look again, by its own wish."""
        self.due_at = at
        return at

    def woke(self, now: int) -> None:
        """It was to look at `due_at`, and does so now. [trips alone tell nothing in time: what a member writes it reads at
        once, while what a hundred have just written still waits to be read by all of them]"""
        if now > self.due_at + self._session // 4:
            self._overslept_at = now
        self.due_at = NEVER

    @property
    def slow_until(self) -> int | None:
        """When its patience is over; None if it is not slow. It stays slow for longer if its round trips stay too long."""
        if self._slow_at is None:
            return None
        return max(self._slow_at, self._inside_since) + self._patience(self._doublings - 1)

    def _patience(self, doublings: int) -> int:
        return PATIENCE * self._longest() * 2**doublings

    def _longest(self) -> int:
        return max(self._session, self._longest_ms() * MS)

    def appended(self, took: int) -> None:
        """An append was acknowledged after so long."""
        self._append = took

    def failed(self, now: int) -> None:
        """An append has failed: for all that it knows, the ledger is out of its reach, and of the others' just as well."""
        self._inside, self._inside_since = 0, now

    def came_back(self, sent_at: int, now: int, *, held: bool, for_lost: bool) -> None:
        """A record of its own was read back. `held`: it held something while that record was on its way. `for_lost`: it was
        written for a seat that was lost to a claim before it could be led."""
        if sent_at == self._sent_at:
            return
        self.trip, self._sent_at = now - sent_at, sent_at
        if self._well_inside():
            self._inside += 1
        else:
            self._inside, self._inside_since = 0, now
        if self._short():
            self._well(now)
            return
        self._good = 0
        if not held:
            return
        if self._long_since is None:
            self._long, self._long_since = 0, sent_at
        self._long += 1
        lost = self._long > 1 and now + self.trip - self._long_since >= LOST_SESSIONS * self._session
        if lost or for_lost:
            self._lose_heart(now)

    def ran_out(self, now: int) -> None:
        """The lease ran out under a term."""
        self._ran_out_at = now
        if self.trip is None or self._well_inside():
            return
        if self._lost_lately(now):
            self._lose_heart(now)
        self._lost_at = now

    def _lost_lately(self, now: int) -> bool:
        return self._lost_at is not None and now < self._lost_at + LOSS_SESSIONS * self._longest()

    def _lose_heart(self, now: int) -> None:
        if not self.slow:
            self._slow_at = now
            self._good = self._inside = 0
            self._doublings = min(self._doublings + 1, MOST_DOUBLINGS + 1)

    def _well(self, now: int) -> None:
        self._long_since = None
        self._good += 1
        if self._slow_at is not None:
            if self.needed or self._recovered(now):
                self._slow_at, self._well_since = None, now
        elif self._doublings and now >= self._well_since + GOOD_TIMES * self._patience(self._doublings - 1):
            self._doublings, self._well_since = self._doublings - 1, now

    def _recovered(self, now: int) -> bool:
        if self._inside >= GOOD_TRIPS and now >= (self.slow_until or 0):
            return True
        first = (self._slow_at or 0) + self._patience(0)
        return self._good >= GOOD_TRIPS and now >= first and self._wanted()

    def _short(self) -> bool:
        apart = max(self._session // 4, self._append)
        return self.trip is not None and self.trip + apart <= self._lease and apart <= self._heard

    def _well_inside(self) -> bool:
        if self.trip is None:
            return False
        quarter = self._session // 4
        return 2 * max(self.trip, self._append) + quarter <= self._lease and 2 * self._append + quarter <= self._heard

    def shown(self, now: int, due_ms: int) -> bool:
        """Whether this member has shown itself, by its last round trip and not long ago, that it could lead now: the record was
        handed over so lately that nobody takes a member for overdue that writes every `due_ms`."""
        good = self._short()
        if self._doublings or self._lost_lately(now):
            good = self._inside >= GOOD_TRIPS and now >= self._inside_since + self._patience(0)
        return good and now < self._sent_at + 2 * due_ms * MS + self._session // 4

    def gap(self, least: int, most: int) -> int:
        """A few round trips: what those in line leave one another (R20)."""
        return most if self.trip is None else min(max(least, 4 * self.trip), most)
