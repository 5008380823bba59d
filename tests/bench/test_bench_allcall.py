"""The benchmarks of ALLCALL: what they print can go into the document, and they run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench.allcall import BEGIN, END, SHORT, USUAL
from bench.figures import put

ROOT = Path(__file__).parents[2]
SPREAD = re.compile(r"[\d.]+ / [\d.]+ / [\d.]+ ms \(n=\d+\)")


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", "--protocol", "allcall", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_figures_go_between_marks_of_their_own(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    put(page, "new", BEGIN, END)
    assert page.read_text() == f"before\n{BEGIN}\nnew\n{END}\nafter\n"


def test_the_document_has_a_place_for_them() -> None:
    text = (ROOT / "docs" / "bench.md").read_text()
    assert text.count(BEGIN) == text.count(END) == 1


def test_bounds_are_those_of_the_protocol() -> None:
    assert USUAL.crash_ms == 12_020
    assert USUAL.beat_ms == 1020
    assert SHORT.term_ms == 1120


def test_a_case_that_is_not_there() -> None:
    ended = bench("--only", "idle")
    assert ended.returncode == 2
    assert "no case on allcall: idle; there are takeover, yield, heal, usual-takeover, usual-heal" in ended.stderr


@pytest.mark.brokers
@pytest.mark.timeout(400)
def test_a_quick_run() -> None:
    ended = bench("--quick", "--json")
    assert ended.returncode == 0, ended.stderr
    rows = {row["what"]: row["figures"] for row in json.loads(ended.stdout)["rows"]}
    assert len(rows) == 6
    assert all(SPREAD.fullmatch(figures) for figures in rows.values()), rows
