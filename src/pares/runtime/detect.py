"""Which protocol a group runs, by its own records: observers and administrators are not told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pares.core.wire.neli_records import Foreign, decode
from pares.core.wire.records import BadRecord
from pares.ledger import Entry, Log
from pares.ledger.batches import batches
from pares.runtime.config.protocols import INDUCED, USUAL, Traits

WINDOW: Final = 2000
"""Entries that are looked at together."""


def runs_induced(log: Log, group: str, partition: int = 0) -> bool:
    """Whether the newest record of `group` in this partition is one of NELI's or Fast NELI's. Looked for from the end
    backwards, so that in a busy group the answer is there at once; False for a group that the log has nothing of."""
    start, end = log.start(partition), log.end(partition)
    while end > start:
        low = max(start, end - WINDOW)
        found = _newest_in(log, group, partition, low, end)
        if found is not None:
            return found
        end = low
    return False


def traits_in(log: Log, group: str, partition: int = 0) -> Traits:
    """What an observer takes the group for: of NELI's family one protocol for all, and the usual one for a group that the log
    has nothing of."""
    return INDUCED if runs_induced(log, group, partition) else USUAL


def known(log: Log, group: str, partition: int = 0) -> bool:
    """Whether this partition has a record of `group`."""
    end = log.end(partition)
    while (start := log.start(partition)) < end:
        low = max(start, end - WINDOW)
        if any(newest(entries, group) is not None for entries in batches(log, partition, low, end, WINDOW)):
            return True
        end = low
    return False


def _newest_in(log: Log, group: str, partition: int, low: int, end: int) -> bool | None:
    """The same of the entries from `low` to before `end`; None if none of them is the group's."""
    found: bool | None = None
    for entries in batches(log, partition, low, end, WINDOW):
        looked = newest(entries, group)
        found = found if looked is None else looked
    return found


def newest(entries: Sequence[Entry], group: str) -> bool | None:
    """The same of these entries."""
    for entry in reversed(entries):
        try:
            record = decode(entry.payload)
        except BadRecord:
            continue
        if record.g == group:
            return not isinstance(record, Foreign)
    return None
