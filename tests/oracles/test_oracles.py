"""What was recorded is what is found: see the package for what is recorded, and how to record anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .mutants import ELSEWHERE, mutants
from .proof import BEGINS, stands, table
from .records import NEED_SPARK, RECORDS, difference
from .surface import MODULES, WITH_SPARK, imported, public, surface

ROOT = Path(__file__).parents[2]
PATH = re.compile(r"\bpares(?:\.[a-z_]+)*\.[A-Za-z_]+")
OF_A_CLASS = re.compile(r"\bpares(?:\.[a-z_]+)*\.[A-Z][a-z]\w+\b")
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("**/*.md")]


@pytest.mark.parametrize("name", sorted(RECORDS.keys() - NEED_SPARK))
def test_what_was_recorded_is_what_is_found(name: str) -> None:
    said = difference(name)
    assert not said, f"if that is meant, run `python -m tests.oracles --record {name}`, and review the diff:\n{said}"


def test_the_surface_names_no_private_path() -> None:
    """Or a file that moves would change it."""
    named = set(PATH.findall(surface()))
    assert named <= {*public(MODULES), *MODULES}


def test_what_the_pages_name_is_in_the_surface() -> None:
    named = {path for page in PAGES for path in OF_A_CLASS.findall(page.read_text())}
    assert len(named) > 15
    assert {
        path for path in named if path not in public(MODULES) and path.rpartition(".")[0] not in WITH_SPARK
    } == set()


def test_each_module_says_what_it_offers_or_the_record_does() -> None:
    for path, names in MODULES.items():
        assert names or imported(path).__all__


@pytest.mark.parametrize("protocol", BEGINS)
def test_the_table_of_the_proof_is_the_record(protocol: str) -> None:
    assert stands(protocol) == table(protocol)


def test_each_mutant_is_noticed() -> None:
    rows = [line.split(" | ") for line in mutants().splitlines()[1:]]
    assert len(rows) > 90
    assert [row for row in rows if not row[3].isdecimal() and row[2] not in ELSEWHERE] == []
