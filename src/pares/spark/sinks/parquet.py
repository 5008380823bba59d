"""Parquet files in a folder, of which those count that a manifest names.

The fence is that of files (`FileFence`): a chain of manifests for each seat, each made only once, with the token of the term
that made it. A batch is a manifest: its extent, its rows and its files. Readers take the files from the manifests, by `read` or
`files`, and never from a listing of the folder.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from pares.core.errors import ConfigError, ParesError, Stale
from pares.fence.base import Held
from pares.fence.file import Commit, FileFence
from pares.fence.file import Store as ManifestStore
from pares.spark.host.room import room
from pares.spark.sinks.base import AGAIN, Incomplete, Seat, Staged, staged
from pares.spark.sinks.extents import Extent, Published, follows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_LAST: Final = "last"
_NEW: Final = "new"
"""In a manifest: the batch that was published last, and whether by this manifest. So the newest says where to go on."""


class ParquetSink:
    """Publishes batches as Parquet files, behind a fence. See `pares.spark.sinks.base.Sink` for what is promised.

    `folder`: reached under the same path by the driver and by all executors, on a file system with hard links. `group`: keeps
    groups that write to one folder apart. `store`: where manifests are kept, as `FileFence` says. Each batch brings one file
    for each of its partitions that has rows: `repartition` in the query says how many.
    """

    def __init__(self, folder: str | Path, *, group: str | None = None, store: ManifestStore | None = None) -> None:
        self.fence: Final = FileFence(Path(folder).absolute(), group, store=store)

    # What a sink does ------------------------------------------------------------------------------------------------

    def open(self, held: Seat) -> None:
        newest = self.fence.last(held.role, held.seat)
        if newest is None or newest.token != held.token:
            with room(self.fence.folder, AGAIN):
                self.fence.commit(held, {_LAST: None if newest is None else newest.payload.get(_LAST)})
        self.fence.sweep(held.role, held.seat)

    def last(self, held: Seat) -> Published | None:
        return _last(self.fence.last(held.role, held.seat))

    def published(self, held: Seat) -> list[Published]:
        """All batches of the seat, in order."""
        found = (_last(commit) for commit in self.fence.read(held.role, held.seat) if commit.payload.get(_NEW))
        return [one for one in found if one is not None]

    def stage(self, df: DataFrame, held: Seat, extent: Extent) -> Staged:
        area = str(self.fence.stage(held))

        def write(part: str, batches: Iterable[pa.RecordBatch]) -> int:
            with room(area, AGAIN):
                return _write(f"{area}/{part}.parquet", batches)

        with self._swept(held):
            found = staged(df, held, extent, write)
        return found._replace(parts=tuple(f"{area}/{part}.parquet" for part in found.parts))

    def publish(self, staged: Staged) -> bool:
        with self._swept(staged.held):
            return self._publish(staged, [Path(part) for part in staged.parts])

    def _publish(self, staged: Staged, files: list[Path]) -> bool:
        held = staged.held
        while True:
            newest = self.fence.last(held.role, held.seat)
            last = _last(newest)
            if newest is not None and newest.token > held.token:
                # Before it is asked where the batch begins: it begins too early by now.
                raise Stale(held.token, newest.token)
            if not follows(staged.extent, last):
                return False
            if (rows := sum(map(_rows, files))) != staged.rows:
                raise Incomplete(rows, staged)
            number = 0 if last is None else last.number + 1
            published = Published(number, held.token, staged.extent, rows, time.time_ns() // 1_000_000)
            payload = {_LAST: msgspec.to_builtins(published), _NEW: True}
            if self.fence.commit_after(newest, held, payload, files=files) is not None:
                return True

    @contextmanager
    def _swept(self, held: Seat) -> Generator[None, None, None]:
        """A later term may sweep files away while this one works with them: then it is that which is told."""
        try:
            with room(self.fence.folder, AGAIN):
                yield
        except Exception:
            self.fence.check(held)
            raise

    def forget(self, held: Held) -> None:
        self.fence.commit(held, {_LAST: None})

    # For readers -----------------------------------------------------------------------------------------------------

    def files(self, role: str, seat: int = 0) -> list[str]:
        """The paths of all files that are published for a seat, in the order of their batches."""
        place = self.fence.place(role, seat)
        return [str(place / name) for commit in self.fence.read(role, seat) for name, _ in commit.files]

    def read(self, spark: SparkSession, role: str, seat: int = 0) -> DataFrame:
        """All rows that are published for a seat when this is called. Raises `ConfigError` when there are none yet."""
        files = self.files(role, seat)
        if not files:
            raise ConfigError(
                f"nothing is published for {role!r}/{seat} in {self.fence.folder}, so nobody knows the columns"
            )
        return spark.read.parquet(*(Path(file).as_uri() for file in files))


def _last(commit: Commit | None) -> Published | None:
    found = None if commit is None else commit.payload.get(_LAST)
    try:
        return None if found is None else msgspec.convert(found, Published)
    except msgspec.ValidationError as error:
        raise ParesError(f"{found!r} is no batch: {error}; something else than this sink has committed here") from error


def _write(file: str, batches: Iterable[pa.RecordBatch]) -> int:
    import pyarrow.parquet as pq

    rows, writer = 0, None
    try:
        for batch in batches:
            writer = writer or pq.ParquetWriter(file, batch.schema, compression="zstd")
            writer.write_batch(batch)
            rows += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    return rows


def _rows(file: Path) -> int:
    import pyarrow.parquet as pq

    return pq.read_metadata(file).num_rows
