"""An audit without Spark says what one with Spark says, and says no where it can't."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from planted import plant_all
from scribe import story
from typer.testing import CliRunner

from pares.cli.app import app
from pares.core.errors import CapabilityError, ConfigError
from pares.spark import session
from pares.spark.audit import audit
from pares.spark.plain import tables
from pares.spark.result import AuditResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def _lines(result: AuditResult, table: str) -> list[str]:
    """The rows of a table as text; rows that its order does not tell apart may stand either way."""
    return sorted(repr(row) for row in result.rows(table))


@pytest.mark.parametrize("kind", ["lawful", "planted", "snapshot", "holes"])
def test_both_say_the_same(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    plant = plant_all()
    log = plant.log if kind == "planted" else story(7, roles=8, members=5, steps=150)
    if kind == "snapshot":
        log.snapshot("admin~0")
    faults = plant.faults if kind == "planted" else None
    url = log.save(tmp_path / "l.db")
    if kind == "holes":
        _remove(tmp_path / "l.db", (40, 41, 42, 60))
    plain = audit(url, "g", faults=faults, engine="python")
    by_spark = audit(url, "g", faults=faults, spark=spark, engine="spark")
    assert plain.frames == {}
    assert plain.summary == by_spark.summary
    assert plain.promises == by_spark.promises
    assert plain.picture == by_spark.picture
    assert plain.picture is not None
    assert plain.picture.around
    assert {name: _lines(plain, name) for name in plain.tables} == {
        name: _lines(by_spark, name) for name in by_spark.tables
    }
    assert {name: table.schema for name, table in plain.tables.items()} == {
        name: table.schema for name, table in by_spark.tables.items()
    }
    assert plain.rows("terms")
    if kind == "holes":
        for result in (plain, by_spark):
            holes = [row for row in result.rows("anomalies") if row["kind"] == "offset_hole"]
            places = sorted((row["from_offset"], row["to_offset"], row["count"]) for row in holes)
            assert places == [(40, 42, 3), (60, 60, 1)]


def _remove(file: Path, offsets: tuple[int, ...]) -> None:
    """As a ledger leaves holes in the offsets that is restarted, or restored from a copy."""
    with sqlite3.connect(file) as connection:
        keys = [row[0] for row in connection.execute("SELECT id FROM entries ORDER BY id")]
        connection.executemany("DELETE FROM entries WHERE id = ?", [(keys[offset],) for offset in offsets])
    connection.close()


def test_what_only_spark_can_do_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = story(5, roles=3, steps=30)
    url = log.save(tmp_path / "l.db")
    given: list[dict[str, Any]] = [{"writes": tmp_path / "w.csv"}, {"faults": tmp_path / "f.csv"}]
    for more in given:
        with pytest.raises(ConfigError, match="without Spark the log alone is judged"):
            audit(url, "g", engine="python", **more)
    with pytest.raises(ConfigError, match=r"no group 'h' .* it has records of 'g'"):
        audit(url, "h", engine="python")
    monkeypatch.setattr(tables, "MOST", 10)
    with pytest.raises(CapabilityError, match="has more than 10 records, which are not judged without Spark"):
        audit(url, "g", engine="python")


def test_where_no_java_is_found_the_command_judges_without_spark_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = plant_all().log.save(tmp_path / "l.db")
    monkeypatch.setattr(session, "has_java", lambda: False)
    found = CliRunner().invoke(app, ["audit", "--ledger", url, "--group", "g", "--out", str(tmp_path / "out")])
    assert found.exit_code == 3, found.output
    assert "no Java was found" in found.output
    assert "judged in plain Python, without Spark" in found.output
    assert (tmp_path / "out" / "report.html").is_file()
    found = CliRunner().invoke(app, ["audit", "--ledger", url, "--group", "g", "--engine", "python", "--also", "h"])
    assert isinstance(found.exception, ConfigError)
    assert "--engine python judges one log by itself" in str(found.exception)
