"""The benchmarks of NELI: their arithmetic, their place in the document, and that they run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from bench.figures import put
from bench.on_neli import BEGIN, END, SETTINGS, SIZES, cases, longest_gap_ms

ROOT = Path(__file__).parents[2]
SPREAD = re.compile(r"[\d.]+ / [\d.]+ / [\d.]+ s \(n=\d+\)")


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", "--protocol", "neli", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_the_document_has_a_place_for_the_figures(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "bench.md").read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    page = tmp_path / "page.md"
    page.write_text(text)
    put(page, "new", BEGIN, END)
    assert f"{BEGIN}\nnew\n{END}\n" in page.read_text()
    assert page.read_text().split(BEGIN)[0] == text.split(BEGIN)[0]


def test_the_longest_silence_counts_from_the_windows_beginning_to_its_end() -> None:
    assert longest_gap_ms([], 100, 300) == 200
    assert longest_gap_ms([150, 160], 100, 300) == 140
    assert longest_gap_ms([290, 110, 200, 50, 999], 100, 300) == 90


def test_every_setting_has_its_cases_and_goes_together() -> None:
    """Deadlines and beats that a member would refuse are no use to a benchmark."""
    named = cases(Namespace(quick=True, rounds=50))
    assert {f"{what}-{key}" for key in SETTINGS for what in ("crash", "close")} <= named.keys()
    assert {"groups-neli", "members-neli", "groups-nele", "members-nele", "groups-fast"} <= named.keys()
    assert (SIZES[0], SIZES[-1]) == (1, 50)
    for setting in SETTINGS.values():
        deadline = setting.member.get("heartbeat_timeout", setting.session / 3)
        assert setting.member.get("poll_interval", 0) * 2 < deadline <= setting.session


def test_a_case_that_is_not_there() -> None:
    ended = bench("--only", "idle")
    assert ended.returncode == 2
    assert "no case on neli: idle; there are crash-goneli" in ended.stderr


@pytest.mark.brokers
@pytest.mark.timeout(400)
def test_a_quick_run() -> None:
    ended = bench("--quick", "--only", "crash-quick", "--only", "close-quick", "--only", "groups-fast", "--json")
    assert ended.returncode == 0, ended.stderr
    rows = json.loads(ended.stdout)["rows"]
    assert [row["what"].split(",")[0] for row in rows] == [
        "crash takeover",
        "closing the leader",
        *["fast-neli"] * 3,
    ]
    for row in rows[:2]:
        assert SPREAD.fullmatch(row["figures"]), row
    for row in rows[2:]:
        assert re.fullmatch(r"\d+ records/s, no partition silent for more than \d+ ms", row["figures"]), row
