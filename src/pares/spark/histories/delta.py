"""A history whose tables are tables of Delta Lake, too, by delta-rs: no jar, and any engine that knows Delta reads them.

Manifests decide what is in a history, as ever. In the folder of each table in `PUBLISHED`, a log of Delta names the same
Parquet files. It follows the manifests: a commit says by a number of its own (`txn`) up to which batch it names their files,
and stands right behind the snapshot that it was made of, or not at all (`DeltaLog.commit`). So each batch is in a table once,
whole, and in its order, whoever publishes: a writer that is killed behind its manifest leaves the tables behind, and the next
update brings them up to where the manifests are, as does one that was frozen for an hour, and no further.

`worlds` is not published: nobody but the next batch has a use for the state of a fold.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

from pares.core.errors import ConfigError, ParesError
from pares.spark.histories import disk
from pares.spark.histories.columns import TABLES, named
from pares.spark.histories.manifest import Chain, Manifest
from pares.spark.sinks.delta_log import LOG, DeltaLog, check_installed

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

Format = Literal["parquet", "delta"]
PUBLISHED: Final = tuple(name for name in TABLES if name != "worlds")
UPTO: Final = "pares/history"
"""The name of the number that a commit carries: the last batch whose files are named."""
SPARSE: Final = 16
"""After so many batches without a file for a table a commit says that they were looked at. [a table that never has a row, and
each update reads all manifests for it]"""
AT_ONCE: Final = 10_000
"""Batches whose files one commit names at the most."""
_KEPT_FOR: Final = "interval 36500 days"
"""For how long Delta's engines leave alone what its log does not name (a VACUUM that is told no time): for good, as manifests
name files before Delta does."""


def checked(root: Path, format: Format | None) -> None:
    """Raises `ConfigError` for a format that is none, and for Parquet alone where there are tables of Delta, which would be
    left behind; `CapabilityError` for Delta without deltalake."""
    if format is not None and format not in get_args(Format):
        raise ConfigError(f"format={format!r}: give parquet or delta")
    if format == "parquet" and is_begun(root):
        raise ConfigError(f"the history in {root} has tables of Delta, which each batch goes into: leave format= out")
    if format == "delta":
        check_installed()


def is_begun(root: Path) -> bool:
    """Whether the history in `root` has tables of Delta."""
    return any(_is_there(root / name) for name in PUBLISHED)


def _is_there(place: Path) -> bool:
    """Whether there is a table of Delta: told without delta-rs, which is not installed wherever a history is read."""
    try:
        with os.scandir(place / LOG) as found:
            return any(entry.name.endswith(".json") for entry in found)
    except FileNotFoundError:
        return False


def begin(root: Path) -> None:
    """Makes the tables that are not there yet, without a row. Raises `CapabilityError` without deltalake."""
    check_installed()
    for name in PUBLISHED:
        if not _is_there(root / name):
            disk.make(root / name)
            with _told(root / name):
                settings = {"delta.appendOnly": "true", "delta.deletedFileRetentionDuration": _KEPT_FOR}
                DeltaLog(root / name).create(named(name), settings)


def publish(root: Path, chain: Chain) -> None:
    """Names in the tables of Delta the files that the manifests name, as far as that is not done. Raises `CapabilityError`
    without deltalake, `ConfigError` for a table that is not the history's, and `ParesError` for one that is broken; then the
    history has its batches all the same."""
    last = chain.last()
    if last is None:
        return
    begin(root)
    ended = False
    while not ended:
        tables = {name: _table(root / name, chain, last.batch) for name in PUBLISHED}
        low = min(map(upto_of, tables.values()))
        high = min(low + AT_ONCE, last.batch)
        batches = chain.between(low + 1, high)
        done = [not batches or _publish(table, root / name, name, batches) for name, table in tables.items()]
        ended = high == last.batch and all(done)


def _table(place: Path, chain: Chain, last: int) -> DeltaTable:
    """The table as it is now. Raises `ConfigError` where it names batches that the history does not have."""
    with _told(place):
        table = DeltaLog(place).table()
    upto = upto_of(table)
    if upto > last:
        # Others go on meanwhile. Where they have not, somebody has put back a part of the history alone.
        there = chain.last()
        if there is None or upto > there.batch:
            raise ConfigError(
                f"the Delta table {place} has batch {upto}, and the history has no such batch yet: remove {place / LOG}, and "
                "update again, which makes it of what the history has"
            )
    return table


def upto_of(table: DeltaTable) -> int:
    number = table.transaction_version(UPTO)
    return -1 if number is None else number


def _publish(table: DeltaTable, place: Path, name: str, batches: list[Manifest]) -> bool:
    """Has the table name the files of these batches that it does not name yet. False: another one was faster."""
    to, last = DeltaLog(place), batches[-1].batch
    with _told(place):
        _check(table, place, name)
        upto = upto_of(table)
        new = [batch for batch in batches if batch.batch > upto]
        adds = [_added(file.path, file.bytes, file.rows) for batch in new for file in batch.files.get(name, ())]
        if upto >= last or (not adds and last - upto < SPARSE):
            return True
        return to.commit(table, adds, {UPTO: last}, f"batches {upto + 1} to {last}", None)


def _check(table: DeltaTable, place: Path, name: str) -> None:
    from deltalake import Schema

    if table.schema() != Schema.from_arrow(named(name)):
        raise ConfigError(
            f"the Delta table {place} has other columns than a history's {name}: move {place / LOG} away, and update again, "
            "which makes it anew"
        )


@contextmanager
def _told(place: Path) -> Generator[None, None, None]:
    """What delta-rs raises, with what to do. A full disk is said elsewhere."""
    try:
        yield
    except (ParesError, OSError):
        raise
    except Exception as error:
        raise ParesError(
            f"the history has its batches, and the Delta table {place} could not follow ({error}): it does with the next "
            f"update. If its log is broken, remove {place / LOG}: an update makes it anew"
        ) from error


def _added(path: str, size: int, rows: int) -> AddAction:
    from deltalake.transaction import AddAction

    stats = json.dumps({"numRecords": rows})
    return AddAction(Path(path).name, size, {}, time.time_ns() // 1_000_000, True, stats)


def differences(root: Path, chain: Chain) -> list[str]:
    """Where a table of Delta has other files than the manifests name, or lacks batches, in words."""
    last = chain.last()
    if last is None:
        return []
    check_installed()
    found, seen = list[str](), dict[str, tuple[int, set[str]]]()
    for name in PUBLISHED:
        if not _is_there(root / name):
            found.append(f"the table {name} is none of Delta yet: update again")
            continue
        with _told(root / name):
            table = DeltaLog(root / name).table()
            seen[name] = upto_of(table), {Path(uri).name for uri in table.file_uris()}
    # What others have published meanwhile stands in manifests that are there by now.
    there = chain.last()
    batches = chain.between(0, last.batch if there is None else there.batch)
    for name, (upto, files) in seen.items():
        due = {Path(file.path).name for batch in batches if batch.batch <= upto for file in batch.files.get(name, ())}
        if files != due:
            found.append(
                f"the Delta table {name} names {len(files - due)} files that no manifest names, and lacks {len(due - files)}: "
                f"something else than this history has changed it; remove {root / name / LOG}, and update again, which makes "
                "it anew"
            )
        late = [batch.batch for batch in batches if upto < batch.batch <= last.batch and name in batch.files]
        if late:
            found.append(f"the Delta table {name} lacks the batches from {late[0]} on: update again")
    return found
