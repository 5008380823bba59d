"""Random histories of the NELI family, judged by Spark and by plain Python: none missed, none invented."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.spark.follow.tenures import induced
from tests.spark.rules.compare import Judged, judge

from pares.spark.facts.base import arrow_schema, batches
from pares.spark.facts.folding import Partition
from pares.spark.rules.base import Allowed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
SEEDS = range(60)
FAULTS = [(1_700_000_000_900, "m1", "crash"), (1_700_000_001_500, "m2~0", "freeze")]
BROKEN = {"overlap", "late"}
"""Rules that some of these histories break."""


def _facts(seed: int) -> Iterator[Any]:
    """Of both partitions, each folded by itself, as an audit does it; each history a group of its own."""
    for number, entries in induced(seed).items():
        fold = Partition(None, number, 0, claims=number == 0)
        for _, facts in [*fold.feed(entries), *fold.finish()]:
            yield from batches(f"g{seed}", facts)


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> Judged:
    table = pa.Table.from_batches([batch for seed in SEEDS for batch in _facts(seed)], arrow_schema())
    return judge(spark, table, Allowed(error_ms=2), mutants=(), faults=FAULTS)


def test_both_engines_say_the_same_of_each(judged: Judged) -> None:
    assert judged.differences() == []
    assert {row["g"] for row in judged.inputs["groups"]} == {f"g{seed}" for seed in SEEDS}
    assert all(row["induced"] for row in judged.inputs["groups"])


def test_they_break_rules(judged: Judged) -> None:
    found = {row["rule"] for row in judged.by_sql["violations"]}
    assert found >= BROKEN
    assert judged.inputs["terms"]
    assert judged.inputs["takeovers"]
