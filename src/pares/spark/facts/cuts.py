"""Where a log partition is cut into ranges that are folded at once: behind snapshots, with which they can begin (`ranged`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final, NamedTuple, TypeAlias

from pares.core.wire.records import Snapshot
from pares.core.wire.said import Illegible, said
from pares.core.wire.snapshots import Parts, Whole
from pares.ledger.base import Log
from pares.spark.logs import entries_of

LEAD_IN: Final = 12_500
"""Entries that a lead-in has behind its snapshot: in a group by itself, more than for which a silent member is remembered."""
GROUPS: Final = 50
"""For more groups than these it is longer, by as much. [groups of three members write 250 records between two snapshots and
behind one; with less, most of a thousand groups were folded again, range by range, by one task: four times the work]"""
COVERED: Final = 0.75
"""The least part of the entries before a cut that are of groups which can be begun there. The others are folded again."""
LOOKED_AT: Final = 4096
"""So many entries are searched for snapshots first, and four times as many each next time."""
LOOKED_AT_MOST: Final = 65_536
"""Members write a snapshot every few minutes: who finds none in so many entries had better not go on looking."""
IN_VAIN: Final = 2
"""After so many places without a snapshot no more are looked at: such a log is one range."""
SAMPLES: Final = 3
"""Places at which groups are counted. [a thousand that have come lately are no reason not to cut what was before]"""

Asked: TypeAlias = str | Collection[str] | None
"""The groups that are folded; None: all."""


class Cut(NamedTuple):
    """The range begins at `at`, and its lead-in at `since`."""

    since: int
    at: int


def cuts(log: Log, partition: int, low: int, high: int, ranges: int, groups: Asked = None) -> list[Cut]:
    """Where to cut what stands from `low` to before `high` into so many ranges, or fewer: none without a snapshot near it, and
    of many groups none that would be shorter than its lead-in and what comes before that."""
    asked = frozenset((groups,)) if isinstance(groups, str) else None if groups is None else frozenset(groups)
    where = _Where(log, partition, asked)
    ends = [low + number * (high - low) // SAMPLES for number in range(1, SAMPLES + 1)]
    many = min(_Look(where, end).back_to(max(low, end - LOOKED_AT)).many() for end in ends)
    lead_in = max(LEAD_IN, LEAD_IN * many // GROUPS)
    if lead_in > LEAD_IN:
        ranges = max(1, min(ranges, (high - low) // (4 * lead_in)))
    step = (high - low) // ranges
    found: list[Cut] = []
    for number in reversed(range(1, ranges)):
        cut = _near(where, low + (number - 1) * step, low + number * step, lead_in)
        if cut is not None:
            found.append(cut)
        elif not found and ranges - number >= IN_VAIN:
            break
    return found[::-1]


class _Where(NamedTuple):
    """What is looked at."""

    log: Log
    partition: int
    asked: frozenset[str] | None


def _near(where: _Where, low: int, high: int, lead_in: int) -> Cut | None:
    """The last cut up to `high` whose lead-in begins at `low` or later."""
    end, reach, most = high - lead_in, LOOKED_AT, max(LOOKED_AT_MOST, lead_in)
    look = _Look(where, end)
    while low < end:
        at = max(low, end - reach)
        good = look.back_to(at).newest()
        if at == low or reach >= most or (good and len(good) == len(look.entries)):
            covered = sum(look.entries[group] for group in good)
            if not good or covered < COVERED * look.entries.total():
                return None
            begins, last = min(one.upto for one in good.values()), max(one.last for one in good.values())
            return Cut(begins, min(high, last + 1 + lead_in))
        reach = min(4 * reach, most)
    return None


class _Look:
    """What stands before an offset, as far back as was looked."""

    def __init__(self, where: _Where, end: int) -> None:
        self.entries: Counter[str] = Counter()
        """By group."""
        self._where, self._low = where, end
        self._snapshots: list[tuple[int, Snapshot]] = []

    def back_to(self, low: int) -> _Look:
        """Looks further back."""
        earlier: list[tuple[int, Snapshot]] = []
        for entries in entries_of(self._where.log, self._where.partition, low, self._low):
            for (offset, _, _), record in zip(entries, said(entries), strict=True):
                if type(record) is Illegible or (self._where.asked is not None and record.g not in self._where.asked):
                    continue
                self.entries[record.g] += 1
                if type(record) is Snapshot:
                    earlier.append((offset, record))
        self._snapshots = earlier + self._snapshots
        self._low = low
        return self

    def newest(self) -> dict[str, Whole]:
        """Of each group the newest snapshot that it can be begun with, if it has one."""
        found: dict[str, Whole] = {}
        parts: dict[str, Parts] = {}
        for offset, record in self._snapshots:
            whole = parts.setdefault(record.g, Parts()).add(offset, record)
            if whole is not None and whole.upto >= self._low:
                found[record.g] = whole
        return found

    def many(self) -> int:
        """How many groups it takes to have written most of the entries."""
        left, many = COVERED * self.entries.total(), 0
        for _, size in self.entries.most_common():
            if left <= 0:
                break
            left, many = left - size, many + 1
        return many
