"""What tests of sinks share: rows without Spark, drivers that are killed or frozen before any step, and what must hold
after."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from pares.core.errors import Stale
from pares.fence.file import FolderStore
from pares.spark.sinks.base import Seat, Sink, Store, deliver
from pares.spark.sinks.delta import DATA, NOTES, DeltaSink
from pares.spark.sinks.delta_log import DeltaLog
from pares.spark.sinks.extents import Extent, Published, StreamExtent
from pares.spark.sinks.parquet import ParquetSink
from pares.spark.sinks.sqlite import SqliteSink

PATIENCE = 60.0
ROLE = "r"


class Rows:
    """As much of a DataFrame as a sink uses: `mapInArrow` in this process, a call for each partition."""

    def __init__(self, parts: Iterable[pa.RecordBatch], columns: list[str]) -> None:
        self.parts, self.columns = list(parts), columns

    def mapInArrow(self, run: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str) -> Rows:
        found = (batch for part in self.parts for batch in run(iter([part.slice(0, 0), part])))
        return Rows(found, [column.split()[0] for column in schema.split(",")])

    def collect(self) -> list[dict[str, Any]]:
        return [row for part in self.parts for row in part.to_pylist()]


def frame(ids: range, parts: int = 2) -> Any:
    step = max(1, -(-len(ids) // parts))
    pieces = [ids[at : at + step] for at in range(0, len(ids), step)]
    return Rows((pa.RecordBatch.from_pydict({"id": pa.array(list(piece), pa.int64())}) for piece in pieces), ["id"])


class Killed(BaseException):
    """The driver ends here."""


class Steps:
    """Counts the steps of a driver, and stops it before one of them: it is killed, or it stands still until `thaw`."""

    def __init__(self, stop: int | None = None, *, freeze: bool = False) -> None:
        self.taken = 0
        self._stop, self._freeze = stop, freeze
        self.frozen, self._thawed = threading.Event(), threading.Event()

    def step(self) -> None:
        number, self.taken = self.taken, self.taken + 1
        if number != self._stop:
            return
        if not self._freeze:
            raise Killed
        self.frozen.set()
        assert self._thawed.wait(PATIENCE)

    def thaw(self) -> None:
        self._thawed.set()


class Seen(Sink, Protocol):
    """A sink, and what its readers see."""

    def rows(self) -> list[int]: ...

    def leftovers(self) -> int: ...

    def published(self, held: Seat) -> list[Published]: ...


class SteppedConnection(sqlite3.Connection):
    steps: Steps

    def execute(self, *args: Any) -> sqlite3.Cursor:
        self.steps.step()
        return super().execute(*args)

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        self.steps.step()
        return super().cursor(*args, **kwargs)

    def commit(self) -> None:
        self.steps.step()
        super().commit()
        self.steps.step()


class SteppedSqlite(SqliteSink):
    def __init__(self, folder: Path, steps: Steps) -> None:
        file = folder / "sink.db"
        with sqlite3.connect(file) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER)")
        connection.close()
        super().__init__(file, "rows", timeout=0.05)
        self._steps = steps

    def connect(self) -> Any:
        connection = sqlite3.connect(self.file, timeout=self.timeout, factory=SteppedConnection)
        connection.steps = self._steps
        return connection

    def store(self, held: Seat) -> Store:
        return _stepped(super().store(held), self._steps)

    def rows(self) -> list[int]:
        return sorted(row[0] for row in self._all("SELECT id FROM rows"))

    def leftovers(self) -> int:
        return len(self._all("SELECT 1 FROM rows_staging"))

    def _all(self, query: str) -> list[Any]:
        connection = sqlite3.connect(self.file)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()


class SteppedStore(FolderStore):
    steps: Steps

    def create(self, name: str, content: bytes) -> bool:
        self.steps.step()
        made = super().create(name, content)
        self.steps.step()
        return made

    def read(self, name: str) -> bytes | None:
        self.steps.step()
        return super().read(name)


class SteppedParquet(ParquetSink):
    def __init__(self, folder: Path, steps: Steps) -> None:
        store = SteppedStore(folder)
        store.steps = steps
        super().__init__(folder, store=store)
        self._folder = folder

    def rows(self) -> list[int]:
        tables = [pq.read_table(file) for file in ParquetSink(self._folder).files(ROLE)]
        return sorted(id for table in tables for id in table.column("id").to_pylist())

    def leftovers(self) -> int:
        files = {str(file) for file in self._folder.glob("**/*.parquet")}
        return len(files - set(ParquetSink(self._folder).files(ROLE)))


class SteppedLog(DeltaLog):
    steps: Steps

    def snapshot(self) -> DeltaTable:
        self.steps.step()
        return super().snapshot()

    def commit(
        self, table: DeltaTable, adds: list[AddAction], numbers: Mapping[str, int], info: str, fields: pa.Schema | None
    ) -> bool:
        self.steps.step()
        done = super().commit(table, adds, numbers, info, fields)
        self.steps.step()
        return done


class SteppedDelta(DeltaSink):
    def __init__(self, folder: Path, steps: Steps) -> None:
        if not DeltaTable.is_deltatable(str(folder)):
            DeltaTable.create(str(folder), pa.schema([("id", pa.int64())]))
        super().__init__(folder)
        self._log, self._notes = SteppedLog(folder), SteppedStore(folder)
        self._log.steps = self._notes.steps = steps

    def rows(self) -> list[int]:
        return sorted(id for file in self._files() for id in pq.read_table(file).column("id").to_pylist())

    def leftovers(self) -> int:
        """Files that no commit names, and notes but the one of each seat."""
        files = {str(file) for file in (self.folder / DATA).glob("**/*.parquet")}
        notes = [file for file in (self.folder / NOTES).glob("**/*") if file.is_file()]
        return len(files - set(self._files())) + len(notes) - len({file.parent for file in notes})

    def _files(self) -> list[str]:
        return DeltaTable(str(self.folder)).file_uris()


def _stepped(store: Store, steps: Steps) -> Store:
    def run(part: str, batches: Iterable[pa.RecordBatch]) -> int:
        steps.step()
        rows = store(part, batches)
        steps.step()
        return rows

    return run


MAKE: dict[str, Callable[[Path, Steps], Any]] = {
    "sqlite": SteppedSqlite,
    "parquet": SteppedParquet,
    "delta": SteppedDelta,
}


class Query:
    """A streaming query as its checkpoint has it: batches with fixed borders, and which of them have been committed."""

    def __init__(self, batches: int = 3, size: int = 4) -> None:
        self.borders = [(at * size, (at + 1) * size) for at in range(batches)]
        self.committed = 0
        """Batches that Spark will not run again."""

    def extent(self, number: int) -> Extent:
        low, high = self.borders[number]
        return StreamExtent("q", number, str(low) if number else None, str(high))

    def run(self, sink: Sink, token: int) -> str:
        """A driver's life in the term with this token: "done", "stale", "locked" or "killed"."""
        held = Seat(ROLE, 0, token)
        try:
            sink.open(held)
            for number in range(self.committed, len(self.borders)):
                deliver(sink, frame(range(*self.borders[number])), held, self.extent(number))
                self.committed = max(self.committed, number + 1)
        except Stale:
            return "stale"
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            return "locked"
        except Killed:
            return "killed"
        return "done"

    def check(self, sink: Seen) -> None:
        """Each row once; batches in order, without a hole, by tokens that never fall; nothing staged is left."""
        assert sink.rows() == list(range(self.borders[-1][1]))
        published = sink.published(Seat(ROLE, 0, 0))
        assert [one.number for one in published] == list(range(len(self.borders)))
        assert [one.extent for one in published] == [self.extent(number) for number in range(len(self.borders))]
        tokens = [one.token for one in published]
        assert tokens == sorted(tokens)
        assert sink.leftovers() == 0


def publish_one_batch_twice(
    make: Callable[[Path, Steps], Any], place: Path, held: Seat, extent: Extent, *, points: int
) -> None:
    """Two publish a batch of one term: before each step of one of them, up to so many, the other one publishes it."""
    raced = 0
    for point in range(points):
        folder = place / f"at-{point}"
        other = make(folder, Steps())
        other.open(held)
        mine, theirs = (other.stage(frame(range(4)), held, extent) for _ in range(2))
        steps, found = Steps(point, freeze=True), list[bool]()
        slow = make(folder, steps)
        thread = threading.Thread(target=lambda slow=slow, mine=mine, found=found: found.append(slow.publish(mine)))
        thread.start()
        while not steps.frozen.wait(0.01) and thread.is_alive():
            pass
        first = other.publish(theirs)
        raced += first
        steps.thaw()
        thread.join(PATIENCE)
        assert found == [not first], "one of them is told that it has published"
        assert other.rows() == [0, 1, 2, 3], f"before step {point}"
        assert len(other.published(held)) == 1
        if steps.taken <= point:
            break
    assert raced > 2, "the other one was first, and this one has seen it at its commit"
