"""Mutants of what is placed from how many seats each member holds (R13, R23)."""

from __future__ import annotations

from typing import Any, Final

from pares.core.claims.placing.targets import Alike
from pares.core.wire.derived.vacant import Vacant
from pares.sim.mutant import Mutant, Patch


def _alike_never_moves() -> list[Patch]:
    """Where all are alike nothing is moved for balance."""
    begin = Alike.__init__

    def even(self: Alike, *args: Any) -> None:
        begin(self, *args)
        self._takers = {}  # pyright: ignore[reportPrivateUsage]

    return [(Alike, "__init__", even)]


def _vacant_unnoticed() -> list[Patch]:
    """What has changed since a world was loaded, or begun, does not change which seats are free."""
    return [(Vacant, "changed", lambda self, keys: None)]


VACANCIES: Final = (
    Mutant(
        "alike-never-moves",
        "R13",
        "where roles and members are alike, nothing is moved for balance",
        _alike_never_moves,
        {
            "acts": {},
            "barrier_raises": 0.0,
            "burden_us": 0,
            "calm": 16.0,
            "eligible": (),
            "faults": {"crash": 1.0},
            "members": 3,
            "ranks": (),
            "roles": 6,
            "seats": 1,
            "slow": (),
            "starts": (False,) * 3,
            "warm": (),
            "weights": (),
            "zones": False,
        },
    ),
    Mutant(
        "vacant-unnoticed",
        "R23",
        "which seats are free is found out once",
        _vacant_unnoticed,
        {"faults": {"crash": 1.0}, "acts": {}, "seats": 1, "members": 3, "roles": 3},
    ),
)
