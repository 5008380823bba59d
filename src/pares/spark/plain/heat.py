"""How much of each hour each role was led: the rows and columns of the report's map."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from pares.spark.rules.base import Row

HOUR_MS: Final = 3_600_000
COLUMNS: Final = 72
"""Columns at the most: of a longer history one stands for several hours."""
ROLES: Final = 60
"""Roles at the most, those that were led least first."""


class Heat(NamedTuple):
    """`cells` of a role: the share of each stretch in which its seats were led, in thousandths; None where it was not there."""

    from_ms: int
    step_ms: int
    cells: dict[str, list[int | None]]
    left_out: int
    """Roles that are not shown."""


def heat(gaps: Sequence[Row], terms: Sequence[Row], from_ms: int, to_ms: int) -> Heat:
    """Out of the gaps in which nobody led (those of a pause were asked for, and count as led)."""
    begin = from_ms - from_ms % HOUR_MS
    hours = max(1, -(-(to_ms - begin) // HOUR_MS))
    step = HOUR_MS * -(-hours // COLUMNS)
    columns = -(-(to_ms - begin) // step) or 1
    seats, since = defaultdict[str, set[int]](set), dict[str, int]()
    for row in [*gaps, *terms]:
        at = from_ms if row["from_ms"] is None else row["from_ms"]
        seats[row["role"]].add(row["seat"])
        since[row["role"]] = min(at, since.get(row["role"], at))
    unled = defaultdict[str, list[int]](lambda: [0] * columns)
    for row in gaps:
        if row["cause"] == "pause":
            continue
        for column in range((row["from_ms"] - begin) // step, min(columns, (row["to_ms"] - begin) // step + 1)):
            low, high = begin + column * step, begin + (column + 1) * step
            unled[row["role"]][column] += max(0, min(row["to_ms"], high) - max(row["from_ms"], low))
    order = sorted(seats, key=lambda role: (-sum(unled[role]) / len(seats[role]), role))
    cells: dict[str, list[int | None]] = {}
    for role in order[:ROLES]:
        cells[role] = []
        for column in range(columns):
            low, high = max(begin + column * step, since[role]), min(begin + (column + 1) * step, to_ms)
            there = (high - low) * len(seats[role])
            cells[role].append(None if there <= 0 else max(0, 1000 - round(1000 * unled[role][column] / there)))
    return Heat(begin, step, cells, max(0, len(order) - ROLES))
