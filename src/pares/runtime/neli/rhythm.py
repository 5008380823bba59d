"""How beliefs are prolonged in NELI's family: see `config.rhythm.Rhythm`."""

from __future__ import annotations

from pares.core.lease import lease_ns
from pares.core.neli.classic import BEACONS
from pares.core.neli.fast import BEATS
from pares.core.wire.neli_records import MAX_THRESHOLD_MS
from pares.runtime.config.protocols import FastNeli, Nele, Neli
from pares.runtime.config.rhythm import LATE, SECOND, Rhythm, milli
from pares.runtime.neli.settings import NELE_SESSIONS


def nele(session: float, drift: float, clock_error: float) -> Rhythm:
    t = min(milli(NELE_SESSIONS * session), MAX_THRESHOLD_MS / 1000)
    how = "a beacon that was read keeps its reader for {lease:.3f} s; of that, {renewal:.3f} s may pass until the next one"
    return Rhythm(t, t, t / BEACONS, t * LATE, how, Nele(T=t))


def neli(session: float, drift: float, clock_error: float) -> Rhythm:
    t = milli(max(0.001, (_bound(session, drift) - clock_error) / 2))
    sure = (t - clock_error) * (1 - drift)
    how = "T, less what clocks may be off by, is {lease:.3f} s; of that, {renewal:.3f} s may pass until the next beacon"
    return Rhythm(t, sure, (t - clock_error) / BEACONS, t * LATE, how, Neli(T=t, clock_error=clock_error))


def fast_neli(session: float, drift: float, clock_error: float) -> Rhythm:
    # The share of the session that `usual_deadline_ms` says, without goNELI's limit: a longer session has room for more grace.
    deadline_ms = max(1, int(_bound(session, drift) * 1000 * min(5 / 6, 0.95 / (1 + drift))))
    lease = lease_ns(deadline_ms, drift) / SECOND
    how = "a belief lasts {lease:.3f} s from sending a beat; of that, {renewal:.3f} s may pass until the next beat"
    t = deadline_ms / 1000
    return Rhythm(t, lease, lease / BEATS, lease * LATE, how, FastNeli(heartbeat_timeout=t))


def _bound(session: float, drift: float) -> float:
    """The least after which a group may give a silent member's partitions away, in seconds."""
    return session / (1 + drift)
