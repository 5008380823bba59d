"""`python -m tests.sim.pace`: what is measured in ALLCALL's calm, and the table of it."""

from __future__ import annotations

from tests.sim.pace import measured, table

from pares.sim.members.allcall.draw import draw


def test_a_seed_says_how_long_things_took_within_their_bounds() -> None:
    seed = next(seed for seed in range(100) if len((plan := draw(seed)).probes) == 2 and not plan.starving)
    taken = measured(seed)
    assert taken
    assert all(0 <= part <= 1 for _, part in taken)


def test_the_table_has_a_row_for_each_event_that_happened() -> None:
    assert [*table([("crash", 0.5), ("crash", 0.7), ("crash", 0.9), ("heal", 0.25)])] == [
        "| event | times | median | longest |",
        "|---|---|---|---|",
        "| next leader after a crash | 3 | 0.70 | 0.90 |",
        "| one leader after a heal | 1 | 0.25 | 0.25 |",
    ]
