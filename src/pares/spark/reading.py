"""Reading a whole log for an audit: what stands between its first entry and its end as they are now, folded once.

Rules, each with what breaks without it:

* The bounds are fixed before anything is read. [a log that is written to all the while would never end]
* Nothing at the beginning is missed in silence. A log may lose its beginning while it is read: members trim behind their
  snapshots, brokers delete what is old. The source then fails (`LedgerGap`), and here all of it is read again from where
  the log begins now. [the fold of a log without its beginning is a fold of another history]
* Spark runs the reading in processes of its own, and what fails there comes back as the text of a traceback. What pares has
  raised on purpose is found in it and raised as it was. [two pages of Java instead of "no broker answers"]
* A long Kafka log is read in several ranges at once and put in order afterwards, by offset; a short one, and a SQLite file,
  in one go, which needs no ordering. [reading from brokers takes several times as long as folding]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pares.core import errors
from pares.core.errors import LedgerGap, ParesError
from pares.ledger.registry import scheme_of
from pares.spark.facts import claims as fold
from pares.spark.facts import neli
from pares.spark.logs import first_and_end, open_to_read
from pares.spark.source import LedgerSource
from pares.spark.verdict import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRIES: Final = 5
"""How often a log that loses its beginning meanwhile is read anew."""
PER_RANGE: Final = 200_000
"""Entries from which on a further range pays: starting to read another one takes a second."""
_RAISED: Final = re.compile(r"^(?:\S*\.)?pares\.core\.errors\.(\w+): (.*)$", re.MULTILINE)


class Reading:
    """One partition of a ledger, as Spark reads it.

    `url` is good in whatever folder it is opened; `told` is how the user has called it.
    """

    def __init__(
        self, spark: SparkSession, url: str, partition: int, client: Mapping[str, str], told: str | None = None
    ) -> None:
        spark.dataSource.register(LedgerSource)
        self._told = told or url
        self._spark, self._url, self._partition, self._client = spark, url, partition, dict(client)
        self.start = self.end = 0

    def fold(self, group: str, query: str, shared_out: int = 0) -> tuple[Row, DataFrame]:
        """The facts of the group, cached, and the one row that `query` makes of them; `log_from` is added to it.

        `shared_out`: the group runs NELI or Fast NELI, in so many partitions; 0: it runs claims, in one."""
        for left in reversed(range(TRIES)):
            facts = self._facts(group, shared_out).cache()
            try:
                head: Row = self._spark.sql(query, facts=facts).toArrow().to_pylist()[0]
            except Exception as error:
                facts.unpersist()
                raised = _as_raised(error)
                if isinstance(raised, LedgerGap) and left:
                    continue
                if raised is None:
                    raise
                raise raised from None
            except BaseException:
                facts.unpersist()
                raise
            return {**head, "log_from": self.start}, facts
        raise AssertionError("the last try returns or raises")

    def _facts(self, group: str, shared_out: int) -> DataFrame:
        if not shared_out:
            self.look()
            return fold.facts(self._entries(), group, self.start)
        parts = [Reading(self._spark, self._url, n, self._client, self._told) for n in range(shared_out)]
        found: list[DataFrame] = []
        for number, part in enumerate(parts):
            part.look()
            found.append(neli.facts(part._entries(), group, number, part.start))
        self.start = max(part.start for part in parts)
        return reduce(lambda all_, more: all_.unionAll(more), found)

    def nothing(self, group: str) -> str:
        """Why there is nothing of `group` to audit."""
        log = self._source().load()
        groups = [row["g"] for row in log.where("g IS NOT NULL").select("g").distinct().sort("g").limit(10).collect()]
        where = f"partition {self._partition} of {self._told}"
        if group in groups:
            return (
                f"{where} begins at offset {self.start} and has no snapshot of group {group!r} from there on: "
                "what its records mean can't be known. Audit before the log is trimmed, or after the next snapshot"
            )
        has = f"it has records of {', '.join(map(repr, groups))}" if groups else "it has no records of any group"
        return f"there is no group {group!r} in {where}: {has}"

    def look(self) -> None:
        """Fixes the bounds."""
        with open_to_read(self._url, self._client) as opened:
            self.start, self.end = first_and_end(opened.log, self._partition)

    def _entries(self) -> DataFrame:
        """All entries, in one Spark partition, in order."""
        ranges = self.ranges()
        source = self._source().option("start", str(self.start)).option("end", str(self.end))
        log = source.option("envelope", "false").option("splits", str(ranges)).load()
        return log if ranges == 1 else log.repartition(1).sortWithinPartitions("offset")

    def ranges(self) -> int:
        """In how many parts the log is read at once."""
        if not scheme_of(self._url).ranges:
            return 1
        return max(1, min(self._spark.sparkContext.defaultParallelism, (self.end - self.start) // PER_RANGE))

    def _source(self) -> Any:
        source = self._spark.read.format("pares").option("url", self._url).option("partition", str(self._partition))
        for name, value in self._client.items():
            source = source.option(f"kafka.{name}", value)
        return source


def _as_raised(error: Exception) -> ParesError | None:
    """The error of pares' own that made a job of Spark's fail; None if it was none."""
    if isinstance(error, ParesError):
        return error
    found = _RAISED.findall(str(error))
    if not found:
        return None
    name, text = found[-1]
    kind = getattr(errors, name, None)
    return kind(text) if isinstance(kind, type) and issubclass(kind, ParesError) else None
