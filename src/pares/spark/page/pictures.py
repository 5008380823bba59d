"""What the report draws: chosen and summed over all rows of an audit's tables, however many there are.

An audit holds the first `tables.ROWS` rows of each table, in the order of time. The worst moment of a year is rarely among
them. [a report that named the worst of the first hour] So the moments, the map of hours and the takeovers to be drawn are found
where the rows are: by queries over a long log, and in plain Python over a short one; both say the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from pares.spark.plain.heat import ROLES, Heat, Unled, drawn, grid, heat
from pares.spark.plain.moments import MOST, TAKEOVERS, VIOLATIONS, near, spans, worst
from pares.spark.rules.base import Row, by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TABLES: Final = ("violations", "takeovers", "terms", "gaps")
"""What is drawn from."""
DOTS: Final = 400
"""So many takeovers of one cause are drawn, and one more, at the most: the shortest, the longest, and between them evenly by
rank; of those that took equally long the first ones."""
Near = Callable[[Sequence[tuple[int, int]]], list[Row]]
"""The records in these ranges of offsets."""


@dataclass(frozen=True)
class Picture:
    """What is drawn of an audit."""

    moments: Sequence[Row]
    """The worst; see `plain.moments`."""
    around: Sequence[Row]
    """The records around them."""
    heat: Heat
    dots: Sequence[Row]
    """Takeovers, by cause and length; see `DOTS`."""


_VIOLATIONS: Final = """
SELECT * FROM {violations} ORDER BY verdict <> 'certain', coalesce(length_ms, 0) DESC, <last> LIMIT <most>
""".replace("<last>", ", ".join(f"{name} NULLS LAST" for name in VIOLATIONS)).replace("<most>", str(MOST))
_SLOW: Final = """
SELECT * FROM {takeovers} WHERE ms IS NOT NULL ORDER BY ms DESC, <last> LIMIT <most>
""".replace("<last>", ", ".join(f"{name} NULLS LAST" for name in TAKEOVERS)).replace("<most>", str(MOST))
# By a question of its own. [of a query that asks for each of those rows in a subquery, Spark 4.2 takes the first ones it comes
# upon, and not the slowest]
_BEGUN: Final = "SELECT role, seat, token, from_offset FROM {terms} WHERE token IN (<tokens>)"
# A gap is cut at the borders of the columns that it reaches over.
_HEAT: Final = """
WITH there AS (
  SELECT role, seat, coalesce(from_ms, {first}) AS at FROM {gaps} UNION ALL
  SELECT role, seat, coalesce(from_ms, {first}) FROM {terms} WHERE role IS NOT NULL),
 roles AS (SELECT role, count(DISTINCT seat) AS seats, min(at) AS since_ms FROM there GROUP BY role),
 cut AS (
  SELECT role, from_ms, to_ms, explode(sequence(greatest(0, (from_ms - {begin}) DIV {step}),
                                                least({columns} - 1, (to_ms - {begin}) DIV {step}))) AS n
  FROM {gaps} WHERE cause <> 'pause' AND from_ms < {begin} + {columns} * {step} AND to_ms >= from_ms AND to_ms >= {begin}),
 cells AS (
  SELECT role, n, sum(least(to_ms, {begin} + (n + 1) * {step}) - greatest(from_ms, {begin} + n * {step})) AS ms
  FROM cut GROUP BY role, n),
 unled AS (SELECT role, sum(ms) AS ms, collect_list(struct(n, ms)) AS cells FROM cells GROUP BY role)
