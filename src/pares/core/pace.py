"""What a member's own round trips say about whether it can lead (R18).

A *round trip* is the time from handing a record over to having read it back. A belief begins when a record is read back and
ends a lease after that record was handed over (R4); and records follow one another a quarter of a session apart, or as far
apart as an append takes, if that is longer. So a trip is *short enough* when it and that distance fit into the lease: then
the next record is back before the lease of this one is over. With longer trips a holder never believes, or loses each term
that it begins.

**R18 Who can't lead lets go.** A holder whose trips have been too long, one after the other, for two of its sessions (the
one that is about to begin counted as long as the last), is *slow*; so is a member that lost a seat to a claim before it
could believe for the first time, when the record that it wrote for that seat comes back too late. A slow member gives up
what it holds (why: slow) and says that it is not ready (R19), until its patience is over and three trips in a row were
short enough. The patience is two sessions, and twice as long each time, up to 256; after a good time of eight times its
length it shrinks by one step. [a slow member that lives keeps a role for ever and never leads it; without the memory it
takes the role back at once, for its rank, without end] Where nobody else could lead, patience serves nobody: there the first
short trip will do, and the member writes as often as a holder, to make one. [a ledger that was slow for all leaves nobody
ready when it is well again]

One long trip says nothing: a process that was stopped, and a ledger that was out of reach, make one, and the next one is short.
Nothing here matters to safety: it decides when a member lets go, and when it wants to be given things.
"""

from __future__ import annotations

from typing import Final

from pares.core.lease import MS

LOST_SESSIONS: Final = 2
"""Sessions without a belief after which a holder lets go."""
PATIENCE: Final = 2
"""Sessions for which it is not ready, the first time."""
MOST_DOUBLINGS: Final = 7
GOOD_TRIPS: Final = 3
"""Trips in a row that were short enough, before it is ready again."""
GOOD_TIMES: Final = 8
"""Patiences of good time after which the next patience is half as long."""


class Pace:
    """One member's round trips, newest last. Times are of its own stopwatch, in nanoseconds."""

    def __init__(self, session_ms: int, lease_ns: int) -> None:
        self._session = session_ms * MS
        self._lease = lease_ns
        self._append = 0
        """How long the last append took."""
        self.trip: int | None = None
        """The last round trip."""
        self._sent_at = -1
        self._long_since: int | None = None
        """When the first of the long trips was handed over, of those in a row that hindered it in holding something."""
        self._long = self._good = 0
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
    def slow_until(self) -> int | None:
        """When its patience is over; None if it is not slow. It stays slow for longer if its round trips stay too long."""
        return None if self._slow_at is None else self._slow_at + self._patience(self._doublings - 1)

    def _patience(self, doublings: int) -> int:
        return PATIENCE * self._session * 2**doublings

    def appended(self, took: int) -> None:
        """An append was acknowledged after so long."""
        self._append = took

    def came_back(self, sent_at: int, now: int, *, held: bool, for_lost: bool) -> None:
        """A record of its own was read back. `held`: it held something while that record was on its way. `for_lost`: it was
        written for a seat that was lost to a claim before it could be led."""
        if sent_at == self._sent_at:
            return
        self.trip, self._sent_at = now - sent_at, sent_at
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
        if (lost or for_lost) and not self.slow:
            self._slow_at = now
            self._doublings = min(self._doublings + 1, MOST_DOUBLINGS + 1)

    def _well(self, now: int) -> None:
        self._long_since = None
        self._good += 1
        if self._slow_at is not None:
            if self.needed or (now >= (self.slow_until or 0) and self._good >= GOOD_TRIPS):
                self._slow_at, self._well_since = None, now
        elif self._doublings and now >= self._well_since + GOOD_TIMES * self._patience(self._doublings - 1):
            self._doublings, self._well_since = self._doublings - 1, now

    def _short(self) -> bool:
        return self.trip is not None and self.trip + max(self._session // 4, self._append) <= self._lease

    def shown(self, now: int, due_ms: int) -> bool:
        """Whether this member has shown itself, by its last round trip and not long ago, that it could lead now: the record was
        handed over so lately that nobody takes a member for overdue that writes every `due_ms`."""
        return self._short() and now < self._sent_at + 2 * due_ms * MS + self._session // 4

    def gap(self, least: int, most: int) -> int:
        """A few round trips: what those in line leave one another (R20)."""
        return most if self.trip is None else min(max(least, 4 * self.trip), most)
