"""When a member of a large group looks at all that it might do (R21).

A look costs a member the more, the larger the group is; and what one member does has all the others look again. Where hundreds
act at once, looks are what keeps the machine busy. So in a group of more than `EAGER`

* a change of the world is a reason to look, and a time that the last look has named; without a reason there is a look with each
  beat, and a quarter of a session after the last; [nothing is read of a member that has died, and it goes unnoticed]
* there are two looks in a quarter of a session, and one in a session where this member is late (R18): the first of a burst of
  changes is answered at once, and the last one finds all that the others have brought; [of a thousand claims each has each of a
  hundred members look]
* what others wait for does not wait: requests of users, proven deaths, terms to give up, records of unknown outcome.

Beats and news are written in between, when they are due. A beat goes before the look that comes with it: it is read back with
all that stands before it, and the look knows that. So a member at rest reads once a beat, looks then, and wakes for nothing
else. [it wakes for a beat, for a look, and to read, each at another time] A beat that is late goes before any look. In a
smaller group each tick is a look.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pares.core.lease import MS

APART: Final = 4
"""Parts of a session in which a member that is not late looks twice at most, and once at least."""
BEAT_APART: Final = 7 / 32
"""Of a session: so long after a look a beat that was read back leads to the next one. That is less than what lies between
beats, as some come a little early. (If one comes earlier still, there is no look before the next one.)"""


class Looks:
    """One member's. Times are of its own stopwatch, in nanoseconds."""

    def __init__(self, session_ms: int) -> None:
        self._session = session_ms * MS
        self._last: tuple[int, int] | None = None
        """When it looked last, and the time before that."""
        self._named: int | None = None
        self._shape = -1
        self.late = False
        """Whether this member was late when it looked last."""

    def due(self, now: int, shape: int, said_at: int = 0) -> bool:
        """Whether it is time for a look, in a world of this shape. `said_at`: when it wrote last."""
        if self._last is None:
            return True
        last = self._last[0]
        calm = last + (int(self._session * BEAT_APART) if said_at > last else self._session // APART)
        return self.has_reason(now, shape) or (now >= calm and now >= self._may())

    def has_reason(self, now: int, shape: int) -> bool:
        """Whether a look is due that no beat goes before, unless it is late."""
        return self._last is None or any(now >= at for at in self.wakes(shape))

    def lets_beat(self, now: int, shape: int, said_at: int, *, late: bool) -> bool:
        """Whether a look lets a beat that is due go first. `said_at`: when this member wrote last; `late`: the beat is late,
        and goes before any look, but one look goes between two beats. [where each takes longer than it is to the next, this
        member never looks]"""
        if self._last is None:
            return False
        last = self._last[0]
        if self.has_reason(now, shape):
            return late and last >= said_at
        return now < last + (self._session if self.late else self._session // 2)

    def wakes(self, shape: int) -> list[int]:
        """When there is reason for the next one, if there is any."""
        reason = 0 if shape != self._shape else self._named
        return [] if reason is None else [max(reason, self._may())]

    def _may(self) -> int:
        """When it may look again."""
        if self._last is None:
            return 0
        last, before = self._last
        return last + self._session if self.late else before + self._session // APART

    def looked(self, now: int, shape: int, named: Iterable[int], *, late: bool) -> None:
        """A look was made, and named these times to look again."""
        self._last = (now, now - self._session if self._last is None else self._last[0])
        self._named, self._shape, self.late = min(named, default=None), shape, late