SELECT r.role, seats, since_ms, cells, count(*) OVER () AS roles FROM roles r LEFT JOIN unled u ON u.role = r.role
ORDER BY coalesce(ms, 0) / seats DESC, r.role LIMIT <roles>
""".replace("<roles>", str(ROLES))
# Of those of one length the first are drawn. [all takeovers of a cause brought together, to give each its rank: ten million of
# them in one task]
_DOTS: Final = """
WITH lengths AS (SELECT cause, ms, count(*) AS those FROM {takeovers} WHERE ms IS NOT NULL GROUP BY cause, ms),
 ranked AS (SELECT *, sum(those) OVER (PARTITION BY cause ORDER BY ms ROWS UNBOUNDED PRECEDING) AS upto,
                   sum(those) OVER (PARTITION BY cause) AS many FROM lengths),
 -- How many are drawn of all up to this length: one for each step of their number, and the last one.
 steps AS (
  SELECT cause, ms, CASE
         WHEN many <= <dots> OR upto = many AND (many - 1) * <dots> DIV many = (many - 2) * <dots> DIV many
           THEN least(upto, <dots> + 1)
         ELSE 1 + (upto - 1) * <dots> DIV many END AS drawn
  FROM ranked),
 chosen AS (SELECT cause, ms, drawn - coalesce(lag(drawn) OVER (PARTITION BY cause ORDER BY ms), 0) AS most FROM steps)
SELECT * EXCEPT (most, nth) FROM (
  SELECT /*+ BROADCAST(c) */ t.*, c.most, row_number() OVER (PARTITION BY t.cause, t.ms ORDER BY <last>) AS nth
  FROM {takeovers} t JOIN chosen c ON c.cause = t.cause AND c.ms = t.ms AND c.most > 0)
WHERE nth <= <dots> + 1 AND nth <= most
ORDER BY cause, ms, <last>
""".replace("<last>", ", ".join(f"{name} NULLS LAST" for name in TAKEOVERS)).replace("<dots>", str(DOTS))


def of_rows(rows: Mapping[str, Sequence[Row]], from_ms: int, to_ms: int, records: Near) -> Picture:
    """Of all rows of violations, takeovers, terms and gaps, which are here."""
    moments = worst(*(rows.get(name, ()) for name in ("violations", "takeovers", "terms")))
    drawn_ = heat(rows["gaps"], rows["terms"], from_ms, to_ms)
    return Picture(moments, _around(moments, records), drawn_, dots(rows["takeovers"]))


def of_frames(frames: Mapping[str, DataFrame], from_ms: int, to_ms: int, records: Near) -> Picture:
    """Of all rows, wherever they are, by Spark."""
    spark = frames["terms"].sparkSession

    def asked(sql: str, *names: str, **values: Any) -> list[Row]:
        return spark.sql(sql, **{name: frames[name] for name in names}, **values).toArrow().to_pylist()

    slow = asked(_SLOW, "takeovers")
    tokens = ", ".join(str(row["token"]) for row in slow) or "NULL"
    begun = asked(_BEGUN.replace("<tokens>", tokens), "terms")
    moments = worst(asked(_VIOLATIONS, "violations"), slow, begun)
    begin, step, columns = grid(from_ms, to_ms)
    roles = asked(_HEAT, "gaps", "terms", first=from_ms, begin=begin, step=step, columns=columns)
    unled = [_unled(row) for row in roles]
    drawn_ = drawn(unled, from_ms, to_ms, roles[0]["roles"] if roles else 0)
    return Picture(moments, _around(moments, records), drawn_, asked(_DOTS, "takeovers"))


def dots(takeovers: Sequence[Row]) -> list[Row]:
    """Those that are drawn."""

    def order(row: Row) -> list[Any]:
        return [(row.get(name) is None, row.get(name)) for name in ("ms", *TAKEOVERS)]

    found: list[Row] = []
    known = by((row for row in takeovers if row["ms"] is not None), "cause")
    for _, rows in sorted(known.items()):
        ordered, many = sorted(rows, key=order), len(rows)
        ranks = [
            rank for rank in range(many)
            if rank in (0, many - 1) or rank * DOTS // many != (rank - 1) * DOTS // many
        ]  # fmt: skip
        most = Counter(ordered[rank]["ms"] for rank in ranks)
        for ms, same in groupby(ordered, key=itemgetter("ms")):
            found += islice(same, most[ms])
    return found


def _unled(row: Row) -> Unled:
    cells = {cell["n"]: cell["ms"] for cell in row["cells"] or ()}
    return Unled(row["role"], row["seats"], row["since_ms"], cells)


def _around(moments: Sequence[Row], records: Near) -> list[Row]:
    ranges = spans(moments)
    return near(records(ranges), ranges) if ranges else []
