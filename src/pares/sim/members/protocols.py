"""What can be played with real members: one row a protocol, and one for consumers, whose groups run claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from pares.core.neli.protocols import MODES
from pares.sim.members.allcall.draw import draw as draw_allcall
from pares.sim.members.allcall.mutants import MUTANTS as ALLCALL_MUTANTS
from pares.sim.members.allcall.stage import AllCallStage
from pares.sim.members.claims.stage import ClaimsStage
from pares.sim.members.consume.mutants import MUTANTS as CONSUME_MUTANTS
from pares.sim.members.consume.plan import draw as draw_consume
from pares.sim.members.consume.stage import ConsumeStage
from pares.sim.members.mutants import MUTANTS
from pares.sim.members.neli.mutants import MUTANTS as NELI_MUTANTS
from pares.sim.members.neli.plan import draw as draw_neli
from pares.sim.members.neli.stage import NeleStage, NeliStage
from pares.sim.members.plan import Plan, draw
from pares.sim.members.stage import Stage
from pares.sim.mutant import Mutant


class Played(NamedTuple):
    """`draw`: what a seed stands for, given what replaces some of it; `stage`: what that is played on; `mutants`: what can be
    broken there. Its plans say `protocol`, by which the play finds this row."""

    draw: Callable[[int, dict[str, Any] | None], Plan]
    stage: Callable[..., Stage]
    mutants: Mapping[str, Mutant]


def _neli(mode: str) -> Played:
    return Played(partial(draw_neli, mode), NeliStage if MODES[mode].exclusive else NeleStage, NELI_MUTANTS[mode])


PROTOCOLS: Final[dict[str, Played]] = {
    "claims": Played(draw, ClaimsStage, MUTANTS),
    **{mode: _neli(mode) for mode in MODES},
    "allcall": Played(draw_allcall, AllCallStage, ALLCALL_MUTANTS),
    "consume": Played(draw_consume, ConsumeStage, CONSUME_MUTANTS),
}
