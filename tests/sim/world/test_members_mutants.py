"""Every defect planted in the runtime that ships is noticed: by the seed that stands here, or in the history that is struck."""

from __future__ import annotations

import pytest
from tests.oracles.mutants import broken, seeds

from pares.sim.engine import MS
from pares.sim.members.exhaust import Struck, short
from pares.sim.members.mutants import MUTANTS
from pares.sim.mutant import applied
from pares.sim.world.faults import Strike

CAUGHT = seeds("claims")
STRUCK: dict[str, tuple[str, range, int, str]] = {
    "lapses-are-kept": ("lock", range(60, 72), 25, "somebody leads in the end"),
    "term-ends-before-its-deadline-goes": ("notify", range(1, 5), 5, "giving up is final"),
}
"""Calls of a kind, from one of which a task comes back so many milliseconds late."""


def test_every_mutant_has_its_seed() -> None:
    assert {*CAUGHT, *STRUCK} == set(MUTANTS)


@pytest.mark.parametrize("name", STRUCK)
def test_the_mutant_is_caught_in_the_history_that_is_struck(name: str) -> None:
    def found() -> list[str]:
        strikes = (Strike("starve", call, kind, length=ms * MS) for call in calls)
        return [run.broken for strike in strikes if (run := Struck(short(), strike, leaves=False)).broken]

    kind, calls, ms, promise = STRUCK[name]
    assert found() == []
    with applied(MUTANTS[name]):
        assert any(promise in what for what in found())


@pytest.mark.parametrize("name", CAUGHT)
def test_the_mutant_is_caught_and_without_it_the_seed_is_clean(name: str) -> None:
    seed = CAUGHT[name]
    assert broken("claims", name, seed), f"look for another: python -m tests.oracles --record mutants.txt (was {seed})"
