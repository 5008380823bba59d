"""A table of Delta Lake in a folder, by delta-rs: no jar, and any engine that knows Delta reads it.

Executors stage Parquet files in the table's folder, which no reader sees before the log names them. One commit of the log
publishes a batch: with its files it carries the token, and the number of a note. The note says what was published last; it is
written before, under a number that nobody else has, and counts if the newest commit of the seat names it. So a snapshot of the
log says everything, and a commit that has this snapshot right before it (delta_log.py) changes everything at once.

| a driver dies or freezes | and what it has left |
|---|---|
| before its commit | files and a note that nothing names: a later term's `open` removes them |
| after it | the whole batch, which the next driver drops as a duplicate |

The note is no part of the commit's own information, which goes when the table's old log files do; numbers of an application
stay. A seat that has published nothing for a year still knows where to go on.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

import msgspec

from pares.core.errors import ParesError, Stale
from pares.fence.base import Held, check_held
from pares.fence.file import FolderStore, encoded, sync
from pares.spark.host.room import room
from pares.spark.sinks.base import AGAIN, Incomplete, Seat, Staged, staged
from pares.spark.sinks.delta_log import INFO, DeltaLog, check_installed, columns
from pares.spark.sinks.extents import Extent, Published, follows
from pares.spark.sinks.fitting import check_names, fitted

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction
    from pyspark.sql import DataFrame

NOTES: Final = "_pares"
"""Folder of the notes. Delta's engines leave alone what begins with an underscore."""
DATA: Final = "pares"
"""Folder of the data files, which is the table's: its VACUUM removes what the table does not need."""
_FILE: Final = re.compile(r"(\d+)-[0-9a-f]+\.parquet")


class Note(msgspec.Struct, frozen=True):
    """What stands of a seat after one of its commits. `new`: whether that commit has published `last`."""

    group: str | None
    role: str
    seat: int
    token: int
    last: Published | None
    new: bool
    v: int = 1


class _Now(NamedTuple):
    """What a snapshot says of a seat. `token`: -1 if it has none yet. `number`: of the note."""

    table: DeltaTable
    token: int
    number: int | None
    note: Note | None


class _Change(NamedTuple):
    """What a commit is to bring."""

    last: Published | None
    new: bool = False
    adds: tuple[AddAction, ...] = ()
    fields: pa.Schema | None = None


