"""A sink with no room: it says so, nothing of the batch is published, and with room the query goes on. No Spark here."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from full_disk import files_of_at_most
from sink_tools import MAKE, ROLE, Steps, frame

from pares.core.errors import CapabilityError
from pares.spark.sinks.base import Seat, deliver
from pares.spark.sinks.extents import StreamExtent

pytestmark = pytest.mark.timeless
SAYS = "no room left at .*: make some, and start the query again: a batch is published whole or not at all"


def _extents(*batches: int) -> list[StreamExtent]:
    return [StreamExtent("query", batch, str(batch) if batch else None, str(batch + 1)) for batch in batches]


def test_files_that_can_not_grow_publish_nothing(tmp_path: Path) -> None:
    sink, held = MAKE["parquet"](tmp_path, Steps()), Seat(ROLE, 0, 1)
    first, second = _extents(0, 1)
    sink.open(held)
    assert deliver(sink, frame(range(10)), held, first)
    with files_of_at_most(100), pytest.raises(CapabilityError, match=SAYS):
        deliver(sink, frame(range(10, 5000)), held, second)
    assert sink.rows() == list(range(10))
    later = Seat(ROLE, 0, 2)
    sink.open(later)
    assert deliver(sink, frame(range(10, 5000)), later, second)
    assert sink.rows() == list(range(5000))
    assert sink.leftovers() == 0


def test_a_database_that_is_full_publishes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, held = MAKE["sqlite"](tmp_path, Steps()), Seat(ROLE, 0, 1)
    first, second = _extents(0, 1)
    sink.open(held)
    assert deliver(sink, frame(range(10)), held, first)
    connect = sqlite3.connect

    def full(*given: Any, **more: Any) -> sqlite3.Connection:
        connection = connect(*given, **more)
        connection.executescript("PRAGMA max_page_count = 1").close()  # no smaller than what is there
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", full)
        with pytest.raises(CapabilityError, match=SAYS):
            deliver(sink, frame(range(10, 50_000)), held, second)
    assert sink.rows() == list(range(10))
    assert deliver(sink, frame(range(10, 50_000)), held, second)
    assert sink.rows() == list(range(50_000))
    assert sink.leftovers() == 0
