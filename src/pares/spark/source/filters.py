"""What of a query's conditions the source can use to read less.

Conditions on the offset and the partition cut the ranges that are read; one on the group (`g` of the entries) leaves the rows
of others where they are read. All are given back to Spark, which looks again: here they only save work. Times can't be used:
stamps go back now and then, so no offset follows from one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

_NO_END: Final = 2**63 - 1
_EQUAL: Final = ("EqualTo", "EqualNullSafe", "In")
_FROM: Final = ("GreaterThan", "GreaterThanOrEqual")
_UNTIL: Final = ("LessThan", "LessThanOrEqual")


@dataclass(frozen=True)
class Wanted:
    """What a query asks for, as far as it is known: offsets `low` to before `high`, some partitions and groups (None: all)."""

    low: int = 0
    high: int = _NO_END
    partitions: frozenset[int] | None = None
    groups: frozenset[str] | None = None

    def cut(self, low: int, high: int) -> tuple[int, int]:
        """The part of a range that is asked for."""
        low = max(low, min(self.low, high))
        return low, max(low, min(high, self.high))


def wanted(filters: Iterable[Any]) -> Wanted:
    """What all `filters`, of pyspark's `Filter`, ask for together."""
    found = Wanted()
    for one in filters:
        # By name: Spark 4.0 has no filters to import.
        kind = type(one).__name__
        if kind not in (*_EQUAL, *_FROM, *_UNTIL) or len(one.attribute) > 1 or one.value is None:
            continue
        found = _also(found, one.attribute[0], kind, one.value)
    return found


def _also(known: Wanted, column: str, kind: str, value: Any) -> Wanted:
    values: frozenset[Any] | None = None
    if kind in _EQUAL:
        values = frozenset(value) if kind == "In" else frozenset((value,))
    if column == "offset":
        if values is not None:
            numbers = [number for number in values if number is not None]
            low, high = min(numbers, default=0), max(numbers, default=-1) + 1
        else:
            low = value + (kind == "GreaterThan") if kind in _FROM else 0
            high = value + (kind == "LessThanOrEqual") if kind in _UNTIL else _NO_END
        return replace(known, low=max(known.low, low), high=min(known.high, high))
    if column == "partition" and values is not None:
        return replace(known, partitions=values if known.partitions is None else known.partitions & values)
    if column in ("g", "group") and values is not None:
        return replace(known, groups=values if known.groups is None else known.groups & values)
    return known
