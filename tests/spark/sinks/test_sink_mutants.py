"""Each rule of the sinks, broken on purpose, is noticed by a named test. No Spark here."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sink_mutants import MUTANTS

from pares.sim.mutant import Mutant, applied

PROOF = Path(__file__).parents[3] / "docs" / "proof.md"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str, place: Path) -> None:
    broken = MUTANTS[name]
    known: dict[str, Any] = {"kind": broken.kind, "place": place}
    asked = {one: known[one] for one in inspect.signature(broken.test).parameters if one in known}
    with applied(Mutant(name, "", broken.what, broken.patches)), pytest.raises(broken.ends):
        broken.test(**asked)


def test_the_page_says_what_is_noticed() -> None:
    rows = [f"| {name} | {one.what} | {one.noticed_by} |" for name, one in MUTANTS.items()]
    assert "\n".join(rows) in PROOF.read_text(), "\n".join(rows)
