"""Reading a whole log for an audit: what stands between its first entry and its end as they are now, read and folded once.

Rules, each with what breaks without it:

* The bounds are fixed before anything is read. [a log that is written to all the while would never end]
* Nothing at the beginning is missed in silence. A log may lose its beginning while it is read: members trim behind their
  snapshots, brokers delete what is old. The source then fails (`LedgerGap`), and here all of it is read again from where
  the log begins now. [the fold of a log without its beginning is a fold of another history]
* Spark runs the reading in processes of its own, and what fails there comes back as the text of a traceback. What pares has
  raised on purpose is found in it and raised as it was. [two pages of Java instead of "no broker answers"]
* The facts are settled before anything is asked of them (`session.settled`), and what is asked is asked of that. [a
  cached frame forgets its rows when a view over it is dropped, as Spark's `sql` does after each query: then every question
  reads the log]
* A short log is folded by this process, by the same code. [workers take seconds to start, and the fold of a demo takes none]
* A long log is cut into ranges, which are read and folded at once, each from a snapshot, and joined (`facts.ranged`). [one
  task reads and folds, and all other cores wait]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pares.core import errors
from pares.core.errors import CapabilityError, LedgerGap, ParesError
from pares.core.wire.records import BadRecord, decode
from pares.ledger.bus import BUS_TOPIC
from pares.spark.facts.base import arrow_schema, batches
from pares.spark.facts.cuts import Cut, cuts
from pares.spark.facts.folding import Partition
from pares.spark.facts.spread import facts
from pares.spark.facts.tasks import Task
from pares.spark.logs import entries_of, first_and_end, open_to_read
from pares.spark.rules.sifting import Files
from pares.spark.source import LedgerSource
from pares.spark.source.ledger import make_known

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRIES: Final = 5
"""How often a log that loses its beginning meanwhile is read anew."""
PER_RANGE: Final = 200_000
"""Entries that pay for a range of their own: opening the ledger, and a lead-in."""
SMALL: Final = 20_000
"""Up to so many entries are read and folded by this very process: Spark's workers take longer to start."""
MOST_RANGES: Final = 64
"""In so many ranges at the most: the state of each comes to the driver."""
_NAMED: Final = 10
"""As many groups are named where the one that is asked for is not there."""
_RAISED: Final = re.compile(r"^(?:\S*\.)?pares\.core\.errors\.(\w+): (.*)$", re.MULTILINE)


