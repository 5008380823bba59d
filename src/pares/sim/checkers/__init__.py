"""The promises, one file each. None of them knows how the kernel works; each says in its own words what must not be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.sim.checker import Checker
from pares.sim.checkers.agreement import Agreement
from pares.sim.checkers.counting import Counting
from pares.sim.checkers.exclusive import Exclusive
from pares.sim.checkers.led import Led, Population
from pares.sim.checkers.liveness import Liveness
from pares.sim.checkers.marks import Marks
from pares.sim.checkers.movement import Movement
from pares.sim.checkers.pauses import Pauses
from pares.sim.checkers.rates import Rates
from pares.sim.checkers.readiness import Readiness
from pares.sim.checkers.seats import Seats
from pares.sim.checkers.speed import Speed
from pares.sim.checkers.terms import Terms
from pares.sim.checkers.tokens import Tokens
from pares.sim.knobs import RARELY

if TYPE_CHECKING:
    from pares.sim.play import Play
    from pares.sim.scene import Scene


def always(scene: Scene) -> list[Checker]:
    """What must hold at every instant, whatever happens. Those that look at beliefs come before those that look at records."""
    return [
        Exclusive(scene),
        Terms(scene),
        Tokens(scene),
        Seats(scene),
        Pauses(scene),
        Marks(scene),
        Counting(scene),
        Agreement(scene),
    ]


def everything(play: Play) -> list[Checker]:
    """All promises, also those that only mean something where it is known what was done to whom."""
    found = [*always(play.scene), Speed(play), Liveness(play), Led(play), Movement(play), Rates(play)]
    found.append(Population(play, strict=bool(RARELY) or "loop" in play.knobs.faults))
    if RARELY or play.knobs.starts:
        found.append(Readiness(play.scene))
    return found
