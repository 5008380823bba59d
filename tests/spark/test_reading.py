"""How often an audit reads a log: once, however many groups, and whoever folds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scribe import Scribe, story

from pares.core.errors import ConfigError
from pares.spark import reading
from pares.spark.audit import audit, audit_all
from pares.spark.source import LedgerReader, LedgerSource
from pares.spark.source.options import options
from pares.spark.together import audit_together

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


def test_several_groups_that_are_audited_together_are_read_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `--also` has it; each group's audit is what it would be by itself."""
    log = _of_groups(4)
    url = log.save(tmp_path / "l.db")
    alone = {name: audit(url, name, spark=spark) for name in ("g1", "g3", "g0")}
    reads: list[tuple[int, int]] = []
    entries_of = reading.entries_of

    def counted(log: Any, partition: int, low: int, high: int) -> Iterator[Any]:
        reads.append((low, high))
        return entries_of(log, partition, low, high)

    monkeypatch.setattr(reading, "entries_of", counted)
    found = audit_together(url, list(alone), spark=spark)
    assert reads == [(0, len(log.entries))]
    assert [one.group for one in found.groups] == list(alone)
    for one in found.groups:
        assert one.summary == alone[one.group].summary
        assert one.promises == alone[one.group].promises
        assert {name: one.rows(name) for name in one.tables} == {
            name: alone[one.group].rows(name) for name in one.tables
        }
    assert {gap["role"] for gap in found.gaps} <= {"r"}
    with pytest.raises(ConfigError, match="there is no group 'g9' in"):
        audit_together(url, ["g1", "g9"], spark=spark)


def _of_groups(many: int) -> Scribe:
    """Groups in one log, each with a role and two terms."""
    log = Scribe(group="g0")
    for number in range(many):
        one = Scribe(group=f"g{number}", now=log.now)
        one.role("r")
        a, b = one.join("a"), one.join("b")
        term = one.claim(a, "r")
        one.lead(term)
        one.sleep(100 + number)
        one.stop(term, "asked")
        one.lead(one.transfer(term, b, "asked", "handover"))
        start = len(log.entries) if number else 0
        log.entries[start:] = [(start + at, at_ms, payload) for at, at_ms, payload in one.entries]
    return log
