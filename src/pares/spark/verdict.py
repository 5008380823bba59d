"""From tables to verdicts: which promises the log and the sink show to be kept, and which not.

There are two kinds of verdict, and each promise says on which it stands. What *the log decided* follows from offsets alone
and is exact. What *physically happened* is known from members' own clocks, with an error: there a promise counts as broken
only where no reading of the clocks within that error would save it, and what can't be excluded is said to be unsure, never
passed off as kept. Only `broken` makes the audit fail.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from pares.spark.intervals import RESOLUTION_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row: TypeAlias = dict[str, Any]
Verdict: TypeAlias = Literal["kept", "broken", "unsure", "slow", "expected", "not checked"]

APPEND_MS: Final = 250
"""What a takeover may take beyond the session for an append and its read-back, before it is called slow. The log can't tell how
long they took, so this is an assumption, and the verdict names it."""

# One query for everything that should never be there: each row is a broken promise.
_CHECKS: Final = """
SELECT 'two holders' AS what, role, seat, token, member FROM
  (SELECT *, lead(from_offset) OVER (PARTITION BY role, seat ORDER BY from_offset, token) AS next FROM {terms}
   WHERE from_offset IS NOT NULL)
WHERE next < coalesce(to_offset, next + 1)
UNION ALL
SELECT 'token fell', role, seat, token, to_member FROM
  (SELECT *, lag(token) OVER (PARTITION BY role, seat ORDER BY offset) AS before FROM {moves})
WHERE token <= before
UNION ALL
SELECT 'no such term', role, seat, token, member FROM {terms}
WHERE from_offset IS NULL AND from_ms IS NOT NULL AND token >= {floor}
UNION ALL
SELECT 'before the log', role, seat, token, member FROM {terms}
WHERE from_ms + 2 * {error} + {resolution} < gained_ms
UNION ALL
SELECT 'believed again', role, seat, token, member FROM {terms} WHERE revived
"""


class Promise(NamedTuple):
    """What was promised, in plain words, whether it was kept, and by what that is known."""

    promise: str
    verdict: Verdict
    evidence: str


@dataclass(frozen=True, slots=True)
class Case:
    """All that is judged, as rows."""

    terms: list[Row]
    overlaps: list[Row]
    takeovers: list[Row]
    checks: list[Row]
    defects: int
    stale: list[Row] | None
    unknown: list[Row] | None
    writes: int
    overlap_ms: int
    """The longest overlap that a member of the group asked for; 0: the group is exclusive."""
    clock_error_ms: int


def checks(terms: DataFrame, moves: DataFrame, floor: int, clock_error_ms: int) -> DataFrame:
    """What should never be there, as rows (what, role, seat, token, member)."""
    return terms.sparkSession.sql(
        _CHECKS, terms=terms, moves=moves, floor=floor, error=clock_error_ms, resolution=RESOLUTION_MS
    )


def judge(case: Case) -> list[Promise]:
    """The promises, one by one, in the order in which a reader wants to know."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in case.checks:
        found[row["what"]].append(row)
    terms = _count(len(case.terms), "term")
    promises = [
        _together(case),
        _of_log("The log never gave one seat to two members at once.", found["two holders"], terms),
        _of_log("Tokens only ever grew, seat by seat.", found["token fell"], terms),
        _of_log(
            "Nobody believed that it led before the log said so, or without the log saying so.",
            found["no such term"] + found["before the log"],
            _count(sum(row["from_ms"] is not None for row in case.terms), "belief"),
        ),
        _of_log("A term once given up was never believed in again.", found["believed again"], terms),
        Promise(
            "All readers of the log saw the same world.",
            "broken" if case.defects else "kept",
            f"{_count(case.defects, 'snapshot')} unlike what its place in the log decides"
            if case.defects
            else "every snapshot in the log agrees with its place",
        ),
        _in_time(case),
    ]
    return promises + _at_sink(case)


def _together(case: Case) -> Promise:
    certain = [row for row in case.overlaps if row["certain"] and not row["expected"]]
    unsure = [row for row in case.overlaps if not row["certain"] and not row["expected"]]
    expected = [row for row in case.overlaps if row["expected"]]
    if case.overlap_ms:
        promise = f"No two members believed that they led one role for longer than the {case.overlap_ms} ms asked for."
        kept = f"{_count(len(expected), 'overlap')}, at most {_longest(expected)} ms, as the non-exclusive mode allows"
    else:
        promise = "At no instant did two members believe that they led one role."
        kept = f"{_count(len(case.terms), 'term')}, none of which met another"
    if certain:
        worst = max(certain, key=_length)
        return Promise(
            promise,
            "broken",
            f"{_count(len(certain), 'overlap')}; the longest is {_length(worst)} ms, {_seat(worst)}, "
            f"by {worst['member_a']} and {worst['member_b']}",
        )
    if unsure:
        return Promise(
            promise,
            "unsure",
            f"{_count(len(unsure), 'overlap')} can't be excluded, of at most {_longest(unsure)} ms: an end was not told by its "
            f"holder, or is nearer to the next beginning than the clocks can tell (error {case.clock_error_ms} ms)",
        )
    return Promise(promise, "kept", kept)


