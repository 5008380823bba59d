"""How much of each hour each role was led: the rows and columns of the report's map."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
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


class Grid(NamedTuple):
    """The columns: `columns` of `step_ms` each, from `from_ms` on."""

    from_ms: int
    step_ms: int
    columns: int


class Unled(NamedTuple):
    """One role: since when it is there, and by column for how long its seats were without a leader, together."""

    role: str
    seats: int
    since_ms: int
    ms: Mapping[int, int]


def grid(from_ms: int, to_ms: int) -> Grid:
    """The columns of a history of this length, whole hours."""
    begin = from_ms - from_ms % HOUR_MS
    hours = max(1, -(-(to_ms - begin) // HOUR_MS))
    step = HOUR_MS * -(-hours // COLUMNS)
    return Grid(begin, step, -(-(to_ms - begin) // step) or 1)


def heat(gaps: Sequence[Row], terms: Sequence[Row], from_ms: int, to_ms: int) -> Heat:
    """Out of the gaps in which nobody led (those of a pause were asked for, and count as led)."""
    begin, step, columns = grid(from_ms, to_ms)
    seats, since = defaultdict[str, set[int]](set), dict[str, int]()
    for row in (row for row in [*gaps, *terms] if row["role"] is not None):
        at = from_ms if row["from_ms"] is None else row["from_ms"]
        seats[row["role"]].add(row["seat"])
        since[row["role"]] = min(at, since.get(row["role"], at))
    unled = defaultdict[str, Counter[int]](Counter)
    for row in gaps:
        if row["cause"] == "pause":
            continue
        for column in range(max(0, (row["from_ms"] - begin) // step), min(columns, (row["to_ms"] - begin) // step + 1)):
            low, high = begin + column * step, begin + (column + 1) * step
            unled[row["role"]][column] += max(0, min(row["to_ms"], high) - max(row["from_ms"], low))
    return drawn([Unled(role, len(of), since[role], unled[role]) for role, of in seats.items()], from_ms, to_ms)


def drawn(unled: Sequence[Unled], from_ms: int, to_ms: int, roles: int | None = None) -> Heat:
    """The map of these roles, or of those among them that were led least; `roles`: how many there are in all."""
    begin, step, columns = grid(from_ms, to_ms)
    order = sorted(unled, key=lambda one: (-sum(one.ms.values()) / one.seats, one.role))
    cells: dict[str, list[int | None]] = {}
    for one in order[:ROLES]:
        cells[one.role] = []
        for column in range(columns):
            low, high = max(begin + column * step, one.since_ms), min(begin + (column + 1) * step, to_ms)
            there = (high - low) * one.seats
            share = None if there <= 0 else max(0, 1000 - round(1000 * one.ms.get(column, 0) / there))
            cells[one.role].append(share)
    return Heat(begin, step, cells, max(0, (len(order) if roles is None else roles) - ROLES))
