"""What the tests of histories ask of one, without Spark."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from scribe import Entries, Scribe

from pares.ledger import open as open_ledger
from pares.spark.facts.folding import Partition
from pares.spark.histories import History, judging, manifest
from pares.spark.sinks.delta_log import LOG


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


def named_by_delta(of: History, table: str) -> list[str]:
    """Each file that a table of Delta was ever said to have, as often and in the order as its log says so."""
    commits = sorted((of.path / table / LOG).glob("*.json"))
    actions = [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]
    return [action["add"]["path"] for action in actions if "add" in action]


def named_by_manifests(of: History, table: str, upto: int | None = None) -> list[str]:
    """The table's files, in the order of the batches, up to that one."""
    batches = manifest.Chain(of.path).read()[: None if upto is None else upto + 1]
    return [Path(file.path).name for batch in batches for file in batch.files.get(table, ())]


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
