"""What must hold while real members are played, one file a promise. None of them knows how members work inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.sim.members.promises.base import Promise
from pares.sim.members.promises.claims import Claims
from pares.sim.members.promises.exclusive import Exclusive
from pares.sim.members.promises.failures import Failures
from pares.sim.members.promises.led import Led
from pares.sim.members.promises.locks import Locks
from pares.sim.members.promises.readiness import Readiness
from pares.sim.members.promises.terms import Terms
from pares.sim.members.promises.tokens import Tokens
from pares.sim.members.promises.work import Work

if TYPE_CHECKING:
    from pares.sim.members.stage import Stage

EVERY: tuple[type[Promise], ...] = (Exclusive, Terms, Tokens, Locks, Claims, Readiness, Work, Failures, Led)


def everything(stage: Stage) -> list[Promise]:
    return [made(stage) for made in EVERY]
