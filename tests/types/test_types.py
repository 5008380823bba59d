"""Wrong spellings are type errors: pyright, strict, on `spellings.py`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pares
from pares.runtime.config.arguments import AnySettings
from pares.runtime.config.environment import VARIABLES

HERE = Path(__file__).parent
WANTED = 26


def test_each_wrong_spelling_is_an_error_and_each_right_one_is_none() -> None:
    """An error that is not there is reported, as the comment that expects it is in vain then."""
    lines = (HERE / "spellings.py").read_text().splitlines()
    assert sum("# pyright: ignore[" in line for line in lines) >= WANTED
    assert not any(re.search(r"# (type: ignore|pyright: ignore$)", line) for line in lines), "each names its rule"
    run = [sys.executable, "-m", "pyright", "--outputjson", str(HERE / "spellings.py")]
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=HERE.parents[1])
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 1
    said = [f"{one['range']['start']['line'] + 1}: {one['message']}" for one in found["generalDiagnostics"]]
    assert said == []


def test_the_keywords_of_a_member_are_those_that_are_typed_elsewhere() -> None:
    """`Lifespan`, `serve`, `from_env` and the like name them in a TypedDict."""
    keywords = set(signature(pares.Member).parameters) - {"ledger"}
    assert keywords == set(AnySettings.__annotations__)


def test_each_keyword_that_is_a_word_has_a_variable() -> None:
    called = {"barrier", "ready", "on_lost", "options"}
    assert set(signature(pares.Member).parameters) - {"ledger"} - called == set(VARIABLES)
