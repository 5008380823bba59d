"""Where a log partition is cut into ranges that are folded at once: behind snapshots, with which they can begin (`ranged`)."""

from __future__ import annotations

from typing import Final, NamedTuple

from pares.core.wire.records import BadRecord, Snapshot, decode
from pares.core.wire.snapshots import Parts, Whole
from pares.ledger.base import Log
from pares.spark.logs import entries_of

LEAD_IN: Final = 12_500
"""Entries that a lead-in has behind its snapshot: in a group by itself, more than for which a silent member is remembered."""
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
    """Where to cut what stands from `low` to before `high` into so many ranges, or fewer: none without a snapshot near it."""
    step = (high - low) // ranges
    found: list[Cut] = []
    for number in reversed(range(1, ranges)):
        cut = _near(log, partition, low + (number - 1) * step, low + number * step)
        if cut is not None:
            found.append(cut)
        elif not found and ranges - number >= IN_VAIN:
            break
    return found[::-1]


def _near(log: Log, partition: int, low: int, high: int) -> Cut | None:
    """The last cut up to `high` whose lead-in begins at `low` or later."""
    end, reach = high - LEAD_IN, LOOKED_AT
    while low < end:
        at = max(low, end - reach)
        newest = _snapshots(log, partition, at, end)
        good = [whole for whole in newest.values() if whole is not None]
        if at == low or reach >= LOOKED_AT_MOST or (good and len(good) == len(newest)):
            if not good:
                return None
            return Cut(min(whole.upto for whole in good), min(high, max(whole.last for whole in good) + 1 + LEAD_IN))
        reach = min(4 * reach, LOOKED_AT_MOST)
    return None


def _snapshots(log: Log, partition: int, low: int, high: int) -> dict[str, Whole | None]:
    """Of each group that has written there the newest snapshot that can be begun with, if it has one."""
    found: dict[str, Whole | None] = {}
    parts: dict[str, Parts] = {}
    for entries in entries_of(log, partition, low, high):
        for offset, _, payload in entries:
            try:
                record = decode(payload)
            except BadRecord:
                continue
            whole = None
            if type(record) is Snapshot:
                whole = parts.setdefault(record.g, Parts()).add(offset, record)
            if whole is not None and whole.upto >= low:
                found[record.g] = whole
            else:
                found.setdefault(record.g, None)
    return found
