"""docs/marshal.md: each of Marshal's 53 tests is there, its eight weaknesses too, and what shows it exists."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from doc_pages import ROOT

PAGE = (ROOT / "docs" / "marshal.md").read_text()
PARTS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
SUITE = ("World state", "Claiming", "Consuming", "Health")
WEAK = "What could be made to happen, and can not"
SHOWS = re.compile(r"`(?:golden/(\w+)|(test_\w+)::(test_\w+))`")
FLUSH = "TestFlush (twice)"
"""Two suites have one of this name."""
TESTS: dict[str, list[Path]] = {}
for path in sorted((ROOT / "tests").rglob("test_*.py")):
    TESTS.setdefault(path.stem, []).append(path)


def rows(part: str) -> list[list[str]]:
    """The cells of its table."""
    lines = [line for line in PARTS[part].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


ROWS = [row for part in PARTS for row in rows(part)]


def test_each_test_of_marshals_suite_is_there_once() -> None:
    names = [name.strip() for part in SUITE for row in rows(part) for name in row[0].split(",")]
    assert not [name for name, count in Counter(names).items() if count > 1]
    assert all(name == FLUSH or re.fullmatch(r"Test\w+", name) for name in names)
    assert sum(2 if name == FLUSH else 1 for name in names) == 53


def test_each_of_its_weaknesses_is_there() -> None:
    assert [row[0] for row in rows(WEAK)] == [f"{number}" for number in range(1, 9)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_shows_it_exists(row: list[str]) -> None:
    if row[-2] == "not built":
        assert row[-1].strip("| ") == ""
        return
    named = SHOWS.findall(row[-1])
    assert named, "no test is named"
    assert SHOWS.sub("", row[-1]).strip(", |") == "", "all that is named is a test, or a script"
    for golden, stem, test in named:
        if golden:
            assert (ROOT / "tests" / "core" / "golden" / f"{golden}.txt").exists()
            continue
        assert stem in TESTS, f"there is no file {stem}.py"
        pattern = rf"^\s*(async )?def {test}\("
        found = any(re.search(pattern, path.read_text(), re.MULTILINE) for path in TESTS[stem])
        assert found, f"{stem}.py has no {test}"


def test_the_page_for_those_who_move_leads_there() -> None:
    page = (ROOT / "docs" / "from-marshal.md").read_text()
    assert "marshal.md#what-could-be-made-to-happen-and-can-not" in page
