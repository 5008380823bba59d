"""Forgetting by age: a log may drop what is older than its retention, but only behind a place that its user names.

Age alone would be wrong for a coordination log: a joiner folds from the newest snapshot (R10), so what stands behind
that snapshot may go, and what stands after it must stay however old it is. Hence two conditions, and the stricter wins.
"""

import time

from .base import Log


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
