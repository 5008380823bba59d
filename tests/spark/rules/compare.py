"""Random histories, judged by SQL and by the oracles: none missed, none invented; and by weakened rules, all found out.

    python -m tests.spark.rules.compare [--from N] [--histories N]

plays as many histories as are asked for (500), says what differs, and ends with 1 if anything does. Tests play `SEEDS`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from histories import key, table_of
from tests.spark.rules.mutants import MUTANTS, VIEWS, Weakened

from pares.spark import tables
from pares.spark.host.compiling import Compiling
from pares.spark.plain.tables import of_log
from pares.spark.rules import beliefs, log, waiting
from pares.spark.rules.base import KNOWN_FAULTS, Allowed, by, text, view
from pares.spark.rules.hints import hinted
from pares.spark.rules.registry import INPUTS, RULES, answer, plainly
from pares.spark.rules.sifting import Files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Row = dict[str, Any]
SEEDS: Final = range(120)
ALLOWED: Final = Allowed(error_ms=2)
FAULTS: Final = [(1_700_000_000_500, "m1", "crash"), (1_700_000_001_500, "m2~0", "freeze"), (1, "nobody", "krash")]
ELSEWHERE: Final = ("worlds_differ", "prolonged")
"""Rules that no such history breaks: the one needs a snapshot, the other a bus. Their planted cases have them."""
KINDS: Final = {"clock_step", "lost_numbers", "twin", "uncounted_evidence", "stranger_world", "unmatched_fault"}
"""Kinds of anomalies that they must have."""
FRAME: Final = {
    **{name: name for name in ("pauses", "runs", "series", "spoke", "numbers", "twins", "uncounted")},
    **{f"counting/{name}": name for name in ("known", "named", "told", "asked", "followed", "walked")},
    "waits": "stretches",
    "able": "waits",
    "anomalies": "anomalies",
}
"""What each view makes."""
COMPARED: Final = ("pauses", "stretches", "waits", "series", "counting", "numbers", "anomalies")
"""Frames that an oracle makes too."""
_PRINT: Final = "count(*) AS many, sum(CAST(xxhash64({}) AS DECIMAL(38, 0))) AS print"
"""By which rows are compared where they are: dozens of views make a million of them."""


@dataclass(frozen=True)
class Judged:
    """What both engines say of some histories: violations, and the rows of the views; and SQL under each mutant."""

    by_sql: Mapping[str, list[Row]]
    by_oracle: Mapping[str, list[Row]]
    weakened: Mapping[Weakened, list[Row]]
    views: Mapping[Weakened, bool]
    """Whether each weakened view makes other rows."""
    inputs: Mapping[str, list[Row]]
    """The tables that the rules stand on."""
    without_spark: Mapping[str, list[Row]]
    """All tables as plain Python makes them, of the same facts."""

    def of(self, rule: str) -> tuple[Counter[str], Counter[str]]:
        """The violations of a rule, by SQL and by its oracle."""
        return _bag(self.by_sql["violations"], rule), _bag(self.by_oracle["violations"], rule)

    def differences(self) -> list[str]:
        """What one engine says and the other does not."""
        found: list[str] = []
        for rule in RULES:
            found += _apart(rule.name, *self.of(rule.name))
        for name in COMPARED:
            found += _apart(name, _bag(self.by_sql[name]), _bag(self.by_oracle[name]))
        for name in (*INPUTS, "segments", "balance", "violations", "anomalies", "waits"):
            by_sql, columns = self.by_sql[name] if name in self.by_sql else self.inputs[name], self._columns(name)
            alike = [
                [{one: row[one] for one in columns} for row in rows] for rows in (by_sql, self.without_spark[name])
            ]
            found += _apart(f"{name}, without Spark", *map(_bag, alike))
        return found

    def _columns(self, name: str) -> list[str]:
        rows = self.by_sql[name] if name in self.by_sql else self.inputs[name]
        return [column for column in (rows[0] if rows else {}) if column not in ("length_ms", "rule")]

    def untouched(self) -> set[str]:
        """The rules, and the kinds of anomalies, that none of the histories breaks."""
        rules = {rule.name for rule in RULES} - {*ELSEWHERE} - {row["rule"] for row in self.by_oracle["violations"]}
        return rules | (KINDS - {row["kind"] for row in self.by_oracle["anomalies"]})

    def exposed(self, mutant: Weakened) -> set[str]:
        """The histories of which the weakened rule says something else."""
        right = [row for row in self.by_sql["violations"] if row["rule"] == mutant.rule]
        one, other = (
            Counter((r["g"], key(r, "rule")) for r in right),
            Counter((r["g"], key(r, "rule")) for r in self.weakened[mutant]),
        )
        return {g for g, _ in (one - other) + (other - one)}

    def survivors(self) -> list[Weakened]:
        """The weakened rules and views that nothing finds out."""
        found = [mutant for mutant in self.weakened if not self.exposed(mutant)]
        return found + [mutant for mutant, differs in self.views.items() if not differs]


def judge(
    spark: SparkSession,
    facts: pa.Table,
    allowed: Allowed = ALLOWED,
    mutants: Sequence[Weakened] = MUTANTS,
    views: Sequence[Weakened] = (),
    faults: Sequence[tuple[int, str, str]] = (),
    files: Files | None = None,
) -> Judged:
    """Has both engines judge these facts; `files`: where they are as well, to be read from there."""
    held = spark.createDataFrame(facts)
    struck = spark.createDataFrame([*faults], "at_ms bigint, member string, fault string")
    parts: list[str] = []
    for number, mutant in enumerate(mutants):
        sql = hinted(text(f"queries/{mutant.rule}"))
        assert mutant.what in sql, mutant
        parts.append(answer(str(number), sql.replace(mutant.what, mutant.then)))
    with Compiling(spark, rows=0):
        frames = tables.of_log(spark, held, struck, allowed, short=True, engine="spark", files=files)
        by_sql = {name: frames[name].toArrow().to_pylist() for name in ("violations", *COMPARED, "known")}
        inputs = {name: frames[name].toArrow().to_pylist() for name in (*INPUTS, "segments", "balance")}
        by_oracle = plainly(inputs, allowed) | _views(inputs, allowed)
        rows: list[Row] = []
        if parts:
            asked = view(spark, "\nUNION ALL\n".join(parts), frames, **allowed.literals())
            rows = asked.toArrow().to_pylist()
        twisted = {one: differs for name in FRAME for one, differs in _twisted(spark, name, views, frames, allowed)}
    weakened = {mutant: [r for r in rows if r["rule"] == str(number)] for number, mutant in enumerate(mutants)}
    without_spark = of_log(facts, inputs["faults"], allowed)
    for name in COMPARED:  # an oracle has all columns of what it looked at
        columns = frames[name].columns
        by_oracle[name] = [{column: row[column] for column in columns} for row in by_oracle[name]]
    return Judged(by_sql, by_oracle, weakened, twisted, inputs, without_spark)


def _views(inputs: Mapping[str, list[Row]], allowed: Allowed) -> dict[str, list[Row]]:
    """What the views make that a rule looks at and no audit shows, by their oracles."""
    pauses = beliefs.pauses(inputs)
    stretches = waiting.stretches({**inputs, "pauses": pauses}, waiting.limits(inputs["members"]), allowed)
    return {
        "pauses": pauses,
        "stretches": stretches,
        "counting": log.counting(inputs),
        "numbers": _numbers(inputs),
        "series": _series(inputs),
    }


def _series(inputs: Mapping[str, list[Row]]) -> list[Row]:
    """What `views/series.sql` makes, of the records themselves."""
    found: list[Row] = []
    for (g, member, base), rows in by(inputs["records"], "g", "member", "base").items():
        rows.sort(key=lambda row: row["offset"])
        pairs = list(pairwise(rows))
        rising = all(row["n"] is not None for row in rows) and all(a["n"] < b["n"] for a, b in pairs)
        even = rising and all(b["n"] == a["n"] + 1 and (a["counted"] or not b["counted"]) for a, b in pairs)
        counted = all(row["counted"] for row in rows)
        series = {"g": g, "member": member, "base": base, "many": len(rows), "high": rows[-1]["offset"]}
        found.append({**series, "rising": rising, "even": even, "counted": counted})
    return found


def _numbers(inputs: Mapping[str, list[Row]]) -> list[Row]:
    """What `views/numbers.sql` makes, by walking through the records."""
    found: list[Row] = []
    for rows in by(inputs["records"], "g", "member", "base").values():
        most: int | None = None
        before: dict[str, Any] = {"before": None, "before_at": None}
        for row in sorted(rows, key=lambda row: row["offset"]):
            n = -1 if row["n"] is None else row["n"]
            again, last = most is not None and n <= most, before["before"]
            gap = row["counted"] and last is not None and n > last + 1
            if again or gap:
                found.append({**row, **before, "again": again, "gap": gap})
            most = n if most is None else max(most, n)
            if row["counted"]:
                before = {"before": row["n"], "before_at": row["offset"]}
    return found


def _twisted(
    spark: SparkSession, name: str, views: Sequence[Weakened], frames: tables.Frames, allowed: Allowed
) -> Iterable[tuple[Weakened, bool]]:
    """Of each weakened view of this name, whether it makes other rows than the view."""
    sql, columns = hinted(text(f"views/{name}")), frames[FRAME[name]].columns
    of_name = [mutant for mutant in views if mutant.rule == name]
    if not of_name:
        return
    # Each a query by itself would take longer, and to plan anew while a union of dozens runs takes longest.
    parts = [f"SELECT -1 AS mutant, {_PRINT.format(', '.join(columns))} FROM {{{FRAME[name]}}}"]
    for number, mutant in enumerate(of_name):
        assert mutant.what in sql, mutant
        twisted = sql.replace(mutant.what, mutant.then)
        parts.append(f"SELECT {number}, {_PRINT.format(', '.join(columns))} FROM (\n{twisted}\n)")
    kinds = ", ".join(KNOWN_FAULTS)
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        asked = view(spark, "\nUNION ALL\n".join(parts), frames, kinds=kinds, **allowed.literals()).collect()
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    prints = {row["mutant"]: (row["many"], row["print"]) for row in asked}
    for number, mutant in enumerate(of_name):
        yield mutant, prints[number] != prints[-1]


def judge_histories(spark: SparkSession, seeds: Iterable[int], views: Sequence[Weakened] = VIEWS) -> Judged:
    """Plays the histories of these seeds, and has them judged."""
    return judge(spark, table_of(seeds), views=views, faults=FAULTS)


def _bag(rows: list[Row], rule: str | None = None) -> Counter[str]:
    return Counter(key(row) for row in rows if rule is None or row["rule"] == rule)


def _apart(what: str, by_sql: Counter[str], by_oracle: Counter[str]) -> list[str]:
    return [f"{what}: missed by SQL: {row}" for row in by_oracle - by_sql] + [
        f"{what}: invented by SQL: {row}" for row in by_sql - by_oracle
    ]


def main() -> int:
    from pares.spark.session import session

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="N")
    parser.add_argument("--histories", type=int, default=500, metavar="N")
    asked = parser.parse_args()
    spark = session("pares-histories", memory="2g")
    judged = judge_histories(spark, range(asked.first, asked.first + asked.histories))
    for rule, count in sorted(Counter(row["rule"] for row in judged.by_oracle["violations"]).items()):
        print(f"{count:6} {rule}")
    said = judged.differences() + [f"nothing finds out {mutant}" for mutant in judged.survivors()]
    said += [f"no history has {what}" for what in judged.untouched()]
    print(
        "\n".join(said)
        or f"{asked.histories} histories: both say the same; {len(judged.weakened) + len(judged.views)} mutants found out"
    )
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
