"""Every rule, by SQL and by its oracle, over random histories: none missed, none invented; every weakened rule is found out.

`PARES_HISTORIES=500 pytest tests/spark/rules` plays as many histories as the audit was proved by; CI plays fewer.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from histories import key, table_of
from tests.spark.rules.mutants import MUTANTS

from pares.spark import tables
from pares.spark.rules.base import Allowed, text, view
from pares.spark.rules.registry import INPUTS, RULES, answer, plainly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

COUNT = int(os.environ.get("PARES_HISTORIES", "80"))
ALLOWED = Allowed(error_ms=2)
FAULTS = [(1_700_000_000_500, "m1", "crash"), (1_700_000_001_500, "m2~0", "freeze"), (1, "nobody", "krash")]
Row = dict[str, Any]


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> dict[str, DataFrame]:
    """The tables of all histories, with the rules answered by SQL."""
    facts = spark.createDataFrame(table_of(range(COUNT)))
    faults = spark.createDataFrame(FAULTS, "at_ms bigint, member string, fault string")
    with tables.interpreted(spark, short=True):
        return tables.of_log(facts, faults, ALLOWED, short=True, engine="spark")


@pytest.fixture(scope="module")
def plain(frames: dict[str, DataFrame]) -> dict[str, list[Row]]:
    """The same by the oracles."""
    return plainly({name: frames[name].toArrow().to_pylist() for name in INPUTS}, ALLOWED)


@pytest.fixture(scope="module")
def found(frames: dict[str, DataFrame]) -> list[Row]:
    return frames["violations"].toArrow().to_pylist()


@pytest.mark.parametrize("rule", [rule.name for rule in RULES if rule.name != "worlds_differ"])
def test_a_rule_finds_what_its_oracle_finds(rule: str, found: list[Row], plain: dict[str, list[Row]]) -> None:
    by_sql = Counter(key(row) for row in found if row["rule"] == rule)
    by_oracle = Counter(key(row) for row in plain["violations"] if row["rule"] == rule)
    assert by_sql == by_oracle
    assert by_oracle, "no history breaks this rule: it is not tested"
    assert all(row["evidence"] for row in found)


def test_anomalies_are_what_the_oracle_finds(frames: dict[str, DataFrame], plain: dict[str, list[Row]]) -> None:
    by_sql = Counter(key(row) for row in frames["anomalies"].toArrow().to_pylist())
    assert by_sql == Counter(key(row) for row in plain["anomalies"])
    kinds = {row["kind"] for row in plain["anomalies"]}
    assert kinds >= {"clock_step", "lost_numbers", "twin", "uncounted_evidence", "stranger_world", "unmatched_fault"}


def test_waits_are_what_the_oracle_finds(frames: dict[str, DataFrame], plain: dict[str, list[Row]]) -> None:
    rows = frames["waits"].toArrow().to_pylist()
    assert Counter(map(key, rows)) == Counter(map(key, plain["waits"]))
    assert {row["fit"] for row in rows} >= {0, 1}


def test_each_weakened_rule_is_found_out(spark: SparkSession, frames: dict[str, DataFrame], found: list[Row]) -> None:
    parts: list[str] = []
    for number, mutant in enumerate(MUTANTS):
        sql = text(mutant.rule)
        assert mutant.what in sql, mutant
        parts.append(answer(f"mutant {number}", sql.replace(mutant.what, mutant.then)))
    with tables.interpreted(spark, short=True):
        asked = view(spark, "\nUNION ALL\n".join(parts), frames, **ALLOWED.literals())
        rows = asked.toArrow().to_pylist()
    survived: list[Any] = []
    for number, mutant in enumerate(MUTANTS):
        right = Counter(key(row, "rule") for row in found if row["rule"] == mutant.rule)
        if Counter(key(row, "rule") for row in rows if row["rule"] == f"mutant {number}") == right:
            survived.append(mutant)
    assert not survived
