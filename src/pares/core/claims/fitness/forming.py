"""Whether a group that is large, or has many seats, comes together still, and whose turn it is then (R18).

What nobody has ever led can wait for those who are about to come, until nobody has come, and no role was declared, for a
quarter of a session: for `FORMING` sessions at most, for somebody may come for ever. [the first of hundreds claim everything,
place it all anew for each that comes, and hand nearly all of it over] Then the members of a large group claim their shares one
after the other, each at a moment that its id says (`first_ns`), and only after all of them, and one after the other again, what
others were to claim. [when all have had their turn, all claim at the same moment what those have left that are late]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pares.core.claims.chores.duties import EAGER, first_ns
from pares.core.claims.silence import Stopwatches
from pares.core.lease import MS
from pares.core.wire.records import Seat
from pares.core.wire.world import World

FORMING: Final = 4
"""Sessions for which seats that nobody has led wait at most."""
MANY: Final = 200
"""Seats of which a small group may have so many before it waits, too."""


def is_large(world: World) -> bool:
    """Whether placing all seats costs so much that it is better done once than at each change."""
    return len(world.members) > EAGER or len(world.seats) > MANY


class Forming:
    """One member's view of it. Times are of its own stopwatch, in nanoseconds."""

    def __init__(self, me: str, session_ms: int, watches: Stopwatches) -> None:
        self._me = me
        self._session = session_ms * MS
        self._watches = watches
        self._turn_at: int | None = None
        """When it may claim, since the group has come together; None while it has not."""
        self.all_at = 0
        """When all have had their turn, and its second one comes."""
        self._since: int | None = None
        """Since when somebody has come, or declared a role, in each quarter of a session."""

    def until(self, world: World, alive: int, free: Iterable[Seat], now: int) -> int:
        """When to look again whether it may claim what nobody has led of these seats; at most `now` if it may. That takes a
        look at the log that began when all had been still for long enough. [what a busy member has not read yet looks like
        stillness]"""
        if not is_large(world):
            self.all_at = now
            return now
        still_at = max(self._watches.joined_at, self._watches.declared_at) + self._session // 4
        if self._watches.seen_until(now) < still_at:
            self._since = now if self._since is None else self._since
            at_last = self._since + FORMING * self._session
            if now < at_last:
                self._turn_at = None
                return max(now + 1, min(still_at, at_last))
        else:
            self._since = None
        if self._turn_at is None:
            unled = sum(not world.seats[seat].token for seat in free)
            mine, most = first_ns(self._me, alive, unled, self._session // MS)
            self._turn_at, self.all_at = now + mine, now + mine + most
        return self._turn_at
