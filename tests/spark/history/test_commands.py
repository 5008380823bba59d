"""`pares slo` and `pares audit --history`: what they say, of a log and of a history."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scribe import Scribe
from typer.testing import CliRunner

from pares.cli.app import app
from pares.ledger import open as open_ledger
from pares.spark import history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def said(*arguments: str, code: int = 0) -> str:
    ran = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert ran.exit_code == code, ran.output
    return ran.stdout


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A role that was led for 1000 ms, was without a leader for 500 after a handover, and was led for 1500 again."""
    log = Scribe()
    log.role("r")
    a, b = log.join("a"), log.join("b")
    term = log.claim(a, "r")
    log.lead(term)
    for _ in range(2):
        log.sleep(500)
        log.beat(a)
        log.beat(b)
    log.stop(term, "asked")
    after = log.transfer(term, b, "asked", "handover")
    log.sleep(500)
    log.lead(after)
    for _ in range(3):
        log.sleep(500)
        log.beat(b)
    return log.save(tmp_path_factory.mktemp("commands") / "l.db")


def test_availability_of_a_log_and_of_a_history(spark: SparkSession, url: str, tmp_path: Path) -> None:
    answer: dict[str, Any] = json.loads(said("slo", "--ledger", url, "--by", "30d", "--json"))
    (stretch,) = answer["stretches"]
    assert [stretch[name] for name in ("group", "role", "there_ms", "led_ms", "none_ms")] == ["g", "r", 3000, 2500, 500]
    (seat,) = answer["seats"]
    assert [seat[name] for name in ("there_ms", "none_ms", "nines", "budget_ms", "budget_left_ms")] == [
        *(3000, 500, 0.78),
        *(3, -497),
    ]
    (takeover,) = answer["takeovers"]
    assert [takeover[name] for name in ("cause", "count", "p50_ms", "max_ms")] == ["handover", 1, 500, 500]
    history(None, tmp_path / "h").update(url)
    place = str(tmp_path / "h")
    shown = said("slo", "--history", place, "--by", "30d", "--window", "2s", "--role", "r")
    assert "75.000 %" in shown
    assert "handover" in shown
    room = json.loads(said("capacity", "--history", place, "--size", "1", "--json"))
    (group,) = room["groups"]
    with closing(open_ledger(url)) as ledger:
        entries = ledger.read(0)
    size, lasted = sum(len(entry.payload) for entry in entries), entries[-1].timestamp_ms - entries[0].timestamp_ms
    assert [group[name] for name in ("group", "records", "bytes", "members", "gained")] == [
        "g",
        len(entries),
        size,
        3,
        2,
    ]
    assert group["beats"] == 7
    assert group["records_s"] == round(1000 * len(entries) / lasted, 3)
    assert room["retention"][1]["bytes"] == round(7 * 86_400 * 1000 * size / lasted)
    assert room["lasts_days"] == round((1 << 20) / (1000 * size / lasted) / 86_400, 3)
    audited = json.loads(said("audit", "--history", str(tmp_path / "h"), "--group", "g", "--json"))
    assert (audited["group"], audited["ledger"], audited["exit_code"]) == ("g", url, 0)
