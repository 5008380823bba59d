"""Several groups over the same roles, audited as one: was each role led at any time by somebody of some group?

Of each belief counts what is certain: from when its owner said that it led to when it last said so, or said that it was over,
or was seen to die (`faults`). What is only possible (a dead owner's lease would have lasted longer) fills no gap. So without
a record of faults each death leaves up to one beat of its owner's unproven.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pares.spark import intervals
from pares.spark.audit import audit_several
from pares.spark.result import AuditResult
from pares.spark.verdict import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pares.spark.rows import Faults

# A role is one seat here, whatever group leads it. Its window is from its first leader to where the first of the logs ends; a
# member that still leads there has said so last a while before.
_ROWS: Final = """
SELECT role, from_ms AS a, sure_ms AS b, to_ms IS NULL AS open FROM {terms} WHERE from_ms IS NOT NULL
"""
_INTERVALS: Final = "SELECT '' AS g, role, 0 AS seat, a, b FROM {rows} WHERE b > a"
_WINDOWS: Final = """
SELECT '' AS g, role, 0 AS seat, min(a) AS a, least({last}, CASE WHEN bool_or(open) THEN max(b) ELSE {last} END) AS b
FROM {rows} GROUP BY role
"""
_GAPS: Final = "SELECT role, a AS from_ms, b AS to_ms FROM {segments} WHERE what = 'none' ORDER BY from_ms, role"


@dataclass(frozen=True)
class Together:
    """What was found: each group's audit, and the stretches in which a role had no leader in any of them."""

    groups: list[AuditResult]
    gaps: list[Row]
    """role, from_ms, to_ms."""

    @property
    def exit_code(self) -> int:
        """3 if a promise of one of the groups was broken, or a role was without a leader; else 0."""
        return 3 if self.gaps else max((group.exit_code for group in self.groups), default=0)


def audit_together(
    ledger: str,
    groups: Sequence[str],
    *,
    faults: str | Path | DataFrame | Faults | None = None,
    spark: SparkSession | None = None,
    options: Mapping[str, str] | None = None,
    clock_error_ms: int = 0,
    until_ms: int | None = None,
) -> Together:
    """Audits each of `groups` on the ledger (see `audit`), and all of them as one, up to `until_ms` of the wall clock (None: to
    the logs' end; a group that was closed leads no more). Raises what `audit` raises."""
    found = audit_several(ledger, groups, spark, faults=faults, options=options, clock_error_ms=clock_error_ms)
    return Together(found, gaps(found, until_ms))


def gaps(results: Sequence[AuditResult], until_ms: int | None = None) -> list[Row]:
    """The stretches (role, from_ms, to_ms) between a role's first leader and the end of the logs in which no group is known to
    have led it."""
    frames = [result.frames["terms"] for result in results]
    own = frames[0].sparkSession
    parts = [frame.sparkSession.sql(_ROWS, terms=frame) for frame in frames]
    rows = reduce(lambda all_, more: all_.unionAll(more), parts)
    ends = [result.summary["to_ms"] for result in results]
    last = min(ends if until_ms is None else [*ends, until_ms])
    windows = own.sql(_WINDOWS, rows=rows, last=last)
    segments = intervals.segments(own.sql(_INTERVALS, rows=rows), windows)
    return own.sql(_GAPS, segments=segments).toArrow().to_pylist()
