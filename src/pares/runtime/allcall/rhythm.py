"""How a lease of ALLCALL is prolonged: see `config.rhythm.Rhythm`."""

from __future__ import annotations

from typing import Final

from pares.runtime.config.protocols import LEASE_BEATS, AllCall
from pares.runtime.config.rhythm import Rhythm, milli

CALLS: Final = 10
"""Calls in a lease; and a tenth of the lease is what others wait beyond its end."""


def rhythm(session: float, drift: float, clock_error: float) -> Rhythm:
    beat = milli(session / CALLS)
    left = max(LEASE_BEATS * beat, session / 3) - beat  # when it prolongs its claim, at the latest
    how = "a lease lasts {lease:.3f} s; it is prolonged when {renewal:.3f} s of it have passed, at the latest"
    made = AllCall(heartbeat=max(0.005, beat), lease=max(0.015, session), skew=beat)
    return Rhythm(session, session, session - left, beat / 2, how, made)
