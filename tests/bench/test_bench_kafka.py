"""The benchmarks on Kafka: what they print can go into the document, and they run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench.figures import put
from bench.on_kafka import BEGIN, END

ROOT = Path(__file__).parents[2]
SPREAD = re.compile(r"[\d.]+ / [\d.]+ / [\d.]+ ms \(n=\d+\)")


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", "--ledger", "kafka", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_figures_go_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    put(page, "new", BEGIN, END)
    assert page.read_text() == f"before\n{BEGIN}\nnew\n{END}\nafter\n"


@pytest.mark.parametrize("text", ["", BEGIN, END + BEGIN, BEGIN + END + END])
def test_a_page_without_both_marks_is_left_alone(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match="once each"):
        put(page, "new", BEGIN, END)
    assert page.read_text() == text


def test_the_document_has_a_place_for_them() -> None:
    text = (ROOT / "docs" / "bench.md").read_text()
    assert text.count(BEGIN) == text.count(END) == 1


def test_a_case_that_is_not_there() -> None:
    ended = bench("--only", "idle")
    assert ended.returncode == 2
    assert "no case on kafka: idle; there are roundtrip, handover, takeover, false" in ended.stderr


@pytest.mark.brokers
@pytest.mark.timeout(400)
def test_a_quick_run() -> None:
    ended = bench("--nodes", "1", "--quick", "--json")
    assert ended.returncode == 0, ended.stderr
    rows = {row["what"]: row["figures"] for row in json.loads(ended.stdout)["rows"]}
    assert len(rows) == 10
    for what, figures in rows.items():
        assert what.startswith("1 node: ")
        if "live leader" in what:
            assert figures.isdigit()
        elif " / plain" not in what:
            assert SPREAD.fullmatch(figures), figures
