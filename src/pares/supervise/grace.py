"""How long a command may take to end: what `pares run --grace` can be, given a protocol and a session.

A lease counts from something that the holder did: from sending a beat (claims, Fast NELI), from the log's stamp on its beacon
(NELI), from a beacon's reading (NELE), from a call (ALLCALL). Until the next such thing has worked a healthy holder's deadline
draws near; TERM must not be sent in that time, and KILL must come before the deadline. What is left between is the grace.
`Rhythm` says how long each of that takes, protocol by protocol.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from pares.core.errors import ConfigError
from pares.core.wire.records import MAX_SESSION_MS, MIN_SESSION_MS
from pares.runtime.config import protocols
from pares.runtime.config.rhythm import SECOND, Rhythm
from pares.runtime.kits import rhythm_of

TICK: Final = 1 / 20
"""Of a session: how often a new deadline is passed on."""
MAX_TICK: Final = 0.25


def rhythm(name: protocols.ProtocolName, session: float, drift: float = 0.1, clock_error: float = 0.0) -> Rhythm:
    """How a member of this protocol holds on to what it leads, when others may take over after `session` seconds of silence.

    All that the deadline rests on stands in the settings that come with it, so that nothing is left to a default that another
    release may have otherwise. `clock_error`: of NELI, in seconds.
    """
    return rhythm_of(name)(session, drift, clock_error)


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
