"""All rules, in the order in which a reader wants to know; and what becomes of them in Spark."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pares.spark import schema
from pares.spark.rules import beliefs, log, oddities, waiting
from pares.spark.rules.base import Allowed, Row, Tables, text, view
from pares.spark.rules.hints import hinted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Oracle = Callable[[Tables, Allowed], list[Row]]


class Reach(NamedTuple):
    """What a rule has to be told of a log that goes on, and how far back, to find in portions what it finds in the whole.

    `by` says when it is asked: of a `seat` whenever something about it was said, of a `record` once, of the log's `end` each
    time. The facts `first` and `last`, which bound what is known, it always gets.
    """

    by: Literal["seat", "record", "end"]
    facts: frozenset[str]
    """Kinds of facts."""
    back: str


_TERM: Final = frozenset({"gained", "lost", "held", "lead", "stop", "member", "gone", "seen"})
_OPEN: Final = "terms that are open, or ended within the window"


class Rule(NamedTuple):
    """One rule: its name, by which its SQL is found, its oracle, what it has to be told, and without which facts or records
    it can find nothing."""

    name: str
    oracle: Oracle
    reach: Reach
    needs: str | None = None

    @property
    def sql(self) -> str:
        return text(f"queries/{self.name}")


RULES: Final = (
    Rule("overlap", beliefs.overlap, Reach("seat", _TERM, _OPEN), "lead"),
    Rule("two_holders", beliefs.two_holders, Reach("seat", _TERM, "the holders within the window, and the one before")),
    Rule(
        "second_opinion",
        log.second_opinion,
        Reach("record", frozenset({"record", "gained", "lost"}), "who has joined, last records that count, open terms"),
        "genesis",
    ),
    Rule("token_fell", beliefs.token_fell, Reach("seat", _TERM, "the last token of each seat")),
    Rule("prolonged", log.prolonged, Reach("record", frozenset({"record"}), "each holder's last claim"), "relay"),
    Rule("no_such_term", beliefs.no_such_term, Reach("seat", _TERM, _OPEN), "lead"),
    Rule("before_the_log", beliefs.before_the_log, Reach("seat", _TERM, _OPEN), "lead"),
    Rule("believed_again", beliefs.believed_again, Reach("seat", _TERM, _OPEN), "stop"),
    Rule("past_lease", beliefs.past_lease, Reach("seat", _TERM, _OPEN), "stop"),
    Rule(
        "through_pause",
        beliefs.through_pause,
        Reach("seat", _TERM | {"record"}, "pauses within the window or that last, and open terms"),
        "pause",
    ),
    Rule(
        "false_death",
        log.false_death,
        Reach("record", frozenset({"record"}), "the last declarations of death, and what the dead said since"),
        "obituary",
    ),
    Rule("worlds_differ", log.worlds_differ, Reach("end", frozenset({"defect"}), "nothing"), "defect"),
    Rule(
        "late",
        waiting.late,
        Reach(
            "seat",
            _TERM | {"record", "opened", "shut"},
            "gaps that last, the last leader of each seat; members, and their silences, since the oldest of these",
        ),
        "wait",
    ),
)
BY_SEAT: Final = tuple(rule for rule in RULES if rule.reach.by == "seat")


def answer(rule: str, sql: str) -> str:
    """The query for the violations, by group, that `sql` finds as the rule `rule`."""
    found = f"SELECT *, '{rule}' AS rule, to_ms - from_ms AS length_ms FROM (\n{sql})"
    return f"SELECT g, {schema.select('violations')} FROM ({found})"


def violations(
    spark: SparkSession,
    frames: Mapping[str, DataFrame],
    allowed: Allowed,
    present: Container[str] | None = None,
    hints: Mapping[str, str] = MappingProxyType({}),
) -> DataFrame:
    """The violations of all rules that have something to look at; `present`: what there is (None: everything); `hints`: see
    `rules.hints`."""
    asked = [rule for rule in RULES if rule.needs is None or present is None or rule.needs in present]
    sql = "\nUNION ALL\n".join(answer(rule.name, rule.sql) for rule in asked)
    return view(spark, hinted(sql, **hints), frames, **allowed.literals())


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
