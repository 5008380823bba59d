"""How long a command may take to end: what `pares run --grace` can be, given a protocol and a session.

A lease counts from something that the holder did: from sending a beat (claims, Fast NELI), from the log's stamp on its beacon
(NELI), from a beacon's reading (NELE), from a call (ALLCALL). Until the next such thing has worked a healthy holder's deadline
draws near; TERM must not be sent in that time, and KILL must come before the deadline. What is left between is the grace.
`Rhythm` says how long each of that takes, protocol by protocol.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from pares.core.errors import ConfigError
from pares.core.lease import lease_ns
from pares.core.wire.records import MAX_SESSION_MS, MIN_SESSION_MS
from pares.runtime.config import protocols

SECOND: Final = 1_000_000_000
BEAT: Final = 1 / 4
"""Of a session: between two beats of a holder (R16)."""
LATE: Final = 1 / 8
"""Of a session, or of a threshold: how late a beat may come back without the command being ended for it."""
TICK: Final = 1 / 20
"""Of a session: how often a new deadline is passed on."""
MAX_TICK: Final = 0.25
CALLS: Final = 10
"""ALLCALL: calls in a lease; and a tenth of the lease is what others wait beyond its end."""


class Rhythm(NamedTuple):
    """What a healthy holder's deadline does, in seconds."""

    span: float
    """What the pauses of wrapper and watchdog are parts of: a session, or a threshold."""
    lease: float
    """From what a belief counts from to its end."""
    renewal: float
    """Of that, what passes until the next one counts."""
    late: float
    """... and what that may take longer."""
    how: str = "a lease lasts {lease:.3f} s from sending a beat; of that, {renewal:.3f} s pass until the next beat"
    """The first two in words."""
    protocol: protocols.Protocol = "claims"
    """What a member is made with so that this is true of it."""


def rhythm(name: protocols.ProtocolName, session: float, drift: float = 0.1, clock_error: float = 0.0) -> Rhythm:
    """How a member of this protocol holds on to what it leads, when others may take over after `session` seconds of silence.

    All that the deadline rests on stands in the settings that come with it, so that nothing is left to a default that another
    release may have otherwise. `clock_error`: of NELI, in seconds.
    """
    return _RHYTHMS[name](session, drift, clock_error)


def _claims(session: float, drift: float, _: float) -> Rhythm:
    lease = lease_ns(int(session * 1000), drift) / SECOND
    return Rhythm(session, lease, session * BEAT, session * LATE)


def _allcall(session: float, _: float, __: float) -> Rhythm:
    beat = _milli(session / CALLS)
    left = max(protocols.LEASE_BEATS * beat, session / 3) - beat  # when it prolongs its claim, at the latest
    how = "a lease lasts {lease:.3f} s; it is prolonged when {renewal:.3f} s of it have passed, at the latest"
    made = protocols.AllCall(heartbeat=max(0.005, beat), lease=max(0.015, session), skew=beat)
    return Rhythm(session, session, session - left, beat / 2, how, made)


# Imported by those that need them: the larger a process, the later its death is known (R7).


def _nele(session: float, _: float, __: float) -> Rhythm:
    from pares.core.neli.classic import BEACONS
    from pares.core.wire.neli_records import MAX_THRESHOLD_MS
    from pares.runtime.neli.settings import NELE_SESSIONS

    t = min(_milli(NELE_SESSIONS * session), MAX_THRESHOLD_MS / 1000)
    how = "a beacon that was read keeps its reader for {lease:.3f} s; of that, {renewal:.3f} s may pass until the next one"
    return Rhythm(t, t, t / BEACONS, t * LATE, how, protocols.Nele(T=t))


def _neli(session: float, drift: float, clock_error: float) -> Rhythm:
    from pares.core.neli.classic import BEACONS

    t = _milli(max(0.001, (_bound(session, drift) - clock_error) / 2))
    sure = (t - clock_error) * (1 - drift)
    how = "T, less what clocks may be off by, is {lease:.3f} s; of that, {renewal:.3f} s may pass until the next beacon"
    return Rhythm(t, sure, (t - clock_error) / BEACONS, t * LATE, how, protocols.Neli(T=t, clock_error=clock_error))


def _fast_neli(session: float, drift: float, _: float) -> Rhythm:
    from pares.core.neli.fast import BEATS

    # The share of the session that `usual_deadline_ms` says, without goNELI's limit: a longer session has room for more grace.
    deadline_ms = max(1, int(_bound(session, drift) * 1000 * min(5 / 6, 0.95 / (1 + drift))))
    lease = lease_ns(deadline_ms, drift) / SECOND
    how = "a belief lasts {lease:.3f} s from sending a beat; of that, {renewal:.3f} s may pass until the next beat"
    t = deadline_ms / 1000
    return Rhythm(t, lease, lease / BEATS, lease * LATE, how, protocols.FastNeli(heartbeat_timeout=t))


