"""How the deadline of a healthy holder draws near and is put off, protocol by protocol: what `pares run --grace` rests on."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from pares.runtime.config.protocols import Protocol

SECOND: Final = 1_000_000_000
BEAT: Final = 1 / 4
"""Of a session: between two beats of a holder (R16)."""
LATE: Final = 1 / 8
"""Of a session, or of a threshold: how late a beat may come back without the command being ended for it."""


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
    protocol: Protocol = "claims"
    """What a member is made with so that this is true of it."""


def milli(seconds: float) -> float:
    """Rounded down to what settings can say."""
    return math.floor(seconds * 1000 + 1e-6) / 1000
