"""What claims promises: what all protocols do, and what only its log can show."""

from __future__ import annotations

from typing import Final

from pares.sim.members.claims.promises.challengers import Challengers
from pares.sim.members.claims.promises.handovers import Handovers
from pares.sim.members.claims.promises.locks import Locks
from pares.sim.members.promises.base import Promise
from pares.sim.members.promises.exclusive import Exclusive
from pares.sim.members.promises.failures import Failures
from pares.sim.members.promises.led import Led
from pares.sim.members.promises.readiness import Readiness
from pares.sim.members.promises.terms import Terms
from pares.sim.members.promises.tokens import Tokens

CLAIMS: Final[tuple[type[Promise], ...]] = (
    Exclusive,
    Terms,
    Tokens,
    Locks,
    Challengers,
    Readiness,
    Handovers,
    Failures,
    Led,
)
