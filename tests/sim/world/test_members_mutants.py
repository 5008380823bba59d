"""Every defect planted in the runtime that ships is noticed by the seed that stands here, and by that seed alone for its sake."""

from __future__ import annotations

import pytest

from pares.sim.members.mutants import MUTANTS
from pares.sim.members.play import perform
from pares.sim.mutants.base import applied

CAUGHT: dict[str, tuple[int, str]] = {
    "believes-while-failing": (0, "beliefs end before locks"),
    "renewal-revives": (17, "giving up is final"),
    "lock-not-looked-at": (0, "beliefs end before locks"),
    "stop-does-not-last": (19, "giving up is final"),
    "barrier-returns-early": (2, "work belongs to its term"),
    "callback-not-awaited": (1, "work belongs to its term"),
    "read-judged-by-an-old-clock": (5, "exclusive belief"),
    "tick-before-read": (1, "a challenger looks once more"),
    "follow-leaves-the-deadline": (0, "giving up is final"),
    "work-beside-the-barrier": (1, "work belongs to its term"),
    "lock-before-beliefs": (0, "beliefs end before locks"),
    "unready-is-ready": (0, "an unready member leads nothing"),
    "anchor-not-read": (10, "exclusive belief"),
    "one-term-is-prolonged": (28, "roles are led"),
}


def test_every_mutant_has_its_seed() -> None:
    assert set(CAUGHT) == set(MUTANTS)


@pytest.mark.parametrize("name", MUTANTS)
def test_the_mutant_is_caught_and_without_it_the_seed_is_clean(name: str) -> None:
    mutant = MUTANTS[name]
    seed, promise = CAUGHT[name]
    with applied(mutant):
        broken = perform(seed, mutant.bias)
    assert broken.broken == promise, broken.what
    clean = perform(seed, mutant.bias)
    assert clean.what == ""
