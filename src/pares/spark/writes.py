"""What arrived at the sink, held against the log: tokens that fell, and writes that are there twice or not at all.

Rule: a sink behind a fence takes, for each seat, tokens that never fall, *in the order in which the sink took the writes*.
That order is the sink's own (`ord`), not the order of the writers' clocks: a zombie wakes up with the time of its reading
already in hand, and by that time its late write would seem to be in its place.

A row's `seq` numbers the writes of one `role` and `key` without holes: a number that is there twice is a duplicate, one that
is skipped is missing. What was lost before the first or after the last row can't be seen from the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Tokens are unique in a group, so a row's token says which seat of its role it was written for.
_SEATED: Final = """
SELECT w.*, t.seat AS held, t.member AS holder, t.to_ms AS end_ms,
       t.token IS NULL AND w.token >= {floor} AS unknown
FROM {writes} w
LEFT JOIN (SELECT role, seat, token, max(member) AS member, max(to_ms) AS to_ms FROM {terms}
           WHERE from_offset IS NOT NULL GROUP BY role, seat, token) t ON t.role = w.role AND t.token = w.token
"""

_STALE: Final = """
SELECT role, token, seen, key, at_ms, coalesce(member, holder) AS member
FROM (SELECT *, max(token) OVER (PARTITION BY role, coalesce(seat, held, 0) ORDER BY ord
                                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS seen FROM {seated})
WHERE token < seen
"""

_UNKNOWN: Final = "SELECT role, token, key, at_ms, member FROM {seated} WHERE unknown"

_DUPLICATES: Final = """
SELECT role, key, seq, count(*) AS writes, count(DISTINCT token) AS tokens, min(at_ms) AS first_ms, max(at_ms) AS last_ms
FROM {seated} WHERE seq IS NOT NULL OR key IS NOT NULL
GROUP BY role, key, seq HAVING count(*) > 1
"""

_MISSING: Final = """
WITH s AS (SELECT role, key, seq, min(at_ms) AS at_ms FROM {seated} WHERE seq IS NOT NULL GROUP BY role, key, seq),
     n AS (SELECT *, lead(seq) OVER w AS next, lead(at_ms) OVER w AS next_ms
           FROM s WINDOW w AS (PARTITION BY role, key ORDER BY seq))
SELECT role, key, seq AS after_seq, next AS before_seq, next - seq - 1 AS missing, at_ms AS from_ms, next_ms AS to_ms
FROM n WHERE next > seq + 1
"""

_COUNTS: Final = """
SELECT count(*) AS writes, count(*) FILTER (WHERE role IS NULL OR token IS NULL OR at_ms IS NULL) AS unreadable,
       count(*) FILTER (WHERE at_ms > end_ms + 2 * {error}) AS late
FROM {seated}
"""


def seated(writes: DataFrame, terms: DataFrame, floor: int) -> DataFrame:
    """The sink's rows (see `rows.load_writes`), each with the term that its token belongs to.

    `unknown` marks a token that the log never gave out, though it shows all from the token `floor` on.
    """
    return writes.sparkSession.sql(_SEATED, writes=writes, terms=terms, floor=floor)


def stale(seated: DataFrame) -> DataFrame:
    """Rows with a token lower than one (`seen`) that the sink had already taken for that seat."""
    return seated.sparkSession.sql(_STALE, seated=seated)


def unknown(seated: DataFrame) -> DataFrame:
    """Rows whose token is nobody's."""
    return seated.sparkSession.sql(_UNKNOWN, seated=seated)


def duplicates(seated: DataFrame) -> DataFrame:
    """Writes that are there more than once: same role, key and seq. `tokens` says by how many terms."""
    return seated.sparkSession.sql(_DUPLICATES, seated=seated)


def missing(seated: DataFrame) -> DataFrame:
    """Stretches of numbers between `after_seq` and `before_seq` that are not there."""
    return seated.sparkSession.sql(_MISSING, seated=seated)


def counts(seated: DataFrame, clock_error_ms: int = 0) -> DataFrame:
    """One row: how many writes there are, how many can't be read, and how many came after the end of their term.

    The last are not wrong by themselves: what was checked before the end may land after it, and the sink takes it until a
    higher token has been there.
    """
    return seated.sparkSession.sql(_COUNTS, seated=seated, error=clock_error_ms)
