"""Every defect planted in the runtime that ships is noticed: by the seed that stands here, or in the history that is struck."""

from __future__ import annotations

import pytest

from pares.sim.engine import MS
from pares.sim.members.exhaust import Struck, short
from pares.sim.members.mutants import MUTANTS
from pares.sim.members.play import UNSTOPPABLE, perform
from pares.sim.mutants.base import applied
from pares.sim.world.faults import Strike

CAUGHT: dict[str, int] = {
    "removal-frees": 0,
    "forgotten-before-its-end": 1,
    "old-lock-kept": 0,
    "claimable-at-once": 1,
    "challenger-waits-too-short": 2,
    "lease-longer-than-session": 2,
    "believes-until-released": 5,
    "believes-again": 6,
    "believes-after-leave": 7,
    "session-that-changes": 2,
    "name-is-enough": 0,
    "sent-when-acknowledged": 21,
    "barrier-of-any-term": 0,
    "believes-while-failing": 18,
    "revives-what-ran-out": 115,
    "lock-not-looked-at": 0,
    "stop-does-not-last": 19,
    "barrier-returns-early": 2,
    "callback-not-awaited": 1,
    "judged-before-the-fetch": 5,
    "tick-before-read": 1,
    "follow-leaves-the-deadline": 0,
    "work-beside-the-barrier": 1,
    "lock-before-beliefs": 0,
    "unready-is-ready": 0,
    "foreign-log-folded-on": 4,
    "one-term-is-prolonged": 5,
    "no-compare": 6,
    "late-copies-count": 0,
    "genesis-always-wins": 0,
    "resume-of-another": 0,
    "version-too-high-counts": 0,
    "adrift-begins-at-once": 1,
    "any-snapshot-will-do": 2,
    "take-issued-twice": 0,
    "done-by-anybody": 0,
    "slow-holds-on": 0,
    "obituary-without-proof": 2,
    "everything-moves": 0,
}
STRUCK: dict[str, tuple[str, range, int, str]] = {
    "lapses-are-kept": ("lock", range(60, 72), 25, "somebody leads in the end"),
    "term-ends-before-its-deadline-goes": ("notify", range(1, 5), 5, "giving up is final"),
}
"""Calls of a kind, from one of which a task comes back so many milliseconds late."""

SOUGHT = {
    "losses-are-nothing",
    "not-ready-is-given",
    "adrift-waits-its-own-session",
    "did-acts",
    "lease-from-reading",
    "acknowledged-is-accepted",
    "anchor-not-read",
    "deaf-but-beating",
    "follow-of-any-term",
    "forgotten-at-once",
    "ghosts-are-waited-for",
    "mark-of-anybody",
    "newest-sent-counts",
    "no-budget",
    "no-expiry",
    "nobody-forgotten",
    "nobody-is-superseded",
    "release-without-token",
    "retry-renews-its-time",
    "snapshot-from-its-place",
    "snapshot-loses-a-field",
    "the-silent-stay",
    "transfer-to-anybody",
    "unshown-is-given",
}
"""No seed is known yet."""


def test_every_mutant_has_its_seed() -> None:
    assert {*CAUGHT, *STRUCK, *SOUGHT} == set(MUTANTS)


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
    seed = CAUGHT[name]
    with applied(mutant):
        broken = perform(seed, mutant.bias)
    assert broken.broken not in ("", UNSTOPPABLE), broken.what
    clean = perform(seed, mutant.bias)
    assert clean.what == ""
