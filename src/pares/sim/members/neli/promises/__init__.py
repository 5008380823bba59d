"""What must hold while members of these protocols are played: those of all members (`members.promises`), and their own."""

from __future__ import annotations

from typing import Final

from pares.sim.members.claims.promises.challengers import Challengers
from pares.sim.members.claims.promises.locks import Locks
from pares.sim.members.neli.promises.budget import Budget
from pares.sim.members.neli.promises.emergence import Emergence
from pares.sim.members.neli.promises.failures import NeliFailures
from pares.sim.members.neli.promises.gap import NoGap
from pares.sim.members.neli.promises.led import NeliLed
from pares.sim.members.neli.promises.overlap import Overlap
from pares.sim.members.neli.promises.readiness import NeliReadiness
from pares.sim.members.neli.promises.tokens import NeliTokens
from pares.sim.members.neli.promises.work import NeliWork
from pares.sim.members.promises.base import Promise
from pares.sim.members.promises.exclusive import Exclusive
from pares.sim.members.promises.terms import Terms

OF_ALL: Final[tuple[type[Promise], ...]] = (
    Exclusive,
    Terms,
    NeliTokens,
    Locks,
    Challengers,
    NeliReadiness,
    NeliWork,
    NeliFailures,
    NeliLed,
    Emergence,
    Budget,
)
OF_NELE: Final[tuple[type[Promise], ...]] = (Overlap, NoGap)