class Reading:
    """A topic of a ledger, as Spark reads it; without a session (`spark` None) it can only be read here, by `rows`.

    `url` is good in whatever folder it is opened; `told` is how the user has called it. `claims_in`: the partition in which
    groups run claims.
    """

    def __init__(
        self, spark: SparkSession | None, url: str, claims_in: int, client: Mapping[str, str], told: str | None = None
    ) -> None:
        self._told = told or url
        self._spark, self._url, self._partition, self._client = spark, url, claims_in, dict(client)
        self._bus = url.endswith(f"#{BUS_TOPIC}")
        self._bounds: dict[int, tuple[int, int]] = {}
        self._cuts: dict[int, list[Cut]] = {}
        self._identity = ""
        self.here: pa.Table | None = None
        """The facts of a short log."""
        self.files: Files | None = None
        """The files that have the facts of a long one, if they are those alone."""

    def fold(self, group: str | frozenset[str] | None, *, induced: bool, error_ms: int = 0) -> DataFrame | None:
        """The facts of the group or groups (None: of all), settled: the log has been read, and is not read again. None of a
        short log: they are here.

        `induced`: the group runs a protocol of NELI's family, or any may, so all partitions are read.
        """
        assert self._spark is not None
        for left in reversed(range(TRIES)):
            try:
                self.look(group, everywhere=induced)
                if self.entries <= SMALL:
                    self.here = self._here(group, error_ms)
                    return None
                frame, self.files = facts(self._spark, self._tasks(group, error_ms))
                return frame
            except Exception as error:
                raised = as_raised(error)
                if isinstance(raised, LedgerGap) and left:
                    continue
                if raised is None:
                    raise
                raise raised from None
        raise AssertionError("the last try returns or raises")

    def rows(self, group: str, *, induced: bool, error_ms: int, most: int) -> pa.Table:
        """The same facts, folded by this process. Raises `CapabilityError` for a log of more than `most` entries."""
        for left in reversed(range(TRIES)):
            self.look(group, everywhere=induced)
            try:
                return self._here(group, error_ms, most)
            except LedgerGap:
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    def _tasks(self, group: str | frozenset[str] | None, error_ms: int) -> list[Task]:
        """Each log partition in ranges."""
        found: list[Task] = []
        for number, (low, high) in self._bounds.items():
            claims = number == self._partition
            begins = [Cut(low, low), *self._cuts.get(number, ())]
            for cut, end in zip(begins, [*(cut.at for cut in begins[1:]), high], strict=True):
                task = Task(
                    part=len(found),
                    url=self._url,
                    client=self._client,
                    identity=self._identity,
                    partition=number,
                    origin=low,
                    since=cut.since,
                    low=cut.at,
                    high=end,
                    group=group,
                    claims=claims,
                    error_ms=error_ms,
                    bus=self._bus,
                )
                found.append(task)
        return found

    def _here(self, group: str | frozenset[str] | None, error_ms: int, most: int | None = None) -> pa.Table:
        """Counts entries as it reads them: bounds say little where offsets have holes, as a restart of Redis leaves them."""
        found: list[Any] = []
        count = 0
        with open_to_read(self._url, self._client) as opened:
            for number, (low, high) in self._bounds.items():
                claims = number == self._partition
                share = Partition(group, number, low, claims=claims, error_ms=error_ms, bus=self._bus)
                for entries in entries_of(opened.log, number, low, high):
                    count += len(entries)
                    if most is not None and count > most:
                        raise CapabilityError(
                            f"{self._told} has more than {most} records, which are not judged without Spark: install a Java "
                            "and leave out --engine"
                        )
                    found += [batch for name, rows in share.feed(entries) for batch in batches(name, rows)]
                found += [batch for name, rows in share.finish() for batch in batches(name, rows)]
        return pa.Table.from_batches(found, arrow_schema())

    @property
    def entries(self) -> int:
        """How many entries there are, holes included."""
        return sum(end - start for start, end in self._bounds.values())

    @property
    def start(self) -> int:
        """Where the log begins; of several partitions the latest beginning."""
        return max((start for start, _ in self._bounds.values()), default=0)

    def nothing(self, group: str | None) -> str:
        """Why there is nothing of `group` to audit."""
        groups = self._groups()
        where = f"partition {self._partition} of {self._told}"
        if group in groups:
            return (
                f"{where} begins at offset {self.start} and has no snapshot of group {group!r} from there on: "
                "what its records mean can't be known. Audit before the log is trimmed, or after the next snapshot"
            )
        has = f"it has records of {', '.join(map(repr, groups))}" if groups else "it has no records of any group"
        if group is None:
            return f"there is no group to audit in {where}: {has}"
        return f"there is no group {group!r} in {where}: {has}"

    def _groups(self) -> list[str]:
        """Some groups that have records there."""
        if self._spark is not None:
            log = self._source().load().where("g IS NOT NULL")
            return [row["g"] for row in log.select("g").distinct().sort("g").limit(_NAMED).collect()]
        found: set[str] = set()
        with open_to_read(self._url, self._client) as opened:
            low, high = first_and_end(opened.log, self._partition)
            for entries in entries_of(opened.log, self._partition, low, high):
                for entry in entries:
                    with suppress(BadRecord):
                        found.add(decode(entry.payload).g)
        return sorted(found)[:_NAMED]

    def look(self, group: str | frozenset[str] | None = None, *, everywhere: bool = False) -> None:
        """Fixes the bounds: of the partition for claims, or of all; and where a long one is cut. Asks last which log it is, as
        one that is replaced meanwhile is another one then."""
        with open_to_read(self._url, self._client) as opened:
            numbers = range(opened.log.partitions) if everywhere else [self._partition]
            self._bounds = {number: first_and_end(opened.log, number) for number in numbers}
            self._cuts = {}
            low, high = self._bounds.get(self._partition, (0, 0))
            ranges = min(MOST_RANGES, (high - low) // PER_RANGE)
            if ranges > 1 and not self._bus and self._spark is not None:
                self._cuts[self._partition] = cuts(opened.log, self._partition, low, high, ranges, group)
            self._identity = opened.log.identity()

    def _source(self) -> Any:
        assert self._spark is not None
        make_known(self._spark, LedgerSource)
        source = self._spark.read.format("pares").option("url", self._url).option("partition", str(self._partition))
        for name, value in self._client.items():
            source = source.option(f"kafka.{name}", value)
        return source


def as_raised(error: Exception) -> ParesError | None:
    """The error of pares' own that made a job of Spark's fail; None if it was none."""
    if isinstance(error, ParesError):
        return error
    found = _RAISED.findall(str(error))
    if not found:
        return None
    name, text = found[-1]
    kind = getattr(errors, name, None)
    return kind(text) if isinstance(kind, type) and issubclass(kind, ParesError) else None
