"""How a lease of the claims protocol is prolonged: see `config.rhythm.Rhythm`."""

from __future__ import annotations

from pares.core.lease import lease_ns
from pares.runtime.config.rhythm import BEAT, LATE, SECOND, Rhythm


def rhythm(session: float, drift: float, clock_error: float) -> Rhythm:
    lease = lease_ns(int(session * 1000), drift) / SECOND
    return Rhythm(session, lease, session * BEAT, session * LATE)
