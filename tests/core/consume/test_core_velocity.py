"""Whether the work on a partition keeps up (C7)."""

from __future__ import annotations

import pytest

from pares.core.consume.velocity import Velocity
from pares.core.reasons import BEHIND, STUCK


def looks(*pairs: tuple[int, int]) -> list[str]:
    velocity = Velocity()
    return [velocity.look(*pair) for pair in pairs]


@pytest.mark.parametrize(
    ("pairs", "last"),
    [
        ([(0, 0)] * 6, ""),  # nothing to do
        ([(5, 5)] * 6, ""),
        ([(0, 9)] * 3, ""),  # two looks without movement, the first says nothing
        ([(0, 9)] * 4, STUCK),
        ([(0, 9), (0, 12), (0, 15), (0, 18)], STUCK),
        ([(0, 9), (0, 9), (0, 9), (1, 9), (1, 9), (1, 9)], ""),  # any movement begins anew
        ([(0, 100), (1, 110), (2, 120), (3, 130)], BEHIND),
        ([(0, 100), (1, 110), (2, 120), (40, 130)], ""),  # faster than the end moves
        ([(0, 1000), (10, 1005), (20, 1010), (30, 1015), (40, 1020)], ""),  # far behind, and catching up
        ([(0, 30), (10, 40), (20, 50), (30, 60)], BEHIND),
        ([(0, 20), (10, 30), (20, 40), (30, 50)], ""),  # two more looks bring it to the end
    ],
)
def test_c7_three_bad_looks_in_a_row_are_too_many(pairs: list[tuple[int, int]], last: str) -> None:
    found = looks(*pairs)
    assert found[-1] == last
    assert not any(found[:-1])


def test_the_rates_of_the_last_look() -> None:
    velocity = Velocity()
    velocity.look(10, 20)
    velocity.look(13, 28)
    assert (velocity.consumed, velocity.produced) == (3, 8)
    velocity.look(13, 28)
    assert (velocity.consumed, velocity.produced, velocity.still) == (0, 0, 1)
