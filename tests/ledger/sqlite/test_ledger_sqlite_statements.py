"""The statements that SQLite gets: none that a Python from 3.11 on warns of."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import pares

SOURCES = sorted(Path(pares.__file__).parent.rglob("*.py"))
NUMBERED = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE)\b.*\?\d", re.DOTALL)
"""A numbered placeholder. With a sequence of values, which all our statements get, Python 3.12.0 to 3.12.3 warns of each."""


def statements_with_numbers(source: str) -> list[str]:
    texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and NUMBERED.search(text)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_placeholder_is_numbered(path: Path) -> None:
    assert statements_with_numbers(path.read_text()) == []


def test_the_check_sees_numbers() -> None:
    assert statements_with_numbers('A = "SELECT id - ?1 FROM entries"') == ["SELECT id - ?1 FROM entries"]
    assert statements_with_numbers('A = "SELECT id - ? FROM entries"') == []
