"""Which of the calls that come in are new, and which were sent long ago (H16).

A client may keep what it could not send; a network may hold a message back, or carry it twice. A receiver counts the claims in
a call from when it receives the call, so an old call is worse than none.

Number  A call counts only if its number is above all numbers heard of its sender, however long ago.
        [a late copy would be a sign of life of a member that has gone]
Age     A call that was sent longer than a lease ago, by the wall clocks, does not count.
Pace    Wall clocks may be wrong by more than a lease, and then ages are wrong too. So if a sender's calls have come for a
        window, each about as late as the one before, they are new, whatever the clocks say: calls that were kept come all at
        once. [two members whose clocks are a lease apart would be deaf to each other for ever, and both lead] If the sender's
        clock is fast, a call that comes more than a lease later than the one before is old all the same.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pares.core.allcall.messages import Call
from pares.core.lease import MS

_KEEP: Final = 10
"""Leases for which a silent sender is remembered: longer than an old call of its could still be taken for a new one."""


class Sender(Struct, gc=False):
    """What was heard of one sender."""

    n: int
    heard: int
    """When its last call was heard."""
    late: int
    """The receiver's stopwatch less the sender's wall clock, in ms, at the last call. It means nothing by itself, but it hardly
    changes from call to call."""
    at: int
    """When the last call came that was looked at for its pace."""
    since: int
    """Since when its calls have come at one pace."""


class Hearing:
    """All that one member hears. `lease` and `window` in nanoseconds."""

    def __init__(self, lease: int, window: int) -> None:
        self._lease, self._window = lease, window
        self._senders: dict[str, Sender] = {}

    def news(self, call: Call, now: int, wall_ms: int) -> bool:
        """Whether the call counts. Remembers it."""
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
        """By how many seconds the sender's wall clock is ahead of the receiver's (below 0: behind), if by more than a lease;
        else 0."""
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
