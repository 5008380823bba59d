"""Where a log partition is cut into ranges that are folded at once: behind snapshots, with which they can begin (`ranged`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

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


class Cut(NamedTuple):
    """The range begins at `at`, and its lead-in at `since`."""

    since: int
    at: int


def cuts(log: Log, partition: int, low: int, high: int, ranges: int) -> list[Cut]:
    """Where to cut what stands from `low` to before `high` into so many ranges, or fewer: none without a snapshot near it, and
    of many groups none of which half would be lead-in."""
    groups = len(_looked_at(log, partition, max(low, high - LOOKED_AT), high))
    lead_in = max(LEAD_IN, LEAD_IN * groups // GROUPS)
    if lead_in > LEAD_IN:
        ranges = max(1, min(ranges, (high - low) // (2 * lead_in)))
    step = (high - low) // ranges
    found: list[Cut] = []
    for number in reversed(range(1, ranges)):
        cut = _near(log, partition, low + (number - 1) * step, low + number * step, lead_in)
        if cut is not None:
            found.append(cut)
        elif not found and ranges - number >= IN_VAIN:
            break
    return found[::-1]


def _near(log: Log, partition: int, low: int, high: int, lead_in: int) -> Cut | None:
    """The last cut up to `high` whose lead-in begins at `low` or later."""
    end, reach, most = high - lead_in, LOOKED_AT, max(LOOKED_AT_MOST, lead_in)
    while low < end:
        at = max(low, end - reach)
        found = _looked_at(log, partition, at, end)
        good = [of.newest for of in found.values() if of.newest is not None]
        if at == low or reach >= most or (good and len(good) == len(found)):
            covered = sum(of.entries for of in found.values() if of.newest is not None)
            if not good or covered < COVERED * sum(of.entries for of in found.values()):
                return None
            return Cut(min(whole.upto for whole in good), min(high, max(whole.last for whole in good) + 1 + lead_in))
        reach = min(4 * reach, most)
    return None


@dataclass
class _Group:
    """What a group has written in the entries that were looked at."""

    entries: int = 0
    newest: Whole | None = None
    """The newest snapshot that can be begun with."""


def _looked_at(log: Log, partition: int, low: int, high: int) -> dict[str, _Group]:
    found: dict[str, _Group] = {}
    parts: dict[str, Parts] = {}
    for entries in entries_of(log, partition, low, high):
        for (offset, _, _), record in zip(entries, said(entries), strict=True):
            if type(record) is Illegible:
                continue
            of = found.setdefault(record.g, _Group())
            of.entries += 1
            if type(record) is Snapshot:
                whole = parts.setdefault(record.g, Parts()).add(offset, record)
                if whole is not None and whole.upto >= low:
                    of.newest = whole
    return found
