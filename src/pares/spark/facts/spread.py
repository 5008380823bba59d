"""The fold of a whole log by Spark: its ranges at once, then what did not fit again, range by range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pares.spark.facts.base import SCHEMA, arrow_schema, batches
from pares.spark.facts.claims import STEPS
from pares.spark.facts.folding import HOLES
from pares.spark.facts.joined import Joined, join
from pares.spark.facts.rows import PART
from pares.spark.facts.tasks import Task, run
from pares.spark.host.kept import Kept
from pares.spark.rules.sifting import STATE, Files
from pares.spark.session import needing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

_MOST = {"hole": HOLES, "step": STEPS}


def facts(spark: SparkSession, tasks: Sequence[Task]) -> tuple[DataFrame, Files | None]:
    """The facts of the tasks' ranges, which are in order and leave nothing out of a log partition, as one fold over each
    partition would tell them; kept. And the files that have them, if there are any with these alone. `tasks[n].part` is n."""
    first = run(spark, tasks)
    folding = _Folding(spark, first, _states(first.frame))
    ends: list[pa.RecordBatch] = []
    for number in sorted({task.partition for task in tasks}):
        for group, rows in folding.joined([task for task in tasks if task.partition == number]).finish():
            ends += batches(group, rows)
    import pyarrow as pa

    last = pa.Table.from_batches(ends, arrow_schema())
    files = None if folding.again or folding.over or not first.files else Files(first.files, ends=last)
    return folding.frame(last), files


def _states(frame: DataFrame) -> dict[int, bytes]:
    rows = frame.where(f"kind = '{STATE}'").select(PART, "payload").toArrow().to_pylist()
    return {row[PART]: row["payload"] for row in rows}


@dataclass
class _Folding:
    spark: SparkSession
    first: Kept
    states: dict[int, bytes]
    again: list[tuple[int, Kept]] = field(default_factory=list[tuple[int, "Kept"]])
    """Ranges that some groups of which were folded again, and the rows of that."""
    not_used: list[tuple[int, list[str]]] = field(default_factory=list[tuple[int, list[str]]])
    """Ranges, and the groups of them that were folded again."""
    over: list[tuple[list[int], str, str | None]] = field(default_factory=list[tuple[list[int], str, str | None]])
    """(ranges, kind, group): of these there are more than are told one by one."""

    def joined(self, tasks: Sequence[Task]) -> Joined:
        """Of one log partition."""
        by_part = {task.part: task for task in tasks}

        def again(part: int, groups: list[str], state: bytes) -> bytes:
            self.not_used.append((part, groups))
            rows = run(self.spark, [replace(by_part[part], part=0, state=state)])
            self.again.append((part, rows))
            return _states(rows.frame)[0]

        joined = join(list(by_part), self.states.pop, again)
        self.over += [(list(by_part), kind, group) for kind, group in joined.over]
        return joined

    def frame(self, ends: pa.Table) -> DataFrame:
        from pyspark.sql import functions as f

        used = self.first.frame.where(f"kind <> '{STATE}'")
        for part, groups in self.not_used:
            used = used.where(_but((f.col(PART) == part) & f.col("g").isin(groups)))
        again = [
            rows.frame.where(f"kind <> '{STATE}'").selectExpr(*_columns(), f"{part} AS {PART}")
            for part, rows in self.again
        ]
        frames = [used, *again]
        all_ = reduce(lambda one, more: one.unionAll(more), frames)
        for parts, kind, group in self.over:
            of = f.col(PART).isin(parts) & (f.col("kind") == kind) & f.col("g").eqNullSafe(f.lit(group))
            told = all_.where(of).select("offset").sort("offset").limit(_MOST[kind]).toArrow()
            all_ = all_.where(_but(of & (f.col("offset") > told.column(0)[-1].as_py())))
        last = self.spark.createDataFrame(ends)
        return needing(all_.select(*_columns()).unionAll(last), (self.first, self.again))


def _columns() -> list[str]:
    return [column.split()[0] for column in SCHEMA.split(", ")]


def _but(what: Column) -> Column:
    """All rows but those of which it is true; it may be NULL of some."""
    from pyspark.sql import functions as f

    return ~f.coalesce(what, f.lit(False))
