"""What this process has seen last of each log, so that a log that lost its tail is known for another one (R12).

Every request names it, and the server compares: see `redis.scripts`. So no reader goes on in a log that a failover, a
restart or a restored copy has shortened, not even if it is longer again by then; and no writer adds to one.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

Key = tuple[str, int]


class Anchor(NamedTuple):
    """An entry that was in the log with this id."""

    log: str
    offset: int
    word: str


NOTHING: Final = Anchor("", -1, "")


class Anchors:
    """For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[Key, Anchor] = {}
        self._lost: dict[str, int] = {}

    def of(self, key: Key) -> Anchor:
        return self._last.get(key, NOTHING)

    def saw(self, key: Key, log: str, offset: int, word: str) -> None:
        """This entry was read, or its append acknowledged."""
        with self._lock:
            known = self._last.get(key)
            if known is None or known.log != log or known.offset < offset:
                self._last[key] = Anchor(log, offset, word)

    def lost(self, key: Key, anchor: Anchor) -> None:
        """The server lacks it. From now on it is another log to this process; once, however many threads have asked."""
        with self._lock:
            if self._last.get(key) != anchor:
                return
            self._lost[key[0]] = self._lost.get(key[0], 0) + 1
            self._forget(key[0])

    def forget(self, topic: str) -> None:
        with self._lock:
            self._forget(topic)

    def _forget(self, topic: str) -> None:
        for key in [key for key in self._last if key[0] == topic]:
            del self._last[key]

    def identity(self, topic: str, log: str) -> str:
        """A log's identity: another one when it has been found to lack what was in it."""
        lost = self._lost.get(topic, 0)
        return f"redis:{log}" + (f":lost-{lost}" if lost else "")
