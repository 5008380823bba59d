"""A history whose tables are tables of Delta Lake, too, by delta-rs: no jar, and any engine that knows Delta reads them.

Manifests decide what is in a history, as ever. In the folder of each table in `PUBLISHED`, a log of Delta names the same
Parquet files. It follows the manifests: a commit says by a number of its own (`txn`) up to which batch it names their files,
and stands right behind the snapshot that it was made of, or not at all (`DeltaLog.commit`). So each batch is in a table once,
whole, and in its order, whoever publishes: a writer that is killed behind its manifest leaves the tables a batch behind, and
the next update, or one that was frozen for an hour, brings them up to where the manifests are, and no further.

`worlds` is not published: nobody but the next batch has a use for the state of a fold.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pares.core.errors import ConfigError
from pares.spark.histories.columns import TABLES, named
from pares.spark.histories.manifest import Chain, Manifest
from pares.spark.sinks.delta_log import DeltaLog, check_installed

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

log: Final = logging.getLogger("pares.spark.delta")

Format = Literal["parquet", "delta"]
PUBLISHED: Final = tuple(name for name in TABLES if name != "worlds")
LOG: Final = "_delta_log"
"""In a table's folder: where Delta keeps its log."""
_UPTO: Final = "pares/history"
"""The name of the number that a commit carries: the last batch whose files are named."""
_SPARSE: Final = 64
"""After so many batches without a file for a table a commit says that they were looked at. [a table that never has a row, and
each update reads all manifests for it]"""


def is_begun(root: Path) -> bool:
    """Whether the history in `root` has tables of Delta."""
    return any(_is_there(root / name) for name in PUBLISHED)


def _is_there(place: Path) -> bool:
    """Whether there is a table of Delta: told without delta-rs, which is not installed wherever a history is read."""
    return any((place / LOG).glob("*.json"))


def begin(root: Path) -> None:
    """Makes the tables that are not there yet, without a row. Raises `CapabilityError` without deltalake."""
    missing = [name for name in PUBLISHED if not _is_there(root / name)]
    if not missing:
        return
    check_installed()
    for name in missing:
        DeltaLog(root / name).create(named(name), {"delta.appendOnly": "true"})


def publish(root: Path, chain: Chain) -> None:
    """Names in the tables of Delta the files that the manifests name, as far as that is not done."""
    last = chain.last()
    if last is None:
        return
    check_installed()
    begin(root)
    for name in PUBLISHED:
        while not _published(DeltaLog(root / name), name, chain, last.batch):
            pass


def _published(to: DeltaLog, name: str, chain: Chain, last: int) -> bool:
    """Whether the table is where the manifests are: it was, or a commit has brought it there."""
    table = to.snapshot()
    upto = _upto(table)
    if upto >= last:
        return True
    batches = chain.between(upto + 1, last)
    adds = [_added(file.path, file.bytes, file.rows) for batch in batches for file in batch.files.get(name, ())]
    if not adds and len(batches) < _SPARSE:
        return True
    what = f"batches {upto + 1} to {last}"
    try:
        return to.commit(table, adds, {_UPTO: last}, what, None)
    except Exception as error:
        # Behind the commit delta-rs may still make a checkpoint of the log, and fail by that.
        if _upto(to.snapshot()) < last:
            raise
        log.warning("%s are in %s, though delta-rs says %s", what, to.folder, error)
        return True


def _upto(table: DeltaTable) -> int:
    number = table.transaction_version(_UPTO)
    return -1 if number is None else number


def _added(path: str, size: int, rows: int) -> AddAction:
    from deltalake.transaction import AddAction

    stats = json.dumps({"numRecords": rows})
    return AddAction(Path(path).name, size, {}, time.time_ns() // 1_000_000, True, stats)


def check(root: Path, batches: list[Manifest]) -> list[str]:
    """Where a table of Delta has other files than the manifests name, in words."""
    found: list[str] = []
    for name in PUBLISHED:
        if not _is_there(root / name):
            found.append(f"the table {name} is none of Delta yet: update again")
            continue
        table = DeltaLog(root / name).snapshot()
        upto = _upto(table)
        files = {Path(file.path).name for batch in batches for file in batch.files.get(name, ()) if batch.batch <= upto}
        there = {Path(uri).name for uri in table.file_uris()}
        if there != files:
            found.append(
                f"the Delta table {name} names {len(there - files)} files that no manifest names, and lacks "
                f"{len(files - there)}: something else than this history has changed it"
            )
    return found


def checked(root: Path, format: Format | None) -> Format:
    """The format of the history in `root`: what is asked for, or, with None, what is there. Raises `ConfigError` for a name
    that is none, and for Parquet alone where there are tables of Delta, which would be left behind."""
    there = is_begun(root)
    if format not in (None, "parquet", "delta"):
        raise ConfigError(f"format={format!r}: give parquet or delta")
    if format == "parquet" and there:
        raise ConfigError(f"the history in {root} has tables of Delta, which each batch goes into: leave format= out")
    if format == "delta" and not there:
        check_installed()
    return format or ("delta" if there else "parquet")
