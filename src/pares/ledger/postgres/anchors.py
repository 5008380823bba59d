"""What this process has read last of each log, so that a log that lost its tail is known for another one (R12).

A server that goes on from an older copy of its data, or a standby that was promoted before it had received everything, gives
the offsets of the lost entries out again. A reader must not go on there. Each answer says which run of a server gave it; when
that is another run than before, the last entry that was read of each log must still be there, byte for byte.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from typing import NamedTuple

from pares.ledger.postgres.settings import stored
from pares.ledger.postgres.statements import Statements
from pares.ledger.postgres.wire import Row, Wire, number

Key = tuple[str, int]


class Anchor(NamedTuple):
    """An entry that was in the log with this mark."""

    mark: str
    offset: int
    digest: bytes


class Anchors:
    """For any thread."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self._lock = threading.Lock()
        self._last: dict[Key, Anchor] = {}
        self._lost: dict[str, int] = {}
        self._run: int | None = None

    def saw(self, key: Key, mark: str, offset: int, payload: bytes) -> None:
        """This entry was read, or its append acknowledged."""
        with self._lock:
            known = self._last.get(key)
            if known is None or known.mark != mark or known.offset <= offset:
                self._last[key] = Anchor(mark, offset, _digest(payload))

    def forget(self, topic: str) -> None:
        with self._lock:
            for key in [key for key in self._last if key[0] == topic]:
                del self._last[key]

    def identity(self, topic: str, mark: str) -> str:
        """A log's identity: another one when it has been found to lack what was in it."""
        lost = self._lost.get(topic, 0)
        return f"postgresql:{mark}" + (f":lost-{lost}" if lost else "")

    def heed(self, wire: Wire, rows: Sequence[Row], deadline: float) -> list[str]:
        """The topics that are found to have lost something, if the server is another run than before. Raises as `query`."""
        run = number(rows[0][0]) if rows else None
        if run is None or run == self._run:
            return []
        if self._run is not None:
            lost = self._look(wire, deadline)
        else:
            lost = []
        self._run = run
        return lost

    def _look(self, wire: Wire, deadline: float) -> list[str]:
        with self._lock:
            anchors = dict(self._last)
        lost: list[str] = []
        for (topic, partition), anchor in anchors.items():
            values = [stored(topic), partition, anchor.offset, 1]
            found = wire.query(self._statements.read, values, deadline)
            if found and (found[0][2] or b"").decode() == anchor.mark and not _has(found[0], anchor):
                lost.append(topic)
        for topic in lost:
            self.forget(topic)
            with self._lock:
                self._lost[topic] = self._lost.get(topic, 0) + 1
        return lost


def _has(row: Row, anchor: Anchor) -> bool:
    """Whether the entry is there, or was trimmed since, which says nothing."""
    first, end = number(row[3]), number(row[4])
    if anchor.offset < first <= end:
        return True
    return row[5] is not None and number(row[5]) == anchor.offset and _digest(row[7] or b"") == anchor.digest


def _digest(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=16).digest()
