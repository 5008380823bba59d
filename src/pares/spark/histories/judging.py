"""What the audit makes of a history: its tables over the facts that are stored, and not over the log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pares.core.errors import ConfigError
from pares.spark import audit, intervals, rows, tables
from pares.spark.facts.base import SCHEMA, arrow_schema
from pares.spark.histories.columns import TABLES
from pares.spark.histories.files import partition_of, read
from pares.spark.histories.manifest import Manifest
from pares.spark.reading import SMALL
from pares.spark.rules.base import Allowed
from pares.spark.rules.sifting import Files
from pares.spark.session import needing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pares.spark.result import AuditResult

DERIVED: Final = (
    *("terms", "violations", "overlaps", "takeovers", "gaps", "moves", "balance"),
    *("oddities", "slo_minute"),
)
"""Tables of `schema`, made anew of the facts for each batch; `oddities` are the audit's own anomalies."""
_PERIOD: Final = re.compile(r"([1-9]\d*)([smhd])")
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_COLUMNS: Final = [part.split()[0] for part in SCHEMA.split(", ")]

_SLO: Final = """
WITH since AS (SELECT {low} AS low), stretches AS (
  SELECT g, role, seat, 'there' AS what, a, b FROM {windows}
  UNION ALL SELECT g, role, seat, what, a, b FROM {segments}
  UNION ALL SELECT g, role, seat, 'paused', from_ms, to_ms FROM {gaps} WHERE cause = 'pause'),
lately AS (SELECT g, role, seat, what, greatest(a, low) AS a, b FROM stretches CROSS JOIN since),
cut AS (
  SELECT g, role, seat, what, a, b, explode(sequence(a DIV {by}, (b - 1) DIV {by})) AS n FROM lately WHERE b > a)
SELECT g AS `group`, role, seat, n * {by} AS from_ms, there_ms, there_ms - none_ms AS led_ms, none_ms, double_ms, paused_ms,
       (there_ms - none_ms) / there_ms AS availability
FROM (SELECT g, role, seat, n, {sums} FROM (SELECT *, least(b, (n + 1) * {by}) - greatest(a, n * {by}) AS ms FROM cut)
      GROUP BY g, role, seat, n) WHERE there_ms > 0
"""
_TIMES: Final = """
SELECT g AS `group`, cause, count(*) AS count, percentile_approx(ms, 0.5) AS p50_ms, percentile_approx(ms, 0.95) AS p95_ms,
       max(ms) AS max_ms
FROM {takeovers} CROSS JOIN (SELECT {low} AS low) WHERE ms IS NOT NULL AND at_ms >= low
GROUP BY g, cause ORDER BY g, count DESC, cause
"""
_MINUTES: Final = """
SELECT `group`, role, seat, from_ms AS minute_ms, led_ms, none_ms, double_ms, paused_ms FROM {stretches}
"""
_SUMS: Final = ", ".join(
    f"coalesce(sum(ms) FILTER (WHERE what = '{what}'), 0) AS {what}_ms"
    for what in ("there", "none", "double", "paused")
)


