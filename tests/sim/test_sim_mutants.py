"""A rule broken on purpose is noticed: each of the list, by seeds that are known to meet it.

`pares sim --mutant all` looks for such seeds from scratch; docs/proof.md has the table.
"""

import pytest

from pares.core import lease
from pares.core.claims import silence, tick
from pares.core.wire import fold
from pares.sim.knobs import draw
from pares.sim.mutants import MUTANTS, applied
from pares.sim.play import play
from pares.sim.runs import perform

CAUGHT_BY: dict[str, tuple[int, ...]] = {
    "challenger-waits-too-short": (0, 1),
    "lease-longer-than-session": (0, 1),
    "lease-from-reading": (55,),
    "believes-until-released": (0, 1),
    "believes-again": (0, 2),
    "believes-after-leave": (0, 1),
    "session-that-changes": (0, 1),
    "retry-renews-its-time": (0, 1),
    "acknowledged-is-accepted": (32, 42),
    "name-is-enough": (0, 1),
    "foreign-log-folded-on": (0, 1),
    "deaf-but-beating": (72,),
    "sent-when-acknowledged": (43,),
    "no-expiry": (0, 1),
    "claimable-at-once": (4, 12),
    "barrier-of-any-term": (0, 1),
    "revives-what-ran-out": (1, 8),
    "judged-before-the-fetch": (0, 1),
    "anchor-not-read": (4, 15),
    "no-compare": (1, 2),
    "late-copies-count": (0, 1),
    "transfer-to-anybody": (25,),
    "release-without-token": (31,),
    "removal-frees": (0, 1),
    "mark-of-anybody": (8, 13),
    "genesis-always-wins": (0, 1),
    "resume-of-another": (0, 1),
    "version-too-high-counts": (0, 1),
    "did-acts": (2, 3),
    "snapshot-from-its-place": (1, 2),
    "snapshot-loses-a-field": (0, 1),
    "adrift-begins-at-once": (0, 1),
    "adrift-waits-its-own-session": (39, 102),
    "any-snapshot-will-do": (0, 1),
    "take-issued-twice": (0, 1),
    "done-by-anybody": (0, 1),
    "nobody-forgotten": (2,),
    "obituary-without-proof": (0, 1),
    "everything-moves": (1, 3),
    "no-budget": (25,),
    "not-ready-is-given": (0,),
    "slow-holds-on": (5, 9),
    "losses-are-nothing": (0, 2),
    "nobody-is-superseded": (0, 1),
    "the-silent-stay": (0, 1),
    "forgotten-at-once": (1, 4),
}
"""Seeds known to meet the damage; any of them will do."""
BY_SCENARIO = {"ghosts-are-waited-for", "unshown-is-given"}
"""Mutants that cost a session at most, which the simulation allows in such troubles: a scenario and a measurement catch them
(`tests/core/golden`, `tests/bench/test_bench_ordinary.py`)."""


@pytest.mark.parametrize("name", sorted(CAUGHT_BY))
def test_a_broken_rule_is_noticed(name: str) -> None:
    seeds = CAUGHT_BY[name]
    outcomes = [perform(seed, MUTANTS[name]) for seed in seeds]
    # A mutant that no longer fits the code that it patches breaks by an exception, which says nothing of its rule.
    assert not any(outcome.broken == "nothing stops a reader" for outcome in outcomes), outcomes
    assert any(outcome.broken for outcome in outcomes), f"{name}: {MUTANTS[name].what}, and no seed of {seeds} shows it"


@pytest.mark.parametrize("name", sorted(CAUGHT_BY))
def test_it_is_the_rule_that_makes_the_difference(name: str) -> None:
    """The same troubles, with all rules in force, break no promise."""
    mutant = MUTANTS[name]
    assert play(draw(CAUGHT_BY[name][0], mutant.bias)).what == ""


def test_a_mutant_leaves_no_trace_behind() -> None:
    before = [dict(vars(module)) for module in (fold, lease, tick, silence)] + [dict(fold.EFFECTS)]
    for mutant in MUTANTS.values():
        with applied(mutant):
            assert mutant.patches() != []
        after = [dict(vars(module)) for module in (fold, lease, tick, silence)] + [dict(fold.EFFECTS)]
        assert after == before, mutant.name


def test_there_are_as_many_as_the_design_lists() -> None:
    assert len(MUTANTS) == 26 + 1 + 8 + 13, (
        "one of R6, which its list leaves out, eight of what came later, and those that only unit tests had caught"
    )
    assert set(CAUGHT_BY) == set(MUTANTS) - BY_SCENARIO
