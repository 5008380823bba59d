"""What a reader gets of a history: its tables as the manifests name them, and what the audit makes of them."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pares.core.errors import CapabilityError, ConfigError, ParesError
from pares.spark.histories import delta, disk
from pares.spark.histories.columns import TABLES
from pares.spark.histories.delta import Format
from pares.spark.histories.files import is_named_as_one, is_whole, partition_of
from pares.spark.histories.judging import DERIVED, Judging
from pares.spark.histories.manifest import Chain, Manifest
from pares.spark.histories.rates import Use, rates, used
from pares.spark.histories.task import AGAIN
from pares.spark.histories.updating import Order, check, update
from pares.spark.host.memory import in_memory
from pares.spark.host.room import room
from pares.spark.logs import LONG
from pares.spark.rows import repeatable
from pares.spark.session import frame_of, while_kept
from pares.spark.source.options import OnLoss

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pares.spark.result import AuditResult
    from pares.spark.rows import Faults

BATCHES: Final = (
    "batch bigint, log string, url string, token bigint, entries bigint, rows bigint, bytes bigint, pares string"
)
LINEAGE: Final = (
    "batch bigint, log string, partition int, from_offset bigint, to_offset bigint, table string, path string, rows bigint, "
    "bytes bigint, pares string"
)
_AROUND: Final = 5
_DAY_S: Final = 86_400.0


class History:
    """The tables of the history in a folder. A frame has what was committed when it was asked for."""

    def __init__(self, spark: SparkSession | None, path: str | Path, format: Format | None = None) -> None:
        self._spark = spark
        self.path = Path(path).resolve()
        delta.checked(self.path, format)
        self._asked = format
        self._chain = Chain(self.path)
        self._judging: Judging | None = None

    # Writing -------------------------------------------------------------------------------------------------------------

    def update(
        self,
        url: str,
        *,
        groups: Sequence[str] | None = None,
        partitions: Sequence[int] | None = None,
        token: int = 0,
        max_records: int | None = None,
        on_loss: OnLoss = "error",
        options: Mapping[str, str] | None = None,
        clock_error_ms: int = 0,
    ) -> Manifest | None:
        """Adds what the log at `url` has beyond the last batch, as one batch; returns it, or None if there is nothing new.

        `groups`      those to be kept, always the same in one history (None: all)
        `partitions`  those to be read now (None: all)
        `token`       of the term in which this runs: a batch under a lower one than the last batch's is refused
        `max_records` how many offsets the batch takes at most, shared out among the partitions
        `on_loss`     `error`, or `mark`: what the log no longer has becomes a row of `anomalies`, and the fold begins anew
                      behind it, by the first snapshot there
        `options`     settings of a Kafka ledger's clients
        `clock_error_ms` how far the members' clocks may be off, always the same in one history

        Promised: the batch is in the history whole or not at all, begins where the last one ended, and has the same bytes
        if it is done again. Nothing is written to the ledger, and no setting of Spark's is changed.

        Raises `LedgerGap` (with the range) and `LedgerRewound` for what is lost, `Stale` for a lower token, `Overtaken` if
        another writer was faster, `ConfigError` for a history of other groups, and what reading a ledger raises. A table of
        Delta that could not follow is a `ParesError`, a `ConfigError` or, without deltalake, a `CapabilityError`, which say
        what to do; the batch may be in the history then.
        """
        order = Order(url, groups, partitions, token, max_records, on_loss, dict(options or {}), clock_error_ms)
        check(order)
        try:
            made = update(self._spark, self.path, order, self._begin)
        except ParesError:
            # Nothing can be added, and a writer before may have been killed behind its manifest.
            self._publish()
            raise
        self._publish()
        return made

    def _begin(self) -> None:
        if self.format == "delta":
            delta.begin(self.path)

    def _publish(self) -> None:
        if self.format == "delta":
            with room(self.path, AGAIN):
                delta.publish(self.path, self._chain)

    def sweep(self, older_than_s: float = _DAY_S) -> list[Path]:
        """Removes what writers have left that were stopped before they committed, if it is older than that; returns it. A
        writer that takes longer than `older_than_s` for a batch loses its work."""
        named = {self.path / file.path for batch in self._chain.read() for of in batch.files.values() for file in of}
        before = time.time() - older_than_s
        found = [
            path
            for table in TABLES
            for path in (self.path / table).glob("*")
            if path not in named and (is_named_as_one(path.name) or path.name.startswith(disk.DRAFT))
        ]
        found += (self.path / "manifests").glob(f"{disk.DRAFT}*")
        found += self.path.glob(f"{disk.DRAFT}*")
        old: list[Path] = []
        for path in sorted(found):
            with contextlib.suppress(FileNotFoundError):  # another one sweeps, too, or a writer has moved it
                if path.stat().st_mtime < before:
                    if path.is_dir():
                        shutil.rmtree(path)
                    else:
                        path.unlink()
                    old.append(path)
        return old

    # Reading -------------------------------------------------------------------------------------------------------------

    @property
    def format(self) -> Format:
        """`delta`: each stored table but `worlds` is a table of Delta Lake, too."""
        return "delta" if self._asked == "delta" or delta.is_begun(self.path) else "parquet"

    @property
    def last(self) -> Manifest | None:
        """The newest batch."""
        return self._chain.last()

    @property
    def is_long(self) -> bool:
        """Whether Spark has work of minutes with it: see `session.session`."""
        last = self._chain.last()
        return last is not None and sum(done.upto for done in last.partitions.values()) >= LONG

    def check(self) -> list[str]:
        """What is wrong with the files, in words; nothing if each is there as it was written. Reads all of them."""
        wrong = [
            f"batch {batch.batch}: {file.path} is missing, or is not as it was written"
            for batch in self._chain.read()
            for files in batch.files.values()
            for file in files
            if not is_whole(self.path, file)
        ]
        return wrong + (delta.differences(self.path, self._chain) if self.format == "delta" else [])

    def table(self, name: str) -> DataFrame:
        """A table: stored (`columns.TABLES`), of the manifests (`batches`, `lineage`), or made by the audit of the newest log
        (`judging.DERIVED`), with the columns that `schema.TABLES` has. Raises `ConfigError` for no such table, and
        `CapabilityError` where the audit, which is worked out at once, needs more than the heap of a session that was started
        here; what is asked of the frame is Spark's."""
        if name in TABLES:
            return self._stored(name)
        if name in DERIVED:
            with in_memory():
                return self._judged().table(name)
        if name in ("batches", "lineage"):
            return self._of_manifests(name)
        if name == "rate_minute":
            return rates(self._session(), self._stored("records"), self._stored("facts"))
        known = ", ".join((*TABLES, *DERIVED, "batches", "lineage", "rate_minute"))
        raise ConfigError(f"a history has no table {name!r}: {known}")

    @property
    def violations(self) -> DataFrame:
        """Every rule that was broken, or may have been, with the evidence."""
        return self.table("violations")

    @property
    def terms(self) -> DataFrame:
        """Every term of every seat."""
        return self.table("terms")

    @property
    def takeovers(self) -> DataFrame:
        """How long each seat was without a leader when it changed hands, and why it did."""
        return self.table("takeovers")

    def slo(self, by: str = "1h", *, role: str | None = None, window: str | None = None) -> DataFrame:
        """How long each seat was there, led, not led, led by two and paused, in stretches of `by` (such as `1m`, `1h`, `7d`).

        `role`   only this one's seats
        `window` only the last so much of what is known (such as `30d`)

        Columns: group, role, seat, from_ms, there_ms, led_ms, none_ms, double_ms, paused_ms (a part of none_ms), availability
        (led_ms of there_ms)."""
        with in_memory():
            return self._judged().slo(by, role, window)

    def takeover_times(self, *, role: str | None = None, window: str | None = None) -> DataFrame:
        """How long takeovers took, by group and cause: count, p50_ms, p95_ms, max_ms. `role`, `window`: see `slo`."""
        with in_memory():
            return self._judged().times(role, window)

    def capacity(self) -> list[Use]:
        """What each group has written in the newest log, and how fast, the most first. Raises `ConfigError` where there is no
        history."""
        last = self._last()
        return used(self._stored("records"), self.table("rate_minute"), last.log)

    def why(self, row: Any) -> DataFrame:
        """The records around those that a violation or an anomaly names, in the log's order: of the row's log (where it says
        none, the newest), of the partition that it names or, by what the log says, can only mean, and of its group."""
        told: dict[str, Any] = row if isinstance(row, dict) else row.asDict()
        offsets = told.get("offsets") or [
            told[name] for name in ("from_offset", "to_offset") if told.get(name) is not None
        ]
        if not offsets:
            raise ConfigError("the row names no offsets, so there is nothing to be shown around them")
        near = " OR ".join(f"offset BETWEEN {int(at) - _AROUND} AND {int(at) + _AROUND}" for at in offsets)
        records = self.table("records").where(near)
        log, group = told.get("log") or self._last().log, told.get("group")
        records = records.where(records["log"] == log)
        partitions = self._partitions(log, told)
        if partitions:
            records = records.where(records["partition"].isin(partitions))
        mine = records if group is None else records.where(records["group"] == group)
        return mine.orderBy("partition", "offset")

    def _partitions(self, log: str, told: Mapping[str, Any]) -> list[int]:
        """Where what a row names can stand. A role and all of its records belong to one partition, of however many the group
        has records in. Empty: in any."""
        if told.get("partition") is not None:
            return [int(told["partition"])]
        known = {name: told[name] for name in ("group", "role") if told.get(name) is not None}
        read = {number for batch in self._chain.read() if batch.log == log for number in batch.ranges}
        if len(read) < 2 or "group" not in known:
            return []
        facts = self._stored("facts")
        found = facts.where(facts["log"] == log)
        for name, value in known.items():
            found = found.where(facts[name] == value)
        return sorted(found.select("partition").distinct().toArrow().column(0).to_pylist())

    def audit(
        self,
        group: str,
        writes: str | Path | DataFrame | None = None,
        faults: str | Path | DataFrame | Faults | None = None,
    ) -> AuditResult:
        """The audit of a group by what is stored: the same as `pares.spark.audit.audit` of the log itself, which may be long
        gone. Raises `ConfigError` for a group that the history does not have, and `CapabilityError` with a heap that is too
        small."""
        struck = repeatable(faults)

        def work_out() -> AuditResult:
            try:
                return self._judged().audit(group, writes, struck)
            except Exception:
                self._judging = None  # its facts may be what is lost
                raise

        with in_memory():
            return while_kept(work_out)

    def _judged(self) -> Judging:
        last = self._last()
        if self._judging is None or self._judging.last.batch != last.batch:
            self._judging = Judging(self._session(), self.path, self._chain.read())
        return self._judging

    def _last(self) -> Manifest:
        last = self._chain.last()
        if last is None:
            raise ConfigError(f"there is no history in {self.path}: update it first")
        return last

    def _session(self) -> SparkSession:
        if self._spark is None:
            raise CapabilityError("this history was opened without Spark, which its tables need: history(spark, path)")
        return self._spark

    def _stored(self, name: str) -> DataFrame:
        spark = self._session()
        files = [str(self.path / file.path) for batch in self._chain.read() for file in batch.files.get(name, ())]
        if not files:
            return spark.createDataFrame([], TABLES[name])
        return spark.read.schema(TABLES[name]).parquet(*files)

    def _of_manifests(self, name: str) -> DataFrame:
        import pyarrow as arrow

        from pares.spark.source.columns import arrow as named

        rows = (_batch_rows if name == "batches" else _lineage_rows)(self._chain.read())
        table: pa.Table = arrow.Table.from_pylist(rows, schema=named(BATCHES if name == "batches" else LINEAGE))
        return frame_of(self._session(), table)


