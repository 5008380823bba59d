"""Writing a table's rows into a file whose name and bytes follow from the rows alone."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pares.core.errors import ConfigError
from pares.spark.histories import disk
from pares.spark.histories.columns import Row, fitting, named
from pares.spark.histories.manifest import File

ROWS: Final = 20_000
"""Rows of a group of rows within a file: always as many, however the rows came."""
_DIGITS: Final = 32
_NAME: Final = re.compile(rf"\d{{20}}-\d{{5,}}-[0-9a-f]{{{_DIGITS}}}\.parquet")


class Sheet:
    """One file in the making. Rows that do not fit the table are handed back by `add`."""

    def __init__(self, root: Path, table: str, batch: int, partition: int) -> None:
        self._root, self._table = root, table
        self._stem = f"{table}/{batch:020d}-{partition:05d}"
        self._waiting: list[pa.RecordBatch] = []
        self._count = self._rows = 0
        self._open = ExitStack()

    def __enter__(self) -> Sheet:
        self._draft = self._open.enter_context(disk.draft(self._root / self._table))
        # Neither dictionaries nor statistics that depend on more than the rows; zstd of one level.
        options: dict[str, Any] = {"compression": "zstd", "compression_level": 3, "use_dictionary": True}
        self._writer = self._open.enter_context(pq.ParquetWriter(self._draft, named(self._table), **options))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def add(self, rows: Sequence[Row]) -> list[Row]:
        """Takes the rows that fit; returns the others, as rows of the quarantine."""
        batch, refused = fitting(self._table, rows)
        self.append(batch)
        return refused

    def append(self, batch: pa.RecordBatch) -> None:
        """Takes rows that fit."""
        self._waiting.append(batch)
        self._count += batch.num_rows
        self._rows += batch.num_rows
        if self._count >= ROWS:
            self._write(whole=False)

    def close(self) -> File | None:
        """Puts the file in its place; None if there was no row."""
        self._write(whole=True)
        self._writer.close()
        if self._rows == 0:
            return None
        path = f"{self._stem}-{_digest(self._draft)}.parquet"
        size = self._draft.stat().st_size
        disk.put(self._draft, self._root / path)
        return File(path, self._rows, size)

    def _write(self, *, whole: bool) -> None:
        table = pa.Table.from_batches(self._waiting, named(self._table)).combine_chunks()
        at = 0
        while table.num_rows - at >= (1 if whole else ROWS):
            self._writer.write_table(table.slice(at, ROWS), row_group_size=ROWS)
            at += ROWS
        rest = table.slice(min(at, table.num_rows))
        self._waiting, self._count = rest.to_batches(), rest.num_rows


def is_named_as_one(name: str) -> bool:
    """Whether a file of a history is called so, and nothing that others keep in a table's folder."""
    return _NAME.fullmatch(name) is not None


def digest_of(path: str) -> str:
    """The part of a file's name that is made of its bytes."""
    return Path(path).stem.rpartition("-")[2]


def partition_of(path: str) -> int:
    """The log's partition that a file is of: its name begins with its batch and with that."""
    return int(Path(path).name.split("-")[1])


def is_whole(root: Path, file: File) -> bool:
    """Whether the file is there, as it was written."""
    place = root / file.path
    if not place.is_file() or place.stat().st_size != file.bytes:
        return False
    return _digest(place) == digest_of(file.path)


def _digest(place: Path) -> str:
    with place.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]


def read_whole(root: Path, path: str) -> pa.Table:
    """The same, if it is as it was written. Raises `ConfigError`."""
    place = root / path
    if not place.is_file() or _digest(place) != digest_of(path):
        raise ConfigError(
            f"{place} is missing, or is not as it was written, and nothing goes on without it: restore it"
        )
    return read(root, path)


def read(root: Path, path: str) -> pa.Table:
    """A small file of one row or a few."""
    return pq.ParquetFile(root / path).read()
