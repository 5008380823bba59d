"""What the tables come to: the sums that verdicts and the summary stand on, by what they are about and by group.

Each is a query over a table's rows, wherever they are; of a short log, whose rows are here, the same is worked out here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pares.spark.rules.base import Row, by, view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Sums: TypeAlias = dict[str, dict[str | None, list[Row]]]
SUDDEN: Final = ("crash", "freeze", "cut")

_TAKEOVERS: Final = """
SELECT g, cause, count(*) AS count, CAST(bround(percentile(ms, 0.5)) AS BIGINT) AS p50_ms, max(ms) AS max_ms, sum(ms) AS sum_ms
FROM {takeovers} GROUP BY g, cause
"""
_GAPS: Final = """
SELECT g, cause, count(*) AS count, CAST(bround(percentile(to_ms - from_ms, 0.5)) AS BIGINT) AS p50_ms,
       max(to_ms - from_ms) AS max_ms, sum(to_ms - from_ms) AS sum_ms FROM {gaps} GROUP BY g, cause
"""
_OVERLAPS: Final = """
SELECT g, count(*) FILTER (WHERE certain AND NOT expected) AS certain,
       count(*) FILTER (WHERE NOT certain AND NOT expected) AS unsure,
       count(*) FILTER (WHERE expected) AS expected, max(to_ms - from_ms) FILTER (WHERE expected) AS longest_expected
FROM {overlaps} GROUP BY g
"""
_SUDDEN: Final = """
SELECT g, count(*) AS count, CAST(bround(percentile(ms, 0.5)) AS BIGINT) AS p50_ms, max(ms) AS max_ms,
       min(limit_ms) AS least_limit, max(limit_ms) AS most_limit, count(*) FILTER (WHERE ms > limit_ms) AS beyond,
       max(ms - limit_ms) AS most_beyond
FROM {takeovers} WHERE cause IN ('crash', 'freeze', 'cut') AND limit_ms IS NOT NULL GROUP BY g
"""
_FOUND: Final = """
SELECT g, rule, verdict, count(*) AS count, max(length_ms) AS longest_ms,
       max_by(struct(role, seat, token_a, token_b, member_a, member_b, length_ms, evidence),
              struct(coalesce(length_ms, 0), -coalesce(token_a, 0))) AS worst
FROM {violations} GROUP BY g, rule, verdict
"""
_COUNTS: Final = """
SELECT g, 'terms' AS what, count(*) AS count FROM {terms} GROUP BY g
UNION ALL SELECT g, 'beliefs', count(from_ms) FROM {terms} GROUP BY g
UNION ALL SELECT g, 'moves', count(*) FROM {moves} GROUP BY g
UNION ALL SELECT g, 'bad_records', count(*) FROM {bad_records} GROUP BY g
UNION ALL SELECT g, 'double_ms', sum(b - a) FROM {segments} WHERE what = 'double' GROUP BY g
UNION ALL SELECT g, concat('anomaly ', kind), count(*) FROM {anomalies} GROUP BY g, kind
"""
SUMS: Final = {
    "takeovers": _TAKEOVERS,
    "gaps": _GAPS,
    "overlaps": _OVERLAPS,
    "sudden": _SUDDEN,
    "found": _FOUND,
    "counts": _COUNTS,
}
TABLES: Final = (
    "takeovers",
    "gaps",
    "overlaps",
    "violations",
    "terms",
    "moves",
    "bad_records",
    "segments",
    "anomalies",
)
"""What they are sums of."""


def of_sums(sums: Sums, group: str) -> dict[str, list[Row]]:
    """The group's sums, and those of no group."""
    return {what: [*rows.get(group, ()), *rows.get(None, ())] for what, rows in sums.items()}


def asked(frames: Mapping[str, DataFrame]) -> Sums:
    """By Spark."""
    spark, found = frames["terms"].sparkSession, Sums()
    for name, sql in SUMS.items():
        rows: list[Row] = view(spark, sql, frames).toArrow().to_pylist()
        found[name] = {key[0]: group for key, group in by(rows, "g").items()}
    return found


