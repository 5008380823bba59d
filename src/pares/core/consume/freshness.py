"""How a holder looks from another consumer, in the words of Marshal: fresh, unknown or stale.

Its heartbeat interval is half a session here, so that stale, twice the interval, is when others may claim (R3). Times are of
the stopwatch of the member that looks: two members may see a holder differently, and nothing is decided by these words.
"""

from __future__ import annotations

from typing import Literal

from pares.core.claims.silence import Stopwatches
from pares.core.lease import MS
from pares.core.wire.states import MemberState

Freshness = Literal["fresh", "unknown", "stale"]


def freshness(watches: Stopwatches, holder: MemberState, now: int) -> Freshness:
    """Of a holder whose records this member reads; its own are always fresh to it."""
    if holder.id == watches.me:
        return "fresh"
    left = watches.silent_at(holder) - now
    if left <= 0:
        return "stale"
    return "unknown" if left <= holder.session_ms * MS // 2 else "fresh"
