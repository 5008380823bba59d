"""Rows that other hands took out of the file: a hole that no ledger makes, and that must not stop a reader."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from pares.ledger import open as open_ledger
from pares.ledger.base import Log
from pares.spark.logs import entries_of


def _with_holes(path: Path, *taken: int) -> Log:
    ledger = open_ledger(f"sqlite:///{path}")
    ledger.append_many([b"%d" % n for n in range(10)])
    with closing(sqlite3.connect(path)) as connection, connection:
        (column,) = (row[1] for row in connection.execute("PRAGMA table_info(entries)") if row[5] == 1)
        low = connection.execute(f"SELECT min({column}) FROM entries").fetchone()[0]
        connection.executemany(f"DELETE FROM entries WHERE {column} = ?", [(low + n,) for n in taken])
    return ledger


def test_a_read_at_a_hole_gives_what_follows(tmp_path: Path) -> None:
    with closing(_with_holes(tmp_path / "l.db", 0, 4, 5)) as ledger:
        assert [entry.payload for entry in ledger.read(4)] == [b"6", b"7", b"8", b"9"]
        assert [entry.offset for entry in ledger.read(0)][:2] == [1, 2]
        read = [entry.offset for entries in entries_of(ledger, 0, 0, 10) for entry in entries]
        assert read == [1, 2, 3, 6, 7, 8, 9]


def test_a_log_that_ends_in_a_hole_ends(tmp_path: Path) -> None:
    with closing(_with_holes(tmp_path / "l.db", 8, 9)) as ledger:
        assert ledger.read(8) == []
        assert ledger.append(b"ten") == 10
        assert [entry.offset for entry in ledger.read(8)] == [10]
