"""Mutants of the loop around the kernel, as the simulated process has it: what it does with clocks, renewals and the log."""

from __future__ import annotations

from typing import Any, Final

from pares.core.events import Extend
from pares.sim.mutant import Mutant, Patch
from pares.sim.mutants.beliefs import FROZEN
from pares.sim.process import CARRY, Process
from pares.sim.wire import Wire


def _revives() -> list[Patch]:
    def anyway(self: Process, effect: Extend) -> None:
        for seat in self.beliefs:
            self.until[seat] = effect.until
        self.scene.renewed(self)

    return [(CARRY, Extend, anyway)]  # type: ignore[list-item]


def _judged_before_the_fetch() -> list[Patch]:
    return [(Process, "_judged", lambda self, began: began)]


def _anchor_not_read() -> list[Patch]:
    """After an outage the last entry is not read again: a log of the same name that has grown as long is read on."""
    jumped = Wire.jumped

    def trusting(self: Wire, position: int, anchor: Any) -> str:
        self.suspect = False
        return jumped(self, position, anchor)

    return [(Wire, "jumped", trusting)]


LOOP: Final = (
    Mutant(
        "revives-what-ran-out",
        "R4",
        "a renewal does not look whether the belief had run out",
        _revives,
        {**FROZEN, "faults": {"freeze_inside": 1.0}},
    ),
    Mutant(
        "judged-before-the-fetch",
        "R4",
        "what was read is judged by a stopwatch that was read before the fetch",
        _judged_before_the_fetch,
        {**FROZEN, "faults": {"freeze_fetch": 3.0, "freeze": 1.0, "freeze_inside": 1.0}, "pace": 2.5},
    ),
    Mutant(
        "anchor-not-read",
        "R12",
        "the last entry is not read again after an outage",
        _anchor_not_read,
        {
            "faults": {"replace": 2.0, "deaf": 2.0, "cut": 2.0},
            "acts": {},
            "pace": 1.5,
            "cut": 25.0,
            "storm": 40.0,
            "members": 3,
            "roles": 1,
            "proof": False,
        },
    ),
)
