"""Every rule, by SQL and by its oracle, over random histories: none missed, none invented; every weakened rule is found out.

`python -m tests.spark.rules.compare` does so with 500 histories, and with the view of those who were able to lead weakened in
22 places, which takes as long as all else here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark.rules.compare import ELSEWHERE, SEEDS, Judged, judge_histories
from tests.spark.rules.mutants import VIEWS

from pares.spark.rules.registry import RULES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> Judged:
    return judge_histories(spark, SEEDS, [mutant for mutant in VIEWS if mutant.rule != "able"])


@pytest.mark.parametrize("rule", [rule.name for rule in RULES if rule.name not in ELSEWHERE])
def test_a_rule_finds_what_its_oracle_finds(rule: str, judged: Judged) -> None:
    by_sql, by_oracle = judged.of(rule)
    assert by_sql == by_oracle
    assert by_oracle, "no history breaks this rule: it is not tested"
    assert all(row["evidence"] for row in judged.by_sql["violations"])


def test_the_engines_differ_in_nothing_else(judged: Judged) -> None:
    assert judged.differences() == []
    assert judged.untouched() == set()
    assert {row["fit"] for row in judged.by_sql["waits"]} >= {0, 1}


def test_each_weakened_rule_is_found_out(judged: Judged) -> None:
    assert judged.survivors() == []
