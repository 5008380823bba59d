"""The programs of docs/history.md run, as they stand there, on a ledger of a group `orders`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scribe import Scribe
from tests.docs.doc_pages import ROOT, snippets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_the_page(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Scribe("orders")
    log.role("ship")
    term = log.claim(log.join("a"), "ship")
    log.lead(term)
    log.sleep(100)
    log.beat(term.member)
    monkeypatch.chdir(tmp_path)
    log.save(tmp_path / "work.db")
    programs = [snippet for snippet in snippets(ROOT / "docs" / "history.md") if snippet.language == "python"]
    assert len(programs) == 2
    for program in programs:
        # Spark's workers have folders of their own, so a path of the page's is one of this folder's here.
        text = program.text.replace("sqlite:///work.db", f"sqlite:///{tmp_path}/work.db")
        text = text.replace('"rows"', f'"{tmp_path}/rows"').replace('"checkpoint"', f'"{tmp_path}/checkpoint"')
        exec(compile(text, f"history.md:{program.line}", "exec"), {"spark": spark})
    said = capsys.readouterr().out
    assert "ship" in said
    assert said.count("gained") == 1
    assert spark.read.parquet(f"{tmp_path}/rows").count() == len(log.entries)
