"""A log on which a group has lived before: records by real members, snapshots by them, and all of them gone.

A joiner looks for the newest snapshot first where there are more records than it would read anyway; so a log that is to show
that must be longer.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from typing import Any, Final

import pares
from pares.core.wire.reader import WINDOW
from pares.core.wire.records import Snapshot, decode

HISTORY: Final = 2 * WINDOW
"""Records at least, of a log whose joiners begin at a snapshot."""
MEMBERS: Final = 5
SESSION: Final = 0.05
"""Seconds: many records in a short time."""
RETENTION: Final = 4.0
"""Seconds: a quarter of it apart members write snapshots."""
PATIENCE: Final = 300.0


class Keeping:
    """A ledger whose members write snapshots often, and that keeps everything all the same."""

    retention = RETENTION

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    def trim(self, before: int, partition: int = 0) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


def lived_on(url: str, group: str, roles: list[str], records: int) -> tuple[int, int]:
    """Lets members of the group live on this log until it has so many records. How many there are in the end, and how many of
    them are snapshots. Raises `TimeoutError` if members write too few."""
    with closing(pares.open(url)) as log:
        keeping: Any = Keeping(log)
        with ExitStack() as stack:
            for number in range(MEMBERS):
                name = f"before{number}"
                stack.enter_context(pares.Member(keeping, group=group, name=name, roles=roles, session=SESSION))
            end = time.monotonic() + PATIENCE
            while log.end() < records:
                if time.monotonic() > end:
                    raise TimeoutError(f"{log.end()} of {records} records are there after {PATIENCE:g} s")
                time.sleep(0.05)
        count = snapshots = at = 0
        while entries := log.read(at, timeout=0.0):
            count += len(entries)
            snapshots += sum(type(decode(entry.payload)) is Snapshot for entry in entries)
            at = entries[-1].offset + 1
        return count, snapshots
