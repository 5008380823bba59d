"""All rules, in the order in which a reader wants to know; and what becomes of them in Spark."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pares.spark import schema
from pares.spark.rules import beliefs, log, oddities, waiting
from pares.spark.rules.base import Allowed, Row, Tables, text, view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Oracle = Callable[[Tables, Allowed], list[Row]]


class Rule(NamedTuple):
    """One rule: its name, by which its SQL is found, its oracle, and without which facts or records it can find nothing."""

    name: str
    oracle: Oracle
    needs: str | None = None

    @property
    def sql(self) -> str:
        return text(self.name)


RULES: Final = (
    Rule("overlap", beliefs.overlap, "lead"),
    Rule("two_holders", beliefs.two_holders),
    Rule("second_opinion", log.second_opinion, "genesis"),
    Rule("token_fell", beliefs.token_fell),
    Rule("prolonged", log.prolonged, "relay"),
    Rule("no_such_term", beliefs.no_such_term, "lead"),
    Rule("before_the_log", beliefs.before_the_log, "lead"),
    Rule("believed_again", beliefs.believed_again, "stop"),
    Rule("past_lease", beliefs.past_lease, "stop"),
    Rule("through_pause", beliefs.through_pause, "pause"),
    Rule("false_death", log.false_death, "obituary"),
    Rule("worlds_differ", log.worlds_differ, "defect"),
    Rule("late", waiting.late, "wait"),
)


def answer(rule: str, sql: str) -> str:
    """The query for the violations, by group, that `sql` finds as the rule `rule`."""
    found = f"SELECT *, '{rule}' AS rule, to_ms - from_ms AS length_ms FROM (\n{sql})"
    return f"SELECT g, {schema.select('violations')} FROM ({found})"


def violations(
    spark: SparkSession, frames: Mapping[str, DataFrame], allowed: Allowed, present: Container[str] | None = None
) -> DataFrame:
    """The violations of all rules that have something to look at; `present`: what there is (None: everything)."""
    asked = [rule for rule in RULES if rule.needs is None or present is None or rule.needs in present]
    sql = "\nUNION ALL\n".join(answer(rule.name, rule.sql) for rule in asked)
    return view(spark, sql, frames, **allowed.literals())


INPUTS: Final = (
    "groups",
    "members",
    "terms",
    "believed",
    "moves",
    "overlaps",
    "gaps",
    "takeovers",
    "records",
    "facts",
    "faults",
)
"""The tables that the rules stand on."""


def plainly(tables: Mapping[str, Sequence[Row]], allowed: Allowed) -> dict[str, list[Row]]:
    """The violations and the anomalies as the oracles have them, from the rows of `INPUTS`."""
    rows: dict[str, Sequence[Row]] = {**tables, "pauses": beliefs.pauses(tables), "counting": log.counting(tables)}
    rows["waits"] = waiting.waits(rows, allowed)
    found: list[Row] = []
    for rule in RULES:
        for row in rule.oracle(rows, allowed):
            ends = row["from_ms"], row["to_ms"]
            length = None if None in ends else ends[1] - ends[0]
            found.append({**row, "rule": rule.name, "length_ms": length})
    return {"violations": found, "anomalies": oddities.anomalies(rows), "waits": list(rows["waits"])}
