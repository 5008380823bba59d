"""One pass over the log of a topic: the entries of each partition, in order, to the facts of each group that is asked for.

Spark hands over one log partition as one task. All groups in it are folded side by side in that task, so a log is read once,
however many groups share it. A group of NELI's family has records in all partitions, one that runs claims in the one that the
ledger's URL names; which of them a group is, its first record says. ALLCALL's calls stand in a topic of their own, the bus.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from pares.core.wire.neli_records import KINDS
from pares.core.wire.records import BadRecord, Unknown, decode
from pares.spark.facts.allcall import CallHistory
from pares.spark.facts.base import SCHEMA, Fact, batches
from pares.spark.facts.claims import KEPT_PAYLOAD, EntryLike, History
from pares.spark.facts.neli import TenureHistory

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

HOLES: Final = 1000
"""As many holes in the offsets are told of one by one."""


class Partition:
    """The facts of the groups in one partition: of one, of several, or of all (None). A function of the entries alone.

    `claims`: whether groups that run claims are looked for here. `error_ms`: see `History`. `bus`: the entries are messages of
    a bus, each behind its subject.
    """

    def __init__(
        self,
        group: str | frozenset[str] | None,
        number: int,
        start: int,
        *,
        claims: bool,
        error_ms: int = 0,
        bus: bool = False,
    ) -> None:
        self._groups = frozenset((group,)) if isinstance(group, str) else group
        self._number, self._start = number, start
        self._claims, self._error_ms, self._bus = claims, error_ms, bus
        self._folds: dict[str, History | TenureHistory | CallHistory | None] = {}
        self._next: int | None = None
        self._holes = 0

    def feed(self, entries: Iterable[EntryLike]) -> Iterator[tuple[str | None, list[Fact]]]:
        """The facts that follow from `entries`, by group."""
        entries = list(entries)
        strays = self._strays(entries)
        shares: dict[str, list[EntryLike]] = {}
        for entry in entries:
            try:
                group, induced = self._whose(entry[2])
            except BadRecord as bad:
                strays.append(Fact("bad", entry[0], entry[1], cause=bad.reason, payload=bytes(entry[2][:KEPT_PAYLOAD])))
                continue
            if self._groups is not None and group not in self._groups:
                continue
            if group not in self._folds:
                self._folds[group] = self._fold(group, induced=induced)
            shares.setdefault(group, []).append(entry)
        if strays:
            yield None, strays
        for group, share in shares.items():
            fold = self._folds[group]
            if fold is not None:
                yield group, fold.feed(share)

    def finish(self) -> Iterator[tuple[str | None, list[Fact]]]:
        """What can be said only at the end."""
        for group, fold in self._folds.items():
            if fold is not None:
                yield group, fold.finish()

    def ends(self) -> Iterator[tuple[str | None, list[Fact]]]:
        """What can be said of the log's end as it is now, of groups that stand on sound ground; feeding may go on."""
        for group, fold in self._folds.items():
            if fold is not None and (not isinstance(fold, History) or fold.settled):
                yield group, fold.finish()

    def _whose(self, payload: bytes) -> tuple[str, bool]:
        """The entry's group, and whether it is a record of NELI's family."""
        if self._bus:
            return payload.partition(b"\n")[0].decode("utf-8", "backslashreplace"), False
        record = decode(payload)
        return record.g, isinstance(record, Unknown) and record.k in KINDS

    def _fold(self, group: str, *, induced: bool) -> History | TenureHistory | CallHistory | None:
        if self._bus:
            return CallHistory(group, self._start)
        if induced:
            return TenureHistory(group, self._number, self._start)
        return History(group, self._start, self._error_ms) if self._claims else None

    def _strays(self, entries: list[EntryLike]) -> list[Fact]:
        """Holes between offsets: lawful in some ledgers, and good to know where records are missed."""
        found: list[Fact] = []
        for offset, at_ms, _ in entries:
            if self._next is not None and offset > self._next and self._holes < HOLES:
                self._holes += 1
                found.append(Fact("hole", self._next, at_ms, ref=offset))
            self._next = offset + 1
        return found


def facts(
    log: DataFrame,
    group: str | frozenset[str] | None,
    starts: dict[int, int],
    claims_in: int,
    error_ms: int = 0,
    *,
    bus: bool = False,
) -> DataFrame:
    """The facts from the rows (offset, timestamp_ms, payload, partition) of one topic: each log partition one Spark
    partition, in order, as the source `pares` makes it unless told to split. Runs where the data is, without a shuffle.

    `starts`: where each log partition begins; `claims_in`: the one in which groups run claims; `bus`: see `Partition`.
    """

    def run(entries: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fold: Partition | None = None
        for batch in entries:
            if batch.num_rows == 0:
                continue
            if fold is None:
                number = batch.column(3)[0].as_py()
                claims = number == claims_in
                fold = Partition(group, number, starts[number], claims=claims, error_ms=error_ms, bus=bus)
            columns = [batch.column(i).to_pylist() for i in range(3)]
            for name, rows in fold.feed(zip(*columns, strict=True)):
                yield from batches(name, rows)
        if fold is not None:
            for name, rows in fold.finish():
                yield from batches(name, rows)

    return log.select("offset", "timestamp_ms", "payload", "partition").mapInArrow(run, SCHEMA)  # type: ignore[arg-type]
