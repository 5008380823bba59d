"""Mutants of how a consumer serves its partitions: each takes its turn."""

from __future__ import annotations

from typing import Any, Final

from pares.runtime.consume.feeder import Feeder
from pares.sim.members.consume.biases import AT_MOST
from pares.sim.mutant import Mutant, Patch


def _first_served_first() -> list[Patch]:
    whole = Feeder._offer  # pyright: ignore[reportPrivateUsage]

    def offer(self: Any, tenancy: Any) -> bool:
        order = list(self.tenancies)
        found = whole(self, tenancy)
        self.tenancies = {role: self.tenancies[role] for role in order}
        return found

    return [(Feeder, "_offer", offer)]


OF_SERVING: Final = (
    Mutant(
        "first-served-first",
        "C4",
        "the partition that was served is first in turn again, and with little wanted it alone is served",
        _first_served_first,
        {
            **AT_MOST,
            "faults": {"rate": 1.0},
            "acts": {},
            "members": 1,
            "records": 100.0,
            "batch": 1,
            "ahead": 0,
            "workers": 1,
            "out": 1,
            "unreadable": 0.0,
            "whole": False,
        },
    ),
)
