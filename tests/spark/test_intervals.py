"""The SQL of intervals against an oracle that looks at every millisecond: hundreds of cases, each a role, in one job."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from oracle import Interval, Key, overlapping, stretches, successions

from pares.spark import intervals
from pares.spark.rules.base import RESOLUTION_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

CASES = 400
BELIEVED = pa.schema(
    [
        ("g", pa.string()),
        ("role", pa.string()),
        ("seat", pa.int32()),
        ("token", pa.int64()),
        ("member", pa.string()),
        ("given", pa.bool_()),
        ("from_offset", pa.int64()),
        ("to_offset", pa.int64()),
        ("free_ms", pa.int64()),
        ("cause", pa.string()),
        ("since_ms", pa.int64()),
        ("since_measured", pa.bool_()),
        ("overlap_ms", pa.int64()),
        ("limit_ms", pa.int64()),
        *((name, pa.int64()) for name in ("a", "b", "a_early", "a_late", "b_early", "b_late")),
    ]
)
Row = dict[str, Any]


def _case(dice: random.Random, role: str, token: int) -> list[Row]:
    """A few terms on one or two seats. Times are small, so that ends touch, coincide and enclose each other often."""
    rows: list[Row] = []
    wide = dice.choice([6, 12, 40])
    for _ in range(dice.randrange(0, 8)):
        token += 1
        a = dice.randrange(wide)
        b = a + dice.choice([0, 1, 2, 3, 10])
        known = dice.random() < 0.9
        rows.append(
            {
                "g": "g",
                "given": True,
                "role": role,
                "seat": dice.randrange(2),
                "token": token,
                "member": dice.choice("pqr"),
                "cause": dice.choice(["crash", "handover", None]),
                "since_ms": b - dice.randrange(3),
                "since_measured": known,
                "overlap_ms": dice.choice([0, 0, 4]),
                "limit_ms": 9,
                "a": a if known else None,
                "b": b,
                "a_early": a - dice.randrange(3),
                "a_late": a if known else None,
                "b_early": b - dice.randrange(3) if dice.random() < 0.9 else None,
                "b_late": b + dice.randrange(3),
            }
        )
    return rows


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    dice = random.Random(7)
    return [row for case in range(CASES) for row in _case(dice, f"case{case:03}", case * 100)]


@pytest.fixture(scope="module")
def believed(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=BELIEVED))


@pytest.fixture(scope="module")
def windows() -> dict[Key, list[tuple[int, int]]]:
    dice = random.Random(8)
    found: dict[Key, list[tuple[int, int]]] = {}
    for case in range(CASES):
        for seat in range(2):
            ends = sorted(dice.sample(range(-3, 30), dice.choice([0, 2, 4])))
            found[f"case{case:03}", seat] = list(zip(ends[::2], ends[1::2], strict=True))
    return found


def _plain(rows: list[Row]) -> list[Interval]:
    return [Interval(*(row[name] for name in Interval._fields)) for row in rows]


def test_stretches_with_nobody_and_with_several(
    spark: SparkSession, believed: DataFrame, rows: list[Row], windows: dict[Key, list[tuple[int, int]]]
) -> None:
    table = pa.Table.from_pylist(
        [{"g": "g", "role": r, "seat": s, "a": a, "b": b} for (r, s), spans in windows.items() for a, b in spans],
        schema=pa.schema(
            [("g", pa.string()), ("role", pa.string()), ("seat", pa.int32()), ("a", pa.int64()), ("b", pa.int64())]
        ),
    )
    found = intervals.segments(believed, spark.createDataFrame(table)).toArrow().to_pylist()
    expected = stretches(_plain(rows), windows)
    assert {(r["role"], r["seat"], r["what"], r["a"], r["b"]) for r in found} == expected
    assert len(found) == len(expected)
    assert {what for _, _, what, _, _ in expected} == {"double", "none"}


@pytest.mark.parametrize(("error", "slack"), [(0, 0), (1, 0), (0, 3)])
def test_who_overlapped_with_whom(believed: DataFrame, rows: list[Row], error: int, slack: int) -> None:
    found = intervals.pairs(believed, error, slack).toArrow().to_pylist()
    expected = overlapping(rows, error, slack, RESOLUTION_MS)
    names = ("role", "seat", "token_a", "token_b", "from_ms", "to_ms", "certain", "expected")
    # What is not known to be as long as that is not known to be as long as allowed either.
    assert {tuple(bool(r[n]) if n == "expected" else r[n] for n in names) for r in found} == expected
    assert len(found) == len(expected) > 300
    assert {row[6] for row in expected} == {True, False}


def test_takeovers_go_from_belief_to_belief(believed: DataFrame, rows: list[Row]) -> None:
    found = intervals.takeovers(believed).toArrow().to_pylist()
    expected = successions(_plain(rows), {row["token"]: row["since_ms"] for row in rows})
    assert {(r["role"], r["seat"], r["from_member"], r["to_member"], r["ms"]) for r in found} == expected
    assert sum(row["a"] is None for row in rows) > 50


def test_a_busy_seat_is_not_quadratic(spark: SparkSession) -> None:
    """20,000 terms of one seat, each overlapping the next: pairs are as many as that and not half the square."""
    count = 20_000
    values: dict[str, Any] = {name: [0] * count for name in ("seat", "overlap_ms", "limit_ms", "since_ms", "free_ms")}
    starts = [10 * i for i in range(count)]
    # Three of four touch; every fourth reaches a millisecond into the next.
    ends = [start + (12 if i % 4 == 0 else 10) for i, start in enumerate(starts)]
    values |= {
        "g": ["g"] * count,
        "given": [True] * count,
        "from_offset": list(range(count)),
        "to_offset": [None] * count,
    }
    values |= {"role": ["r"] * count, "token": list(range(count)), "cause": ["crash"] * count}
    values |= {"member": [f"m{i % 7}" for i in range(count)], "since_measured": [True] * count}
    values |= dict.fromkeys(("a", "a_early", "a_late"), starts) | dict.fromkeys(("b", "b_early", "b_late"), ends)
    frame = spark.createDataFrame(pa.table({f.name: pa.array(values[f.name], f.type) for f in BELIEVED}))
    assert intervals.pairs(frame).count() == count // 4
