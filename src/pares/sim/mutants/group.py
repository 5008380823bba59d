"""Mutants of what members do for each other: obituaries (R7), placement (R13), rates (R16)."""

from __future__ import annotations

from typing import Any, Final

from pares.core import living
from pares.core.placement import _Placement  # pyright: ignore[reportPrivateUsage]
from pares.sim.mutants.base import Mutant, Patch


def _obituary_without_proof() -> list[Patch]:
    bury = living.Living._bury  # pyright: ignore[reportPrivateUsage]

    def guess(self: living.Living, now: int) -> None:
        """Overdue is taken for dead."""
        world = self.reader.world
        self._dead |= {  # pyright: ignore[reportPrivateUsage]
            id: 0 for id, m in world.members.items() if id not in self.moves.alive and m.lock is not None
        }
        bury(self, now)

    return [(living.Living, "_bury", guess)]


def _everything_moves() -> list[Patch]:
    """Seats are dealt out anew at every change, instead of moving the surplus."""
    keeps = _Placement._keeps  # pyright: ignore[reportPrivateUsage]

    def dealt(self: _Placement, seat: Any) -> bool:
        return seat.pinned and keeps(self, seat)

    return [(_Placement, "_keeps", dealt)]


def _no_budget() -> list[Patch]:
    def careless(world: Any, me: str, session_ms: int) -> int:
        return max(1, session_ms // 4) if world.held.get(me) else session_ms

    return [(living, "beat_ms", careless)]


GROUP: Final = (
    Mutant(
        "obituary-without-proof",
        "R7",
        "who is overdue is declared dead",
        _obituary_without_proof,
        {"faults": {"freeze": 1.0}, "proof": True, "overlap_ms": 0},
    ),
    Mutant(
        "everything-moves",
        "R13",
        "placement moves more than the surplus",
        _everything_moves,
        {
            "faults": {"late_joiner": 1.0, "crash": 1.0},
            "acts": {},
            "seats": (1,) * 6,
            "members": 5,
            "roles": 6,
            "ranks": False,
            "weights": False,
            "picky": False,
            "hosts": 0,
            "pace": 0.2,
        },
    ),
    Mutant(
        "no-budget",
        "R16",
        "standbys beat as often as they like",
        _no_budget,
        {
            "faults": {"late_joiner": 1.0},
            "acts": {},
            "members": 8,
            "roles": 1,
            "seats": (1,),
            "session_ms": 20,
            "sessions": (20,) * 8,
            "storm": 100.0,
            "pace": 0.01,
        },
    ),
)
