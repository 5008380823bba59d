"""How many seats a member claims at once, where its machine or its ledger may be too slow for more (R18).

Each claim, and what follows from it, costs every member of the group a little. Where members are as slow as their session
just allows, a burst of claims makes all of them too slow: leases run out, what is lost is claimed again at once, and that is
the next burst. So a member whose last round trip was not well inside its lease, and one that has just lost a lease, begins
with a small part of its fair share a session, and takes twice as much after each session in which its trips were well inside;
until that is everything there is. Members of a group as small as `EAGER` are not enough to do that to one another.
[a machine that is too slow for a moment keeps a large group busy with itself for ever: each session a thousand terms begin
and run out]
"""

from __future__ import annotations

from typing import Final

from pares.core.claims.fitness.pace import Pace
from pares.core.lease import MS

FIRST_PART: Final = 8
"""The part of its share with which it begins: one by this."""


class Appetite:
    """One member's. Times are of its own stopwatch, in nanoseconds."""

    def __init__(self, session_ms: int, pace: Pace) -> None:
        self._session = session_ms * MS
        self._pace = pace
        self._doublings: int | None = None
        """How often it took twice as much since it began with little; None: it takes what there is."""
        self._since = 0
        """When this session of its began, and how much it has taken in it."""
        self._taken = 0

    def left(self, now: int, share: int, seats: int, *, late: bool) -> int:
        """How many more it may claim now. `share`: seats, of so many, that each would hold if all that are in the group lived;
        `late`: its own record was overdue lately."""
        if late or not self._pace.unhurried(now, self._session):
            if self._doublings != 0 or now >= self.more_at:
                self._begin(0, now)
        elif self._doublings is None:
            return seats
        elif now >= self.more_at:
            self._begin(self._doublings + 1, now)
        part = (share << (self._doublings or 0)) // FIRST_PART
        if part >= seats:
            self._doublings = None
            return seats
        return max(0, max(1, part) - self._taken)

    def _begin(self, doublings: int, now: int) -> None:
        self._doublings, self._since, self._taken = doublings, now, 0

    @property
    def more_at(self) -> int:
        """When it may claim more."""
        return self._since + self._session

    def took(self, count: int) -> None:
        self._taken += count
