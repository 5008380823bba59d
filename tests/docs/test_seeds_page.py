"""docs/seeds.md: every requirement has a test that exists, and what the page says is said where it says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from doc_pages import ROOT

PAGE = (ROOT / "docs" / "seeds.md").read_text()
ROW = re.compile(r"^\| (\d{3})-(\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE)
NAMED = re.compile(r"`(test_\w+)(?:::(test_\w+))?`")
TESTS: dict[str, list[Path]] = {}
for path in sorted((ROOT / "tests").rglob("test_*.py")):
    TESTS.setdefault(path.stem, []).append(path)


def test_every_seed_is_there_and_its_requirements_are_numbered_through() -> None:
    assert len(ROWS) == len(re.findall(r"^\| \d{3}-", PAGE, re.MULTILINE)), "each row has its five columns"
    for seed in ("000", "001", "002", "003", "004"):
        numbers = [int(row[1]) for row in ROWS if row[0] == seed]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= 20
    total, departs, waits = map(int, re.findall(r"(\d+) in all, of\nwhich (\d+) are met .* and (\d+) wait", PAGE)[0])
    assert total == len(ROWS) >= 103
    assert departs == sum("departs" in row[4] for row in ROWS)
    assert waits == sum("consumption: not in this release" in row[4] for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}-{row[1]}" for row in ROWS])
def test_what_shows_it_exists(row: tuple[str, ...]) -> None:
    named = NAMED.findall(row[5])
    assert named, "no test is named"
    for stem, test in named:
        assert stem in TESTS, f"there is no file {stem}.py"
        if test:
            pattern = rf"^\s*(async )?def {test}\("
            found = any(re.search(pattern, path.read_text(), re.MULTILINE) for path in TESTS[stem])
            assert found, f"{stem}.py has no {test}"


@pytest.mark.parametrize("row", [row for row in ROWS if "examples/" in row[4]], ids=lambda row: f"{row[0]}-{row[1]}")
def test_files_that_meet_it_exist(row: tuple[str, ...]) -> None:
    for path in re.findall(r"`(examples/[\w.]+)`", row[4]):
        assert (ROOT / path).exists()


def test_what_the_page_says_is_said_elsewhere() -> None:
    neli = (ROOT / "docs" / "neli.md").read_text()
    assert "a topic of its own" in neli
    assert "failures correlate" in neli
