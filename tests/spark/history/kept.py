"""What the tests of histories ask of one, without Spark."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from scribe import Entries, Scribe

from pares.ledger import open as open_ledger
from pares.spark.facts.folding import Partition
from pares.spark.histories import History, judging, manifest
from pares.spark.histories.delta import LOG


def saved(log: Scribe, path: Path, upto: int | None = None) -> str:
    return of_entries(log.entries[:upto], path)


def of_entries(entries: Entries, path: Path) -> str:
    log = Scribe()
    log.entries = entries
    return log.save(path)


def rows(of: History, table: str) -> list[dict[str, Any]]:
    """All rows of a stored table, as the manifests name its files."""
    files = [file for batch in manifest.Chain(of.path).read() for file in batch.files.get(table, ())]
    return [row for file in files for row in pq.ParquetFile(of.path / file.path).read().to_pylist()]


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stored(of: History) -> dict[str, bytes]:
    """All files but those of Delta's own logs, which have times in them."""
    return {path: content for path, content in bytes_of(of.path).items() if LOG not in path}


def judged(of: History) -> list[str]:
    """The facts that the audit of a history stands on."""
    batches = manifest.Chain(of.path).read()
    here = judging.Judging(None, of.path, batches).here  # type: ignore[arg-type]
    assert here is not None
    return sorted(repr(tuple(row.values())) for row in here.to_pylist())


def straightly(url: str, partition: int = 0) -> list[str]:
    """The facts of the log as it is now, in one go."""
    with closing(open_ledger(url)) as ledger:
        start = ledger.start(partition)
        fold = Partition(None, partition, start, claims=partition == 0)
        entries = [entry for low in [start] for entry in ledger.read(low, partition, 100_000)]
    found = [*fold.feed(entries), *fold.finish()]
    return sorted(repr((group, *fact)) for group, facts in found for fact in facts)
