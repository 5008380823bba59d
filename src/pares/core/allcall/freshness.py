"""Which of the calls that come in are news, and which were said long ago (H16).

A client may keep what it could not send, a network may hold a message back or carry it twice. What a call says lasts from
receipt, so an old call is worse than none.

Number  Of one sender no call counts whose number is not above all that were heard of it, also when it was not heard for long.
        [a late copy would be a sign of life of somebody who has gone]
Age     A call sent longer than a lease ago, by the wall clocks, does not count.
Pace    Wall clocks may be wrong by more than a lease, and then ages are wrong too. If a sender's calls come again and again,
        for a window, each about as late as the one before, they are new, whatever the clocks say; what was kept comes all at
        once. [two whose clocks are a lease apart would be deaf to each other for ever, and both lead]
        What comes a lease later than the sender's last one is old, also if its clock is fast.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pares.core.allcall.messages import Call
from pares.core.lease import MS

_KEEP: Final = 10
"""Leases for which a silent sender is remembered: longer than any call of its may be taken for a new one."""


class Sender(Struct, gc=False):
    """What was heard of one sender."""

    n: int
    heard: int
    """When its last call was heard."""
    late: int
    """Own stopwatch less its wall clock, in ms, at its last call: no time, but it stays about the same."""
    at: int
    since: int
    """From when on calls have come at one pace, and when the last of them did."""


class Hearing:
    """All that one member hears. `lease` and `window` in nanoseconds."""

    def __init__(self, lease: int, window: int) -> None:
        self._lease, self._window = lease, window
        self._senders: dict[str, Sender] = {}

    def news(self, call: Call, now: int, wall_ms: int) -> bool:
        """Whether the call counts; it is remembered."""
        late = now // MS - call.s
        known = self._senders.get(call.m)
        if known is None:
            self._forget(now)
            self._senders[call.m] = known = Sender(0, now, late, now, now)
        elif call.n <= known.n:
            return False
        known.n, known.heard = call.n, now
        return not self._too_old(call, known, late, now, wall_ms)

    def off_s(self, call: Call, wall_ms: int) -> int:
        """By how many seconds the sender's wall clock is wrong, or one's own, if it is more than a lease."""
        off = wall_ms - call.s
        return -off // 1000 if abs(off) * MS > self._lease else 0

    def _too_old(self, call: Call, known: Sender, late: int, now: int, wall_ms: int) -> bool:
        age = (wall_ms - call.s) * MS
        later = (late - known.late) * MS
        if abs(later) > self._window // 4 or now > known.at + 3 * self._window // 5:
            known.since = now
        known.late, known.at = late, now
        if age > self._lease:
            return now < known.since + self._window
        return age < -self._lease and later > self._lease

    def _forget(self, now: int) -> None:
        for member in [m for m, sender in self._senders.items() if now > sender.heard + _KEEP * self._lease]:
            del self._senders[member]
