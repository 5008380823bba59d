"""What a seed of ALLCALL stands for. Lengths of time are in leases, unless their names say otherwise."""

from __future__ import annotations

from typing import Final

import msgspec

from pares.core.allcall.election import Order
from pares.sim.members.plan import Plan
from pares.sim.world.bus import Air

FAULTS: Final = (
    "crash",
    "crash_at",
    "restart",
    "half",
    "freeze",
    "freeze_at",
    "starve",
    "starve_at",
    "raise_at",
    "rate",
    "wall",
    "close",
    "ready",
    "barrier",
    "disconnect",
    "blink",
    "deaf",
    "mute",
    "one_way",
    "split",
    "outage",
    "replay",
    "garbage",
)
"""What can befall a group, apart from what the air does to single messages."""
ACTS: Final = ("step_down", "hand_over", "drain", "ask", "refused")
PROBES: Final = ("crash", "crash", "close", "step_down", "split", "join", "restart")
"""What is done in the calm, one at a time, to see how long it takes to come right."""
DAWN: Final = 0.5
"""Within so much of a lease those members begin that do not join later (`pares.sim.members.play`)."""


class AllCallPlan(Plan, frozen=True, kw_only=True):
    """One play. A session is a lease."""

    protocol: str = "allcall"
    beat_ms: int
    skew_ms: int
    picky: bool
    """Not everybody may lead every role."""
    order: Order
    isolated: tuple[str, ...]
    """What each does when it is alone."""
    dawn: float
    """When the storm begins."""
    reach: float
    """How long what is cut stays cut, in times of `Bounds.quiet`."""
    probes: tuple[str, ...]
    air: Air
    kept: bool
    """Clients keep what they can't send, and send it when they are connected again."""

    @property
    def lease_ms(self) -> int:
        return self.session_ms


def fair(air: Air) -> Air:
    """The same delays, and nothing goes wrong any more."""
    return msgspec.structs.replace(air, dropped=0.0, slow=0.0, doubled=0.0, late=0.0)
