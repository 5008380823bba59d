"""The rules of what is published by manifests, each broken on purpose: see `sink_mutants`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import structs, to_builtins

from pares.fence.base import Held
from pares.fence.file import Commit, FileFence, FolderStore
from pares.sim.mutant import Patch
from pares.spark.sinks import base, parquet
from pares.spark.sinks.base import Staged
from pares.spark.sinks.extents import Published
from pares.spark.sinks.parquet import ParquetSink

# pyright: reportPrivateUsage=false


def manifest_is_replaced() -> list[Patch]:
    def replaces(self: FolderStore, name: str, content: bytes) -> bool:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return True

    return [(FolderStore, "create", replaces)]


def manifest_is_written_after_a_look() -> list[Patch]:
    """That it is missing and that it is made are two steps."""

    def looks(self: FolderStore, name: str, content: bytes) -> bool:
        if self.read(name) is not None:
            return False
        self.read(name)  # a moment passes
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return True

    return [(FolderStore, "create", looks)]


def judged_by_an_older_manifest() -> list[Patch]:
    def after_any(
        self: FileFence, newest: Commit | None, term: Held, payload: Any = None, *, files: Iterable[Path] = ()
    ) -> Commit:
        return self.commit(term, payload, files=files)

    return [(FileFence, "commit_after", after_any)]


def lower_token_commits() -> list[Patch]:
    """Neither the sink nor the fence compares tokens."""
    after = FileFence._commit_after

    def commits(self: FileFence, newest: Commit | None, term: Held, payload: Any, named: Any) -> Commit | None:
        seen = newest and structs.replace(newest, token=min(newest.token, term.token))
        return after(self, seen, term, payload, named)

    def publishes(self: ParquetSink, staged: Staged, files: list[Path]) -> bool:
        newest = self.fence.last(*staged.held[:2])
        last = parquet._last(newest)
        if not base.follows(staged.extent, last):
            return False
        new = Published(0 if last is None else last.number + 1, staged.held.token, staged.extent, staged.rows, 0)
        payload = {"last": to_builtins(new), "new": True}
        return self.fence.commit_after(newest, staged.held, payload, files=files) is not None

    return [(FileFence, "_commit_after", commits), (ParquetSink, "_publish", publishes)]


def opened_without_a_manifest() -> list[Patch]:
    return [(ParquetSink, "open", lambda self, held: self.fence.sweep(held.role, held.seat))]


def opened_with_an_empty_manifest() -> list[Patch]:
    """The newest manifest does not say which batch was the last."""
    return [(ParquetSink, "open", lambda self, held: self.forget(held))]


def read_from_the_folder() -> list[Patch]:
    def lists(self: ParquetSink, role: str, seat: int = 0) -> list[str]:
        return sorted(map(str, (self.fence.place(role, seat) / "data").glob("*/*.parquet")))

    return [(ParquetSink, "files", lists)]


def fewer_rows_of_files_will_do() -> list[Patch]:
    publish = ParquetSink._publish

    def uncounted(self: ParquetSink, staged: Staged, files: list[Path]) -> bool:
        return publish(self, staged._replace(rows=sum(map(parquet._rows, files))), files)

    return [(ParquetSink, "_publish", uncounted)]
