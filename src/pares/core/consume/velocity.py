"""Whether the work on a partition keeps up (C7), told by a look now and then: where the position is, and where the end.

A look is bad when there is work waiting and no hope: the position moves no faster than the end, and two more looks at its rate
would not bring it to where the end is now. Three bad looks in a row are too many. Three looks in a row without any movement,
with work waiting, are too many whatever the end does.

What breaks with less: a consumer that has begun with a long backlog is far behind and catches up, so the distance alone says
nothing; and one slow batch makes one bad look.
"""

from __future__ import annotations

from typing import Final

from pares.core.reasons import BEHIND, STUCK

STRIKES: Final = 3
"""Bad looks in a row that are too many."""


class Velocity:
    """Of one term. `look` says what is wrong, "" if nothing is."""

    def __init__(self) -> None:
        self._before: tuple[int, int] | None = None
        self.behind = 0
        """Bad looks in a row."""
        self.still = 0
        """Looks in a row without movement, though work was waiting."""
        self.consumed = self.produced = 0
        """How far position and end had moved at the last look."""

    def look(self, position: int, end: int) -> str:
        before, self._before = self._before, (position, end)
        if before is None:
            return ""
        self.consumed, self.produced = max(0, position - before[0]), max(0, end - before[1])
        waiting = end - position
        waited = before[1] > before[0]
        """There was work at the look before, too: what came only now may not have been seen yet."""
        self.still = self.still + 1 if waiting > 0 and waited and self.consumed == 0 else 0
        hopeless = self.consumed <= self.produced and waiting > 2 * self.consumed
        self.behind = self.behind + 1 if waiting > 0 and waited and hopeless else 0
        if self.still >= STRIKES:
            return STUCK
        return BEHIND if self.behind >= STRIKES else ""
