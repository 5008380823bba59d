"""What claims promises: what all protocols do, and what only its log can show."""

from __future__ import annotations

from typing import Final

from pares.sim.members.claims.promises.agreement import Agreement
from pares.sim.members.claims.promises.challengers import Challengers
from pares.sim.members.claims.promises.giving_up import GivingUp
from pares.sim.members.claims.promises.handovers import Handovers
from pares.sim.members.claims.promises.liveness import Liveness
from pares.sim.members.claims.promises.locks import Locks
from pares.sim.members.claims.promises.many import Many
from pares.sim.members.claims.promises.movement import Movement
from pares.sim.members.claims.promises.population import Population
from pares.sim.members.claims.promises.rates import Rates, Rounds
from pares.sim.members.claims.promises.shown import Shown
from pares.sim.members.claims.promises.speed import Speed
from pares.sim.members.claims.promises.taken import Taken
from pares.sim.members.claims.promises.told import Told
from pares.sim.members.claims.records.counting import Counting
from pares.sim.members.claims.records.marks import Marks
from pares.sim.members.claims.records.outwaited import OutWaited
from pares.sim.members.claims.records.pauses import Pauses
from pares.sim.members.claims.records.seats import Seats
from pares.sim.members.claims.records.tokens import TokensInLog
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
    GivingUp,
    Tokens,
    Locks,
    Challengers,
    OutWaited,
    Shown,
    Told,
    Readiness,
    Handovers,
    Failures,
    Seats,
    Pauses,
    Marks,
    Counting,
    TokensInLog,
    Agreement,
    Speed,
    Many,
    Liveness,
    Led,
    Taken,
    Movement,
    Rates,
    Rounds,
    Population,
)
"""Those that look at beliefs come before those that look at records."""
