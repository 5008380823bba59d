"""Whether a group that is large, or has many seats, comes together still (R18).

What nobody has ever led can wait for those who are about to come, until nobody has come, and no role was declared, for a
quarter of a session: for `FORMING` sessions at most, for somebody may come for ever. [the first of hundreds claim everything,
place it all anew for each that comes, and hand nearly all of it over]
"""

from __future__ import annotations

from typing import Final

from pares.core.claims.duties import EAGER
from pares.core.claims.silence import Stopwatches
from pares.core.lease import MS
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

    def __init__(self, session_ms: int, watches: Stopwatches) -> None:
        self._session = session_ms * MS
        self._watches = watches
        self._since: int | None = None
        """Since when somebody has come, or declared a role, in each quarter of a session."""

    def until(self, world: World, now: int) -> int:
        """When to look again whether it has come together; at most `now` if it has. That takes a look at the log that began
        when all had been still for long enough. [what a busy member has not read yet looks like stillness]"""
        if not is_large(world):
            return now
        still_at = max(self._watches.joined_at, self._watches.declared_at) + self._session // 4
        if self._watches.seen_until(now) >= still_at:
            self._since = None
            return now
        self._since = now if self._since is None else self._since
        at_last = self._since + FORMING * self._session
        return now if now >= at_last else max(now + 1, min(still_at, at_last))
