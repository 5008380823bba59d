"""A rule broken on purpose is noticed: each of those that design.md lists, by seeds that are known to meet it.

`pares sim --mutant all` looks for such seeds from scratch; docs/proof.md has the table.
"""

import pytest

from pares.core import fold, lease, living, watch
from pares.sim.mutants import MUTANTS, applied
from pares.sim.runs import perform

CAUGHT_BY = {
    "acknowledged-is-accepted": (26, 69),
    "retry-renews-its-time": (5, 7),
}
"""Where the first few seeds do not meet the damage."""


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_broken_rule_is_noticed(name: str) -> None:
    seeds = CAUGHT_BY.get(name, (0, 1, 2, 3))
    outcomes = [perform(seed, MUTANTS[name]) for seed in seeds]
    assert any(outcome.broken for outcome in outcomes), f"{name}: {MUTANTS[name].what}, and no seed of {seeds} shows it"


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_it_is_the_rule_that_makes_the_difference(name: str) -> None:
    """The same troubles, with all rules in force, break no promise."""
    mutant = MUTANTS[name]
    seed = CAUGHT_BY.get(name, (0,))[0]
    from pares.sim.knobs import draw
    from pares.sim.play import play

    assert play(draw(seed, mutant.bias)).what == ""


def test_a_mutant_leaves_no_trace_behind() -> None:
    before = [dict(vars(module)) for module in (fold, lease, living, watch)] + [dict(fold.EFFECTS)]
    for mutant in MUTANTS.values():
        with applied(mutant):
            assert mutant.patches() != []
        after = [dict(vars(module)) for module in (fold, lease, living, watch)] + [dict(fold.EFFECTS)]
        assert after == before, mutant.name


def test_there_are_as_many_as_the_design_lists() -> None:
    assert len(MUTANTS) >= 26
    assert {m.rule[:2].rstrip("abc") for m in MUTANTS.values()} >= {"R2", "R3", "R4", "R5", "R7", "R8", "R9"}