class DeltaSink:
    """Publishes batches to a Delta table, behind a fence. See `pares.spark.sinks.base.Sink` for what is promised.

    `table`: the folder of a table that is there already, reached under the same path by the driver and by all executors, on a
    file system with hard links; no object store. `group`: keeps groups that write to one table apart. Each batch brings one
    file for each of its partitions that has rows: `repartition` in the query says how many.

    Rows are brought to the table's columns by their names; a column that the query does not have is null. The table has no
    partitions, constraints, generated columns or column mapping, and no `delta.setTransactionRetentionDuration`. Others may
    write to it, compact and vacuum it meanwhile; a batch is then committed a moment later. Not promised: that a commit outlasts
    the loss of power before `publish` has returned.

    Raises `CapabilityError` without deltalake from 1.6 on, and where there is no room; `ConfigError` for a folder without a
    table, a table that asks more of its writers, and rows that don't fit its columns; what delta-rs raises.
    """

    def __init__(self, table: str | Path, *, group: str | None = None) -> None:
        check_installed()
        self.folder: Final = Path(table).absolute()
        self.group: Final = group
        self._log = DeltaLog(self.folder)
        self._notes = FolderStore(self.folder)

    # What a sink does ------------------------------------------------------------------------------------------------

    def open(self, held: Seat) -> None:
        def raised(now: _Now) -> _Change | None:
            if now.token == held.token:
                return None
            return _Change(None if now.note is None else now.note.last)

        with room(self.folder, AGAIN):
            self._commit(held, raised)
            self._sweep(held)

    def last(self, held: Seat) -> Published | None:
        note = self._now(held).note
        return None if note is None else note.last

    def published(self, held: Seat) -> list[Published]:
        """All batches of the seat, in order, of which the table still has the commits."""
        notes = (_told(entry.get(INFO)) for entry in reversed(self._log.snapshot().history()))
        mine = (self.group, held.role, held.seat)
        found = [note for note in notes if note is not None and (note.group, note.role, note.seat) == mine]
        return [note.last for note in found if note.new and note.last is not None]

    def stage(self, df: DataFrame, held: Seat, extent: Extent) -> Staged:
        now = self._now(held)
        if now.token > held.token:
            raise Stale(held.token, now.token)
        fields, area = columns(now.table), self.folder / DATA / self._place(held)
        check_names(df.columns, fields, self.folder)
        with room(area, AGAIN):
            area.mkdir(parents=True, exist_ok=True)
        where, token = str(area), held.token

        def write(part: str, batches: Iterable[pa.RecordBatch]) -> int:
            with room(where, AGAIN):
                return _write(f"{where}/{token}-{part}.parquet", batches, fields)

        with self._swept(held):
            found = staged(df, held, extent, write)
        return found._replace(parts=tuple(f"{where}/{token}-{part}.parquet" for part in found.parts))

    def publish(self, staged: Staged) -> bool:
        files = [Path(part) for part in staged.parts]

        def batch(now: _Now) -> _Change | None:
            last = None if now.note is None else now.note.last
            if not follows(staged.extent, last):
                return None
            adds, fields = self._adds(staged, files)
            number = 0 if last is None else last.number + 1
            new = Published(number, staged.held.token, staged.extent, staged.rows, time.time_ns() // 1_000_000)
            return _Change(new, True, adds, fields)

        with self._swept(staged.held):
            for folder in {file.parent for file in files}:
                for each in (folder, *folder.parents):
                    sync(each)
                    if each == self.folder:
                        break
            return self._commit(staged.held, batch)

    def forget(self, held: Held) -> None:
        self._commit(held, lambda now: _Change(None), blind=True)

    # Its commits -----------------------------------------------------------------------------------------------------

    def _commit(self, held: Held, change: Callable[[_Now], _Change | None], *, blind: bool = False) -> bool:
        """Commits what `change` makes of what stands there, if that is what still stands there then; else it is asked again.
        False: it wants nothing. `blind`: the old note is not read."""
        role, seat, token = check_held(held)
        mine: int | None = None
        while True:
            now = self._now(held, blind=blind)
            if mine is not None:
                if now.number == mine:
                    return True  # it was committed, and its word has got lost
                self._drop(held, token, mine)
            if now.token > token:
                raise Stale(token, now.token)
            wanted = change(now)
            if wanted is None:
                return False
            mine = secrets.randbits(62)
            content = msgspec.json.encode(Note(self.group, role, seat, token, wanted.last, wanted.new))
            self._notes.create(self._note(held, token, mine), content)
            numbers = {self._id(held): token, f"{self._id(held)}/note": mine}
            if self._log.commit(now.table, [*wanted.adds], numbers, content.decode(), wanted.fields):
                if now.number is not None:
                    self._drop(held, now.token, now.number)
                return True

    def _now(self, held: Held, *, blind: bool = False) -> _Now:
        while True:
            table = self._log.snapshot()
            token, number = self._numbers(table, held)
            if token is None or number is None:
                return _Now(table, -1, None, None)
            if blind:
                return _Now(table, token, number, None)
            name = self._note(held, token, number)
            content = self._notes.read(name)
            if content is not None:
                return _Now(table, token, number, _decoded(name, content))
            if self._numbers(self._log.snapshot(), held) == (token, number):
                raise ParesError(
                    f"{self.folder / name} is missing, which says what was published last: put it back from where the table "
                    "was copied, or let the sink `forget` where the last batch ended"
                )

    def _numbers(self, table: DeltaTable, held: Held) -> tuple[int | None, int | None]:
        return table.transaction_version(self._id(held)), table.transaction_version(f"{self._id(held)}/note")

    def _adds(self, staged: Staged, files: list[Path]) -> tuple[tuple[AddAction, ...], pa.Schema | None]:
        import pyarrow.parquet as pq
        from deltalake.transaction import AddAction

        adds: list[AddAction] = []
        rows, fields = 0, None
        for file in files:
            if not file.is_file():
                continue
            count, fields = pq.read_metadata(file).num_rows, pq.read_schema(file)
            path, stats = file.relative_to(self.folder).as_posix(), json.dumps({"numRecords": count})
            adds.append(AddAction(path, file.stat().st_size, {}, time.time_ns() // 1_000_000, True, stats))
            rows += count
        if rows != staged.rows:
            raise Incomplete(rows, staged)
        return tuple(adds), fields

    # Its files -------------------------------------------------------------------------------------------------------

    def _sweep(self, held: Seat) -> None:
        """Removes what lower tokens have left: they can't commit it any more."""
        area = self.folder / DATA / self._place(held)
        files = {name: int(found[1]) for name in _names(area) if (found := _FILE.fullmatch(name))}
        low = {name for name, token in files.items() if token < held.token}
        if low:
            # A file that the table had once, and has no more, is the table's all the same: an older version has it.
            low -= {Path(uri).name for uri in self._log.snapshot().file_uris()}
            for name in self._log.without_logged(low):
                (area / name).unlink(missing_ok=True)
        notes = (self.folder / self._note(held, 0, 0)).parent
        for name in _names(notes):
            token = name.lstrip(".").partition("-")[0]
            if token.isdecimal() and int(token) < held.token:
                (notes / name).unlink(missing_ok=True)

    @contextmanager
    def _swept(self, held: Seat) -> Generator[None, None, None]:
        """A later term may sweep files away while this one works with them: then it is that which is told."""
        try:
            with room(self.folder, AGAIN):
                yield
        except Exception:
            token = self._now(held, blind=True).token
            if token > held.token:
                raise Stale(held.token, token) from None
            raise

    def _drop(self, held: Held, token: int, number: int) -> None:
        with suppress(OSError):
            (self.folder / self._note(held, token, number)).unlink()

    def _id(self, held: Held) -> str:
        group = "" if self.group is None else quote(self.group, safe="")  # no group has an empty name
        return f"pares/{group}/{quote(held.role, safe='')}/{held.seat}"

    def _place(self, held: Held) -> str:
        return f"{encoded('group', self.group)}/{encoded('role', held.role)}/{held.seat}"

    def _note(self, held: Held, token: int, number: int) -> str:
        return f"{NOTES}/{self._place(held)}/{token}-{number}.json"


def _names(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()] if folder.is_dir() else []


def _decoded(name: str, content: bytes | str) -> Note:
    try:
        return msgspec.json.decode(content, type=Note)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ParesError(f"{name} is no note of a sink: {error}; something else has written it") from error


def _told(text: object) -> Note | None:
    """What a commit says of itself; None: it is no sink's."""
    if not isinstance(text, str):
        return None
    try:
        return _decoded(INFO, text)
    except ParesError:
        return None


def _write(file: str, batches: Iterable[pa.RecordBatch], fields: pa.Schema) -> int:
    import pyarrow.parquet as pq

    rows = 0
    with pq.ParquetWriter(file, fields, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(fitted(batch, fields))
            rows += batch.num_rows
    sync(Path(file))
    return rows
