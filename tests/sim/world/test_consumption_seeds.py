"""Real consumers in simulated worlds: clean seeds keep every promise, and each rule that is broken on purpose is noticed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.oracles.mutants import broken, seeds

from pares.sim.members.consume.biases import KEYED, RANGES, TRANSACTIONS
from pares.sim.members.consume.mutants import MUTANTS
from pares.sim.members.consume.plan import ACTS, FAULTS, draw
from pares.sim.members.play import play
from pares.sim.runs import perform

CLEAN = range(100, 124)
CAUGHT = seeds("consume")


@pytest.mark.parametrize("first", range(CLEAN.start, CLEAN.stop, 6))
def test_clean_seeds_keep_every_promise(first: int) -> None:
    outcomes = [perform(seed, protocol="consume") for seed in range(first, first + 6)]
    assert [(outcome.seed, outcome.what) for outcome in outcomes if outcome.broken] == []
    assert sum(outcome.records for outcome in outcomes) > 6 * 30, "nothing happened in these seeds"


def test_the_clean_seeds_meet_most_faults_both_deliveries_and_all_acts() -> None:
    plans = [draw(seed) for seed in CLEAN]
    assert len({kind for plan in plans for kind in plan.faults}) > len(FAULTS) * 3 / 4
    assert {kind for plan in plans for kind in plan.acts} == set(ACTS)
    assert len({plan.delivery for plan in plans}) == 2
    assert any(plan.whole for plan in plans)
    assert any(plan.divided and not plan.mixed for plan in plans)
    assert any(plan.mixed for plan in plans)
    assert any(plan.greedy for plan in plans)
    assert any(plan.most for plan in plans)
    assert any(plan.transactions for plan in plans)


@pytest.mark.parametrize(
    "more", [{}, {"acts": {"rewind": 3.0}, "act_pace": 1.0}, {"out": 3, "workers": 2}, RANGES, KEYED]
)
def test_what_is_written_in_transactions_is_there_once(more: dict[str, Any]) -> None:
    plans = {**more, **{name: value for name, value in TRANSACTIONS.items() if name not in more}, "transactions": True}
    outcomes = [play(draw(seed, plans)) for seed in range(4)]
    assert [(outcome.seed, outcome.what) for outcome in outcomes if outcome.broken] == []


def test_one_seed_is_one_history() -> None:
    one, two = (perform(101, protocol="consume", told=True) for _ in range(2))
    assert one.trace == two.trace
    assert len(one.trace) > 50


def test_every_mutant_has_its_seed() -> None:
    assert set(CAUGHT) == set(MUTANTS)


@pytest.mark.parametrize("name", CAUGHT)
def test_the_mutant_is_caught_and_without_it_the_seed_is_clean(name: str) -> None:
    seed = CAUGHT[name]
    assert broken("consume", name, seed), f"look for another: python -m tests.oracles --record mutants.txt (was {seed})"