def _of_log(promise: str, wrong: list[Row], looked: str) -> Promise:
    if not wrong:
        return Promise(promise, "kept", f"{looked}, no exception")
    first = wrong[0]
    where = f"{_seat(first)}, {first['member']}, token {first['token']}"
    return Promise(promise, "broken", f"{_count(len(wrong), 'exception')} in {looked}; the first: {where}")


def _in_time(case: Case) -> Promise:
    promise = "After a crash or a freeze the next leader was there within the session (and an append)."
    sudden = [
        row for row in case.takeovers if row["cause"] in ("crash", "freeze", "cut") and row["limit_ms"] is not None
    ]
    if not sudden:
        return Promise(promise, "not checked", "nobody crashed or froze while it led")
    slow = [row for row in sudden if row["ms"] > row["limit_ms"] + APPEND_MS]
    times = sorted(row["ms"] for row in sudden)
    limits = {row["limit_ms"] for row in sudden}
    limit = f"{_told(max(limits))}" if len(limits) == 1 else f"{_told(min(limits))} to {_told(max(limits))}"
    numbers = (
        f"{_count(len(times), 'takeover')}, p50 {_told(_median(times))}, longest {_told(times[-1])}. Promised: {limit}"
    )
    beyond = [row["ms"] - row["limit_ms"] for row in sudden if row["ms"] > row["limit_ms"]]
    if not beyond:
        return Promise(promise, "kept", numbers)
    allowed = f"{numbers}, and an append with its read-back, for which this audit allows {APPEND_MS} ms"
    most = f"{len(beyond)} took longer than the session, by {_told(max(beyond))} at most"
    if slow:
        return Promise(
            promise, "slow", f"{allowed}. {most}; {len(slow)} by more than that (perhaps nobody else could lead)"
        )
    return Promise(promise, "kept", f"{allowed}. {most}")


def _at_sink(case: Case) -> list[Promise]:
    stale = "The sink took no write under a token lower than one that it had already seen."
    unknown = "Every write carried a token that the log had given out."
    if case.stale is None or case.unknown is None:
        return [Promise(stale, "not checked", "no writes were given")]
    looked = _count(case.writes, "write")
    if case.stale and case.overlap_ms:
        first = Promise(
            stale, "expected", f"{len(case.stale)} of {looked}: without a fence, while two lead, that is how it is"
        )
    elif case.stale:
        row = case.stale[0]
        first = Promise(
            stale,
            "broken",
            f"{len(case.stale)} of {looked}; the first: role {row['role']}, token {row['token']} after {row['seen']}",
        )
    else:
        first = Promise(stale, "kept", f"{looked}, none out of order")
    if case.unknown:
        row = case.unknown[0]
        second = Promise(
            unknown, "broken", f"{len(case.unknown)} of {looked}; the first: role {row['role']}, token {row['token']}"
        )
    else:
        second = Promise(unknown, "kept", looked)
    return [first, second]


def numbers(values: Iterable[int]) -> dict[str, int]:
    """count, p50, max and sum of some milliseconds."""
    ordered = sorted(values)
    if not ordered:
        return {"count": 0, "p50_ms": 0, "max_ms": 0, "sum_ms": 0}
    return {"count": len(ordered), "p50_ms": _median(ordered), "max_ms": ordered[-1], "sum_ms": sum(ordered)}


def by_cause(rows: list[Row], length: str | None = "ms") -> dict[str, dict[str, int]]:
    """`numbers` of each cause, the most frequent first; `length` None: from `from_ms` to `to_ms`."""
    groups: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        groups[row["cause"]].append(row[length] if length else _length(row))
    return {cause: numbers(groups[cause]) for cause in sorted(groups, key=lambda c: (-len(groups[c]), c))}


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _told(ms: int) -> str:
    return f"{ms} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"


def _median(ordered: list[int]) -> int:
    return round(statistics.median(ordered))


def _length(row: Row) -> int:
    return row["to_ms"] - row["from_ms"]


def _longest(rows: list[Row]) -> int:
    return max(map(_length, rows), default=0)


def _seat(row: Row) -> str:
    return f"role {row['role']}, seat {row['seat']}"
