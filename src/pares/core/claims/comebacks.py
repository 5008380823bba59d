"""How long others were silent that came back, of late: what a silence is worth as a sign of death (R20).

A member that is dead never writes again. Where a machine, or a ledger, is too slow for its members, many are silent for a
while and write again; so each that comes back shows how long a silence may be there that means nothing. [on such a machine
all but a few are silent when hundreds start, those few have them forgotten, and each that is forgotten begins anew, and makes
the machine slower] In a crash loop nobody comes back.

A silence counts up to the last look at the log that found nothing of that member: [a member that stood still itself takes all
others for silent] its own standstill makes nobody silent. Nothing here matters to safety: it decides when the group gives up
members that hold nothing.
"""

from __future__ import annotations

from typing import Final

from pares.core.lease import MS

HEEDED: Final = 16
"""Sessions, of the one that came back, for which its silence is heeded."""


class Comebacks:
    """Those that one member has read of. Times are of its own stopwatch, in nanoseconds."""

    def __init__(self) -> None:
        self._silences: list[tuple[int, int]] = []
        """How long each was, longest first, and up to when it is heeded; none that was over before a longer one."""

    def note(self, silence: int, now: int, session_ms: int) -> None:
        """Somebody was silent for so long, and has written again."""
        self._silences = [found for found in self._silences if found[0] > silence]
        self._silences.append((silence, now + HEEDED * session_ms * MS))

    def longest(self, now: int) -> int:
        """The longest silence that is heeded; 0 if there is none."""
        self._silences = [found for found in self._silences if now < found[1]]
        return self._silences[0][0] if self._silences else 0
