"""What the log was before it was deleted: copied into a SQLite ledger, entry by entry, for the audit at the end.

The copy has the offsets, times and payloads of the original, so that the audit of it is that of the original. Whatever was
appended between the last read and the deletion is not in it: `span` says how far it goes.
"""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pares
from pares.core.wire.changes import SeatChanged
from pares.ledger.base import Log
from pares.ledger.sqlite.schema import SHIFT

_CHUNK: Final = 2000
_PARTITION: Final = 0
_KEY: Final = 1 << SHIFT
"""Of the first entry: a ledger's own log has the number 1."""


@dataclass(frozen=True)
class Stretch:
    """One log, from its beginning to where it was last read or to its end now."""

    url: str
    low: int
    high: int | None
    """The least and the greatest token that it gave out; None: it goes on."""

    def holds(self, token: int) -> bool:
        """Whether a token, if it was given out at all, was given out in this log."""
        return self.low <= token and (self.high is None or token <= self.high)


def copy(log: Log, path: Path) -> str:
    """A copy of everything that stands in a log now; its URL. Raises `LedgerUnavailable` and `LedgerGap`."""
    url = f"sqlite:///{quote(str(path))}"
    pares.open(url).close()
    position = log.start(_PARTITION)
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as file, file:
        file.execute("UPDATE logs SET first = ?", (position,))
        while entries := log.read(position, _PARTITION, _CHUNK):
            position = entries[-1].offset + 1
            rows = [(_KEY + entry.offset, entry.timestamp_ms, entry.payload) for entry in entries]
            file.executemany("INSERT INTO entries (id, timestamp_ms, payload) VALUES (?, ?, ?)", rows)
        file.execute("UPDATE logs SET next = ?", (position,))
    return url


def span(url: str, group: str) -> Stretch | None:
    """How far a copy goes; None if it gave out no token."""
    with pares.Observer(url, group=group, options={"readonly": True}) as observer:
        tokens = [c.token for c in observer.read() if isinstance(c, SeatChanged) and c.holder is not None]
    return Stretch(url, min(tokens), max(tokens)) if tokens else None