def _batch_rows(batches: Sequence[Manifest]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in batches:
        files = [file for of in batch.files.values() for file in of]
        what = {name: getattr(batch, name) for name in ("batch", "log", "url", "token", "pares")}
        entries = sum(high - low for low, high in batch.ranges.values())
        rows.append(
            {**what, "entries": entries, "rows": sum(f.rows for f in files), "bytes": sum(f.bytes for f in files)}
        )
    return rows


def _lineage_rows(batches: Sequence[Manifest]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in batches:
        for table, files in batch.files.items():
            for file in files:
                partition = partition_of(file.path)
                low, high = batch.ranges.get(str(partition), (None, None))
                what = {
                    "batch": batch.batch,
                    "log": batch.log,
                    "partition": partition,
                    "from_offset": low,
                    "to_offset": high,
                }
                made = {"table": table, "path": file.path, "rows": file.rows, "bytes": file.bytes, "pares": batch.pares}
                rows.append({**what, **made})
    return rows


def history(spark: SparkSession | None, path: str | Path, *, format: Format | None = None) -> History:
    """The history in the folder `path`, which need not be there yet.

    `spark`  None for a history that is only updated, by this very process; its tables need Spark
    `format` `parquet`: files that the history's own manifests name; `delta`: these are tables of Delta Lake, too, which other
             engines read in their folders, `path/records` and so on. None: what is there, and Parquet for a new one. A history
             of Parquet that is asked for as `delta` becomes one with its next update

    Raises `ConfigError` for another format, and for `parquet` where there are tables of Delta; `CapabilityError` for `delta`
    without deltalake, which the extra `delta` brings.
    """
    return History(spark, path, format)