def plain(tables: Mapping[str, Sequence[Row]]) -> Sums:
    """Here, from the rows of `TABLES`."""
    rows = {
        "takeovers": _spans(tables["takeovers"], lambda row: row["ms"]),
        "gaps": _spans(tables["gaps"], lambda row: row["to_ms"] - row["from_ms"]),
        "overlaps": [_overlaps(g, pairs) for (g,), pairs in by(tables["overlaps"], "g").items()],
        "sudden": _sudden(tables["takeovers"]),
        "found": [_found(same) for same in by(tables["violations"], "g", "rule", "verdict").values()],
        "counts": list(_counts(tables)),
    }
    return {name: {key[0]: group for key, group in by(sums, "g").items()} for name, sums in rows.items()}


def _middle(values: Sequence[int]) -> int:
    """As SQL rounds it: halves to the even one."""
    return round(median(values))


def _spans(rows: Sequence[Row], length: Callable[[Row], int]) -> list[Row]:
    found: list[Row] = []
    for (g, cause), same in by(rows, "g", "cause").items():
        ms = [length(row) for row in same]
        sums = {"count": len(ms), "p50_ms": _middle(ms), "max_ms": max(ms), "sum_ms": sum(ms)}
        found.append({"g": g, "cause": cause, **sums})
    return found


def _overlaps(g: str, rows: Sequence[Row]) -> Row:
    expected = [row["to_ms"] - row["from_ms"] for row in rows if row["expected"]]
    others = [row["certain"] for row in rows if not row["expected"]]
    longest = max(expected, default=None)
    sums = {"certain": others.count(True), "unsure": others.count(False), "expected": len(expected)}
    return {"g": g, **sums, "longest_expected": longest}


def _sudden(takeovers: Sequence[Row]) -> list[Row]:
    found: list[Row] = []
    sudden = [row for row in takeovers if row["cause"] in SUDDEN and row["limit_ms"] is not None]
    for (g,), rows in by(sudden, "g").items():
        ms, limits = [row["ms"] for row in rows], [row["limit_ms"] for row in rows]
        beyond = [one - limit for one, limit in zip(ms, limits, strict=True)]
        found.append(
            {
                "g": g,
                "count": len(ms),
                "p50_ms": _middle(ms),
                "max_ms": max(ms),
                "least_limit": min(limits),
                "most_limit": max(limits),
                "beyond": sum(over > 0 for over in beyond),
                "most_beyond": max(beyond),
            }
        )
    return found


def _found(rows: Sequence[Row]) -> Row:
    """Of one rule and verdict in a group."""
    lengths = [row["length_ms"] for row in rows if row["length_ms"] is not None]
    worst = max(rows, key=lambda row: (row["length_ms"] or 0, -(row["token_a"] or 0)))
    sums = {"count": len(rows), "longest_ms": max(lengths, default=None), "worst": worst}
    return {**{name: worst[name] for name in ("g", "rule", "verdict")}, **sums}


def _counts(tables: Mapping[str, Sequence[Row]]) -> Iterable[Row]:
    def counted(what: str, rows: Iterable[Row], number: Callable[[list[Row]], Any] = len) -> Iterable[Row]:
        for (g,), group in by(rows, "g").items():
            yield {"g": g, "what": what, "count": number(group)}

    yield from counted("terms", tables["terms"])
    yield from counted("beliefs", (row for row in tables["terms"] if row["from_ms"] is not None))
    yield from counted("moves", tables["moves"])
    yield from counted("bad_records", tables["bad_records"])
    double = (row for row in tables["segments"] if row["what"] == "double")
    yield from counted("double_ms", double, lambda rows: sum(row["b"] - row["a"] for row in rows))
    for (kind,), rows in by(tables["anomalies"], "kind").items():
        yield from counted(f"anomaly {kind}", rows)
