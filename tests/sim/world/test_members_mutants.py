"""Every defect planted in the runtime that ships is noticed: by the seed that stands here, or in the history that is struck."""

from __future__ import annotations

import pytest

from pares.sim.engine import MS
from pares.sim.members.exhaust import Struck, short
from pares.sim.members.mutants import MUTANTS
from pares.sim.members.play import perform
from pares.sim.mutants.base import applied
from pares.sim.world.faults import Strike

CAUGHT: dict[str, tuple[int, str]] = {
    "believes-while-failing": (18, "beliefs end before locks"),
    "renewal-revives": (115, "giving up is final"),
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
    "anchor-not-read": (15, "tokens grow"),
    "one-term-is-prolonged": (5, "it goes on"),
}
STRUCK: dict[str, tuple[str, range, int, str]] = {
    "lapses-are-kept": ("lock", range(60, 72), 25, "somebody leads in the end"),
    "term-ends-before-its-deadline-goes": ("notify", range(1, 5), 5, "giving up is final"),
}
"""Calls of a kind, from one of which a task comes back so many milliseconds late."""


def test_every_mutant_has_its_seed() -> None:
    assert {*CAUGHT, *STRUCK} == set(MUTANTS)


@pytest.mark.parametrize("name", STRUCK)
def test_the_mutant_is_caught_in_the_history_that_is_struck(name: str) -> None:
    def broken() -> list[str]:
        strikes = (Strike("starve", call, kind, length=ms * MS) for call in calls)
        return [run.broken for strike in strikes if (run := Struck(short(), strike, leaves=False)).broken]

    kind, calls, ms, promise = STRUCK[name]
    assert broken() == []
    with applied(MUTANTS[name]):
        assert any(promise in what for what in broken())


@pytest.mark.parametrize("name", CAUGHT)
def test_the_mutant_is_caught_and_without_it_the_seed_is_clean(name: str) -> None:
    mutant = MUTANTS[name]
    seed, promise = CAUGHT[name]
    with applied(mutant):
        broken = perform(seed, mutant.bias)
    assert broken.broken == promise, broken.what
    clean = perform(seed, mutant.bias)
    assert clean.what == ""
