"""Forgetting by age: a log may drop entries older than its retention, but only those below an offset that its user names.

Age alone would be wrong for a coordination log: a joiner folds from the newest snapshot (R10), so entries before that snapshot
may go, and entries after it must stay however old they are. An entry goes only if both conditions allow it.
"""

import time
from collections.abc import Callable
from typing import Final

from .base import Log

EVERY: Final = 60_000_000_000
"""Nanoseconds between two trims by one user of a log."""
AGAIN: Final = 100_000_000
"""Nanoseconds until the next trim, if there was too much to trim at once."""
AT_ONCE: Final = 5_000
"""The most entries trimmed at once: while a member trims, it does not beat."""


def expire(log: Log, before: int, partition: int = 0, *, age: float | None = None, now_ms: int | None = None) -> int:
    """Trim the entries that are both below offset `before` and older than `age`; return the log's new start.

    `age` is in seconds, `log.retention` if not given; if that is None too, nothing is deleted. It is judged by the
    entries' timestamps, so a wall clock that was wrong while they were written makes it err by as much; `before` is
    exact. `now_ms` is the wall clock in milliseconds, read here if not given. Reads about log2(n) entries to find the
    place. Raises what `read` and `trim` raise.
    """
    first = log.start(partition)
    age = log.retention if age is None else age
    if age is None or first >= before:
        return first
    limit = (time.time_ns() // 1_000_000 if now_ms is None else now_ms) - round(age * 1000)
    low, high = first, min(before, log.end(partition))
    while low < high:
        middle = (low + high) // 2
        found = log.read(middle, partition, max_records=1)
        if found and found[0].offset < high and found[0].timestamp_ms <= limit:
            low = found[0].offset + 1
        else:
            high = middle
    if low > first:
        log.trim(low, partition)
    return low


class Trimming:
    """Trims a log for a member, now and then, a part at a time. `now`: a stopwatch in nanoseconds; `wall_us`: the wall clock in
    microseconds."""

    def __init__(self, log: Log, now: Callable[[], int], wall_us: Callable[[], int]) -> None:
        self._log = log
        self._now = now
        self._wall_us = wall_us
        self.last_at = now()

    def due(self) -> bool:
        """Whether it is time to trim, in a log with retention. After a yes the next one comes `EVERY` later."""
        now = self._now()
        if self._log.retention is None or now < self.last_at + EVERY:
            return False
        self.last_at = now
        return True

    def trim(self, before: int, partition: int) -> bool:
        """Trims what may go below `before`, or a part of it. Returns whether there may be more. Raises as `expire`."""
        first = self._log.start(partition)
        # Before its first entry a log may have a hole that is wider than what goes at once.
        found, now_ms = self._log.read(first, partition, max_records=1), self._wall_us() // 1000
        if found and found[0].timestamp_ms > now_ms - round((self._log.retention or 0) * 1000):
            return False  # [each member of a large group looks for the place in the whole log, all at the same moment]
        most = (found[0].offset if found else first) + AT_ONCE
        return expire(self._log, min(before, most), partition, now_ms=now_ms) >= most

    def hasten(self) -> None:
        """Has the next trim follow after `AGAIN`."""
        self.last_at += AGAIN - EVERY
