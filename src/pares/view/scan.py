"""One pass over the raw entries of a partition: counts, of which nothing can make more than a few dozen.

Every number here may have been chosen by somebody who wants to fill this reader's memory, so everything that is kept by a value
from the log has a limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pares.core.wire.records import READS, Asked, BadRecord, Did, Unknown, decode
from pares.ledger.batches import batches

if TYPE_CHECKING:
    from pares.ledger import Entry, Log

BATCH: Final = 5000
SAMPLES: Final = 5
SHOWN_BYTES: Final = 120
MOST: Final = 1000
"""Distinct values of one sort that are told apart; the rest is counted under `OTHERS`."""
OTHERS: Final = "(others)"


@dataclass(slots=True)
class Scan:
    """What stands in the log, of all writers."""

    entries: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    kinds: Counter[str] = field(default_factory=Counter[str])
    groups: Counter[str] = field(default_factory=Counter[str])
    newer: int = 0
    """Records of a format version above what this release reads."""
    highest: int = 0
    bad: Counter[str] = field(default_factory=Counter[str])
    samples: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    fell: int = 0
    """Entries that bear an earlier time than the entry before them."""
    fell_ms: int = 0
    skews: dict[str, int] = field(default_factory=dict[str, int])
    """By member: by how much its clock, in what it told of itself, was off the ledger's, at the least (ms)."""
    asked: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """By member: the seats that it asked for, of roles that had others then."""


def scan(log: Log, group: str, partition: int) -> Scan:
    """Reads everything that stands in the partition now."""
    found = Scan()
    for entry in entries(log, partition):
        _take(found, entry, group)
    return found


def entries(log: Log, partition: int) -> Iterator[Entry]:
    """Every entry of the partition, up to where it ends now; what is trimmed meanwhile is passed over."""
    for batch in batches(log, partition, log.start(partition), log.end(partition), BATCH):
        yield from batch


def _take(found: Scan, entry: Entry, group: str) -> None:
    found.entries += 1
    if found.first_ms is None:
        found.first_ms = entry.timestamp_ms
    if found.last_ms is not None and entry.timestamp_ms < found.last_ms:
        found.fell += 1
        found.fell_ms = max(found.fell_ms, found.last_ms - entry.timestamp_ms)
    found.last_ms = entry.timestamp_ms
    try:
        record = decode(entry.payload)
    except BadRecord as bad:
        found.bad[bad.reason] += 1
        if found.bad[bad.reason] <= SAMPLES:
            head = entry.payload[:SHOWN_BYTES].decode(errors="backslashreplace")
            found.samples.append({"offset": entry.offset, "reason": str(bad)[:300], "payload": head})
        return
    _count(found.groups, record.g)
    if record.g != group:
        return
    _count(found.kinds, record.k if isinstance(record, Unknown) else type(record).__name__.lower())
    found.highest = max(found.highest, record.v)
    if record.v > READS:
        found.newer += 1
    if isinstance(record, Asked) and (record.m in found.asked or len(found.asked) < MOST):
        found.asked[record.m] = dict(record.roles)
    if isinstance(record, Did) and (record.m in found.skews or len(found.skews) < MOST):
        skew = entry.timestamp_ms - record.at
        if abs(skew) <= abs(found.skews.get(record.m, skew)):
            found.skews[record.m] = skew


def _count(counter: Counter[str], value: str) -> None:
    counter[value if value in counter or len(counter) < MOST else OTHERS] += 1
