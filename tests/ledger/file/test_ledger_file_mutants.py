"""Each rule of the file ledger, broken on purpose, is noticed; and without that the same history keeps every promise.

`PARES_ROUNDS=1000 pytest tests/ledger/file/test_ledger_file_mutants.py` plays a thousand histories.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from file_history import play
from file_mutants import MUTANTS

from pares.sim.mutant import Mutant, applied

PROOF = Path(__file__).parents[3] / "docs" / "proof.md"


@pytest.mark.parametrize("seed", range(int(os.environ.get("PARES_ROUNDS", "25"))))
def test_every_promise_holds(seed: int) -> None:
    assert play(seed) == ""


@pytest.mark.parametrize("name", MUTANTS)
def test_the_mutant_is_noticed_and_without_it_the_history_is_clean(name: str) -> None:
    broken = MUTANTS[name]
    with applied(Mutant(name, "", broken.what, broken.patches)):
        assert play(broken.seed) == broken.promise
    assert play(broken.seed) == ""


def test_the_page_says_what_is_noticed() -> None:
    rows = [f"| {name} | {one.what} | {one.seed} | {one.promise} |" for name, one in MUTANTS.items()]
    assert "\n".join(rows) in PROOF.read_text()
