"""How long a driver waits for a bell before it looks without one (R21).

A bell that was seen to ring is trusted, and a look a quarter of a session apart finds out when it has died: so an idle member
wakes a few times a session, however long that is. Until a bell was seen to ring, and after something was found that should
have rung and has not, looks are more frequent at first, then twice as far apart each time. Where there is no bell they are
in proportion to the session: what others write waits for the next one.
"""

from __future__ import annotations

from typing import Final

UNSEEN: Final = 0.1
"""Seconds until the first look while the bell was not seen to ring."""
BELL_LESS: Final = 100
"""Looks a session where there is no bell, but never less than `SHORTEST` nor more than `LONGEST` apart."""
SHORTEST: Final = 0.005
LONGEST: Final = 0.05
NOTHING_THERE: Final = 60.0
"""Seconds, where there is no log to look at."""


def without_bell(session_ms: int) -> float:
    """Seconds from one look to the next where nothing rings."""
    return min(max(session_ms / 1000 / BELL_LESS, SHORTEST), LONGEST)


class Polling:
    """Of one driver. `listens`: whether the log has a bell; None where there is no log."""

    def __init__(self, listens: bool | None) -> None:
        self._listens = listens
        self.trusted = False
        """The bell was seen to ring, and has not failed since."""
        self._pause = UNSEEN

    def waited(self, *, rang: bool, found: bool) -> None:
        """After a wait, and the look that followed it: whether the bell had ended that wait, and whether something was found
        for which it ought to have rung."""
        if rang:
            self.trusted = True
        elif found:
            self.trusted, self._pause = False, UNSEEN
        else:
            self._pause = min(2 * self._pause, NOTHING_THERE)

    def patience(self, session_ms: int, *, unread: bool = False) -> float:
        """Seconds to wait at most. `unread`: what this member wrote itself is still to be read."""
        if self._listens is None:
            return NOTHING_THERE
        if unread or not self._listens:
            return without_bell(session_ms)
        quarter = session_ms / 4000
        return quarter if self.trusted else min(self._pause, quarter)