def _bound(session: float, drift: float) -> float:
    """The least after which a group may give a silent member's partitions away, in seconds."""
    return session / (1 + drift)


_RHYTHMS: Final[dict[protocols.ProtocolName, Callable[[float, float, float], Rhythm]]] = {
    "claims": _claims,
    "allcall": _allcall,
    "nele": _nele,
    "neli": _neli,
    "fast-neli": _fast_neli,
}


def _milli(seconds: float) -> float:
    """Rounded down to what settings can say."""
    return math.floor(seconds * 1000 + 1e-6) / 1000


def kill_margin(span: float) -> float:
    """Seconds before the end of the lease at which the command is killed: a killer may have to wait for a processor."""
    return 0.02 + 0.03 * span


def room(of: Rhythm) -> float:
    """The largest grace that fits, in seconds; negative when none does."""
    return of.lease - of.renewal - of.late - tick(of.span) - kill_margin(of.span)


def room_for_grace(
    session: float, drift: float = 0.1, name: protocols.ProtocolName = "claims", clock_error: float = 0.0
) -> float:
    """The largest `grace` that fits a session, both in seconds; negative when none does."""
    return room(rhythm(name, session, drift, clock_error))


def usual_grace(session: float, name: protocols.ProtocolName = "claims", clock_error: float = 0.0) -> float:
    """A fifth of the session, or what fits it where that is less."""
    fits = room_for_grace(session, name=name, clock_error=clock_error) if _possible(session) else session
    return max(0.0, min(session / 5, math.floor(fits * 1000) / 1000))


def check_grace(
    grace: float, session: float, drift: float = 0.1, name: protocols.ProtocolName = "claims", clock_error: float = 0.0
) -> None:
    """Raises `ConfigError` when a healthy holder would have to send TERM between two of its own beats."""
    if not _possible(session):
        raise ConfigError(
            f"a session of {session:g} s can't be: give {MIN_SESSION_MS / 1000:g} to {MAX_SESSION_MS / 1000:g} s"
        )
    if not grace >= 0:
        raise ConfigError(f"a grace of {grace:g} s can't be: give 0 or more")
    of = rhythm(name, session, drift, clock_error)
    fits = room(of)
    if grace <= fits:
        return
    needed = _session_for(grace, session, drift, name, clock_error)
    longer = "" if needed is None else f", {'or' if fits > 0 else 'so take'} a session of {needed:.1f} s or more"
    less = f"take a grace of {int(fits * 1000) / 1000:g} s or less" if fits > 0 else "no grace fits it"
    under = "" if name == protocols.USUAL.name else f" under protocol {name!r}"
    raise ConfigError(
        f"a grace of {grace:g} s does not fit a session of {session:g} s{under}: "
        f"{of.how.format(lease=of.lease, renewal=of.renewal)}, {of.late:.3f} s are for a late one, "
        f"{tick(of.span):.3f} s for noticing it, {kill_margin(of.span):.3f} s for killing in time, which leaves "
        f"{max(0.0, fits):.3f} s; {less}{longer}"
    )


def _possible(session: float) -> bool:
    return MIN_SESSION_MS / 1000 <= session <= MAX_SESSION_MS / 1000


def _session_for(
    grace: float, least: float, drift: float, name: protocols.ProtocolName, clock_error: float
) -> float | None:
    """The shortest session that a grace fits, and a little more; None if there is none."""
    low, high = least, MAX_SESSION_MS / 1000
    if room_for_grace(high, drift, name, clock_error) < grace:
        return None
    while high - low > 0.001:
        middle = (low + high) / 2
        low, high = (low, middle) if room_for_grace(middle, drift, name, clock_error) >= grace else (middle, high)
    rounded = math.ceil(high * 10) / 10
    return rounded if rounded <= MAX_SESSION_MS / 1000 else None


def tick(span: float) -> float:
    return min(MAX_TICK, span * TICK)


class Limits(NamedTuple):
    """What a run must keep to, in nanoseconds."""

    grace: int
    margin: int
    tick: int


def limits(span: float, grace: float) -> Limits:
    """Of a rhythm's span and a grace that `check_grace` has let through, both in seconds."""
    return Limits(int(grace * SECOND), int(kill_margin(span) * SECOND), int(tick(span) * SECOND))
