"""Every defect planted in the runtime that ships is noticed: by the seed that stands here, or in the history that is struck."""

from __future__ import annotations

import pytest

from pares.sim.engine import MS
from pares.sim.members.exhaust import Struck, short
from pares.sim.members.mutants import MUTANTS
from pares.sim.members.play import UNSTOPPABLE, perform
from pares.sim.mutant import applied
from pares.sim.world.faults import Strike

CAUGHT: dict[str, int] = {
    "ghosts-are-waited-for": 3,
    "retry-renews-its-time": 2,
    "no-budget": 1,
    "release-without-token": 14,
    "unshown-is-given": 1,
    "losses-are-nothing": 4,
    "not-ready-is-given": 5,
    "did-acts": 3,
    "deaf-but-beating": 1,
    "snapshot-loses-a-field": 0,
    "snapshot-from-its-place": 12,
    "mark-of-anybody": 7,
    "nobody-forgotten": 1,
    "forgotten-at-once": 0,
    "the-silent-stay": 0,
    "nobody-is-superseded": 0,
    "transfer-to-anybody": 81,
    "anchor-not-read": 0,
    "acknowledged-is-accepted": 2,
    "lease-from-reading": 9,
    "no-expiry": 6,
    "removal-frees": 0,
    "forgotten-before-its-end": 0,
    "old-lock-kept": 1,
    "claimable-at-once": 1,
    "challenger-waits-too-short": 2,
    "lease-longer-than-session": 2,
    "believes-until-released": 5,
    "believes-again": 1,
    "believes-after-leave": 7,
    "session-that-changes": 2,
    "name-is-enough": 0,
    "sent-when-acknowledged": 21,
    "barrier-of-any-term": 0,
    "believes-while-failing": 6,
    "revives-what-ran-out": 122,
    "lock-not-looked-at": 0,
    "stop-does-not-last": 15,
    "barrier-returns-early": 2,
    "callback-not-awaited": 1,
    "judged-before-the-fetch": 1,
    "tick-before-read": 1,
    "follow-leaves-the-deadline": 0,
    "work-beside-the-barrier": 1,
    "lock-before-beliefs": 1,
    "unready-is-ready": 0,
    "foreign-log-folded-on": 10,
    "one-term-is-prolonged": 5,
    "no-compare": 6,
    "late-copies-count": 0,
    "genesis-always-wins": 0,
    "resume-of-another": 0,
    "version-too-high-counts": 0,
    "adrift-begins-at-once": 3,
    "any-snapshot-will-do": 2,
    "take-issued-twice": 1,
    "done-by-anybody": 0,
    "slow-holds-on": 0,
    "obituary-without-proof": 2,
    "everything-moves": 1,
}
STRUCK: dict[str, tuple[str, range, int, str]] = {
    "lapses-are-kept": ("lock", range(60, 72), 25, "somebody leads in the end"),
    "term-ends-before-its-deadline-goes": ("notify", range(1, 5), 5, "giving up is final"),
}
"""Calls of a kind, from one of which a task comes back so many milliseconds late."""

SOUGHT = {
    "adrift-waits-its-own-session",
    "follow-of-any-term",
    "newest-sent-counts",
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