class Judging:
    """The audit of the newest log in a history, as far back as nothing is lost of it, worked out once. It is the source of
    facts that `audit.judged` asks for."""

    def __init__(self, spark: SparkSession, root: Path, batches: Sequence[Manifest]) -> None:
        self.last = batches[-1]
        self._spark, self._root = spark, root
        self._batches = [batch for batch in batches if batch.log == self.last.log]
        self._since = {number: done.since for number, done in self.last.partitions.items()}
        """With which batch the unbroken stretch began that is judged. [a term that was open before a lost range, and another
        one behind it, would be two leaders]"""
        self._allowed = Allowed(self.last.error_ms)
        few = self.entries <= SMALL
        self.here = pa.concat_tables([*self._read()]) if few else None

    @property
    def entries(self) -> int:
        return sum(high - low for _, low, high in self._ranges())

    @property
    def start(self) -> int:
        first: dict[str, int] = {}
        for number, low, _ in self._ranges():
            first.setdefault(number, low)
        return max(first.values(), default=0)

    def nothing(self, group: str | None) -> str:
        return f"the history in {self._root} has nothing of group {group!r}, or not from a snapshot of it on"

    @cached_property
    def facts(self) -> DataFrame:
        """The facts in the columns of the fold, as they stand in the files. [settled, as those of a log are that was just read:
        they are kept as objects, do not fit into the heap, and each query reads all columns of them from Spark's disk]"""
        frames = [
            self._spark.read.schema(TABLES[name]).parquet(*files) for name, files in self._files().items() if files
        ]
        whole = frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])
        return whole.withColumnRenamed("group", "g").select(*_COLUMNS)

    @property
    def files(self) -> Files | None:
        return None if self.here is not None else Files([path for paths in self._files().values() for path in paths])

    @cached_property
    def _frames(self) -> tables.Frames:
        short = self.here is not None
        facts, none = None if short else self.facts, rows.faults_of(self._spark, None)
        given: Any = {"engine": "auto", "here": self.here, "files": self.files}
        return tables.of_log(self._spark, facts, none, self._allowed, short=short, **given)

    @cached_property
    def _shown(self) -> tables.Frames:
        return tables.shown(self._frames, short=self.here is not None)

    def table(self, name: str) -> DataFrame:
        """One of `DERIVED`, with the log and the group before its columns."""
        if name == "slo_minute":
            frame = self._spark.sql(_MINUTES, stretches=self.slo("1m"))
            return self._needing(frame.selectExpr(f"{self._log} AS log", "*"))
        shown = self._shown["anomalies" if name == "oddities" else name]
        frame = shown.drop("group") if "group" in shown.columns else shown
        rest = [f"`{column}`" for column in frame.columns if column != "g"]
        return self._needing(frame.selectExpr(f"{self._log} AS log", "g AS `group`", *rest))

    @property
    def _log(self) -> str:
        """The log's identity as SQL says it."""
        log = self.last.log.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{log}'"

    def slo(self, by: str, role: str | None = None, window: str | None = None) -> DataFrame:
        """See `History.slo`."""
        sql = _SLO.replace("{by}", str(_period("by", by))).replace("{sums}", _SUMS).replace("{low}", self._low(window))
        frames = self._frames
        windows = intervals.windows(frames["facts"], frames["groups"])
        parts = {"windows": windows, "segments": frames["segments"], "gaps": frames["gaps"]}
        of: dict[str, Any] = {name: self._of(frame, role) for name, frame in parts.items()}
        return self._needing(self._spark.sql(sql, groups=frames["groups"], **of))

    def times(self, role: str | None, window: str | None) -> DataFrame:
        """See `History.takeover_times`."""
        takeovers = self._of(self._frames["takeovers"], role)
        sql = _TIMES.replace("{low}", self._low(window))
        return self._needing(self._spark.sql(sql, takeovers=takeovers, groups=self._frames["groups"]))

    def _needing(self, frame: DataFrame) -> DataFrame:
        return needing(frame, self._frames.in_files)

    def _of(self, frame: DataFrame, role: str | None) -> DataFrame:
        return frame if role is None else frame.where(frame["role"] == role)

    def _low(self, window: str | None) -> str:
        """In SQL, from when on the last `window` of what is known is."""
        return "0" if window is None else f"(SELECT max(last_ms) - {_period('window', window)} FROM {{groups}})"

    def audit(self, group: str, writes: Any, faults: Any) -> AuditResult:
        """See `History.audit`."""
        own = None
        if self.here is None:
            own = self.facts.where((self.facts["g"] == group) | self.facts["g"].isNull())
        mine = _Of(self, group)
        (result,) = audit.judged(self._spark, own, mine, group, self.last.url, self._allowed, faults, writes)
        return result

    def _files(self) -> dict[str, list[str]]:
        """The files of the facts, and the newest that say how the log ends."""
        facts = [
            str(self._root / file.path)
            for batch in self._batches
            for file in batch.files.get("facts", ())
            if batch.batch >= self._since.get(str(partition_of(file.path)), 0)
        ]
        ends = [str(self._root / done.ends) for done in self.last.partitions.values() if done.ends]
        return {"facts": facts, "ends": ends}

    def _ranges(self) -> Iterator[tuple[str, int, int]]:
        for batch in self._batches:
            for number, (low, high) in batch.ranges.items():
                if batch.batch >= self._since.get(number, 0):
                    yield number, low, high

    def _read(self) -> list[pa.Table]:
        empty = arrow_schema().empty_table()
        found = [read(self._root, file) for files in self._files().values() for file in files]
        return [empty, *(table.rename_columns(_renamed(table)).select(_COLUMNS) for table in found)]


def _period(what: str, text: str) -> int:
    """In milliseconds. Raises `ConfigError`."""
    found = _PERIOD.fullmatch(text)
    if found is None:
        raise ConfigError(f"{what}={text!r}: give a number and one of s, m, h, d, such as 1h")
    return int(found[1]) * _UNIT_MS[found[2]]


class _Of:
    """A history's facts of one group."""

    def __init__(self, whole: Judging, group: str) -> None:
        self.entries, self.start, self.nothing = whole.entries, whole.start, whole.nothing
        self.here, self.files = whole.here, whole.files
        if whole.here is not None:
            mine = [name in (None, group) for name in whole.here.column("g").to_pylist()]
            self.here = whole.here.filter(pa.array(mine, pa.bool_()))
        if whole.files is not None:
            self.files = whole.files._replace(group=group)


def _renamed(table: pa.Table) -> list[str]:
    return ["g" if name == "group" else name for name in table.column_names]
