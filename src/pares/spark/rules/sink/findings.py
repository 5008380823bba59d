"""What the rules of the sink find, as Spark finds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pares.spark import schema
from pares.spark.rules.base import Allowed, text, view
from pares.spark.rules.sink.walk import ORACLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def seated(spark: SparkSession, writes: DataFrame, frames: Mapping[str, DataFrame], floor: int) -> DataFrame:
    """The sink's rows (see `rows.load_writes`), each with the term that its token belongs to.

    `unknown` marks a token that the log never gave out, though it shows all from the token `floor` on.
    """
    return view(spark, text("sink/seated"), frames, writes=writes, floor=floor)


def answer(rule: str, sql: str) -> str:
    """The query for what `sql` finds among the seated rows as the rule `rule`."""
    return f"SELECT {schema.select('sink_findings')} FROM (SELECT *, '{rule}' AS rule FROM (\n{sql}))"


def findings(spark: SparkSession, rows: DataFrame, allowed: Allowed) -> DataFrame:
    """The findings of all rules."""
    sql = "\nUNION ALL\n".join(answer(rule, text(f"sink/{rule}")) for rule in ORACLES)
    return view(spark, sql, {"seated": rows}, **allowed.literals())
