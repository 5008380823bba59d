"""How often an audit reads a log: once, however many groups, and whoever folds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scribe import story

from pares.spark import reading
from pares.spark.audit import audit, audit_all
from pares.spark.source import LedgerReader, LedgerSource
from pares.spark.source.options import options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_log_is_read_once_by_sparks_workers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = str(tmp_path / "tally")

    class Counting(LedgerReader):
        def read(self, partition: Any) -> Iterator[Any]:
            with open(tally, "a") as file:
                file.write(f"{partition.low} to {partition.high}\n")
            yield from super().read(partition)

    class Counted(LedgerSource):
        def reader(self, schema: Any) -> LedgerReader:
            return Counting(options(dict(self.options)))

    log = story(5, roles=5, steps=60)
    url = log.save(tmp_path / "l.db")
    here = audit(url, "g", spark=spark)
    monkeypatch.setattr(reading, "SMALL", 0)
    monkeypatch.setattr(reading, "LedgerSource", Counted)
    settings = {name: spark.conf.get(name) for name in ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone")}
    there = audit(url, "g", spark=spark, engine="python")
    assert Path(tally).read_text().splitlines() == [f"0 to {len(log.entries)}"]
    assert {name: spark.conf.get(name) for name in settings} == settings
    assert there.summary == here.summary
    assert {name: there.rows(name) for name in there.tables} == {name: here.rows(name) for name in here.tables}


def test_a_short_log_is_read_once_here(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[tuple[int, int]] = []
    entries_of = reading.entries_of

    def counted(log: Any, partition: int, low: int, high: int) -> Iterator[Any]:
        reads.append((low, high))
        return entries_of(log, partition, low, high)

    monkeypatch.setattr(reading, "entries_of", counted)
    log = story(5, roles=5, steps=60)
    audit_all(log.save(tmp_path / "l.db"), spark)
    assert reads == [(0, len(log.entries))]
