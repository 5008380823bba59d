"""What ALLCALL promises, one file a promise; those of all protocols are in `pares.sim.members.promises`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pares.sim.members.allcall.promises.alike import OneGoesOn
from pares.sim.members.allcall.promises.alone import Alone
from pares.sim.members.allcall.promises.emergence import Emergence
from pares.sim.members.allcall.promises.endings import NoGap, Planned
from pares.sim.members.allcall.promises.honoured import Honoured
from pares.sim.members.allcall.promises.membership import Membership
from pares.sim.members.allcall.promises.one_side import OneSide
from pares.sim.members.allcall.promises.questions import Questions
from pares.sim.members.allcall.promises.settled import Settled
from pares.sim.members.allcall.promises.silence import Silence
from pares.sim.members.allcall.promises.tokens import Tokens
from pares.sim.members.allcall.promises.traffic import Traffic
from pares.sim.members.allcall.promises.work import Loops, Releases
from pares.sim.members.promises.failures import Failures
from pares.sim.members.promises.readiness import Readiness
from pares.sim.members.promises.terms import Terms

PROMISED: Final[tuple[Callable[[Any], Any], ...]] = (
    OneSide,
    Emergence,
    Honoured,
    Tokens,
    Silence,
    Alone,
    NoGap,
    Planned,
    OneGoesOn,
    Membership,
    Traffic,
    Settled,
    Terms,
    Readiness,
    Questions,
    Releases,
    Failures,
    Loops,
)
