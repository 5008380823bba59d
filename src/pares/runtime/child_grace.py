"""How long a command may take to end: what `pares run --grace` can be, given a session.

A lease counts from the sending of a beat. Until the next one has come back a healthy holder's deadline draws near; TERM must
not be sent in that time, and KILL must come before the deadline. What is left between is the grace.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pares.core.errors import ConfigError
from pares.core.lease import lease_ns
from pares.core.records import MAX_SESSION_MS, MIN_SESSION_MS

SECOND: Final = 1_000_000_000
BEAT: Final = 1 / 4
"""Of a session: between two beats of a holder (R16)."""
LATE: Final = 1 / 8
"""Of a session: how late a beat may come back without the command being ended for it."""
TICK: Final = 1 / 20
"""Of a session: how often a new deadline is passed on."""
MAX_TICK: Final = 0.25


def kill_margin(session: float) -> float:
    """Seconds before the end of the lease at which the command is killed: a killer may have to wait for a processor."""
    return 0.02 + 0.03 * session


def room_for_grace(session: float, drift: float = 0.1) -> float:
    """The largest `grace` that fits a session, both in seconds; negative when none does."""
    lease = lease_ns(int(session * 1000), drift) / SECOND
    return lease - session * (BEAT + LATE) - tick(session) - kill_margin(session)


def check_grace(grace: float, session: float, drift: float = 0.1) -> None:
    """Raises `ConfigError` when a healthy holder would have to send TERM between two of its own beats."""
    if not MIN_SESSION_MS / 1000 <= session <= MAX_SESSION_MS / 1000:
        raise ConfigError(
            f"a session of {session:g} s can't be: give {MIN_SESSION_MS / 1000:g} to {MAX_SESSION_MS / 1000:g} s"
        )
    if not grace >= 0:
        raise ConfigError(f"a grace of {grace:g} s can't be: give 0 or more")
    room = room_for_grace(session, drift)
    if grace <= room:
        return
    lease = lease_ns(int(session * 1000), drift) / SECOND
    per_second = room_for_grace(2.0, drift) - room_for_grace(1.0, drift)
    needed = 1.0 + (grace - room_for_grace(1.0, drift)) / per_second + 0.05
    longer = (
        f", {'or' if room > 0 else 'so take'} a session of {needed:.1f} s or more"
        if needed <= MAX_SESSION_MS / 1000
        else ""
    )
    less = f"take a grace of {int(room * 1000) / 1000:g} s or less" if room > 0 else "no grace fits it"
    raise ConfigError(
        f"a grace of {grace:g} s does not fit a session of {session:g} s: a lease lasts {lease:.3f} s from sending a "
        f"beat; of that, {session * BEAT:.3f} s pass until the next beat, {session * LATE:.3f} s are for a late one, "
        f"{tick(session):.3f} s for noticing it, {kill_margin(session):.3f} s for killing in time, which leaves "
        f"{max(0.0, room):.3f} s; {less}{longer}"
    )


def tick(session: float) -> float:
    return min(MAX_TICK, session * TICK)


class Limits(NamedTuple):
    """What a run must keep to, in nanoseconds."""

    grace: int
    margin: int
    tick: int


def limits(session: float, grace: float) -> Limits:
    """Of a session and a grace that `check_grace` has let through, both in seconds."""
    return Limits(int(grace * SECOND), int(kill_margin(session) * SECOND), int(tick(session) * SECOND))
