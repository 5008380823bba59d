"""The subject of a sentence is the actor: no sentence of a page, a docstring, a comment or a help text begins with "Who" or
"Whoever". (A question may.)
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from doc_pages import PAGES, ROOT, prose

CODE = sorted(path for part in ("src", "tests", "bench", "chaos", "examples") for path in (ROOT / part).rglob("*.py"))
BEGINS = re.compile(
    r"(?:\A|[.!?;:\])*][\"')*`]*\s+|\n\s*\n\s*|^\s*(?:[-*]|[RHN]\d+[a-c]?|\d+\.)\s+|\|\s*)[*`\"(\[]*(Who(?:ever)?)\b([^.?!|]*)([.?!|]|\Z)",
    re.MULTILINE,
)


def nameless(text: str) -> list[str]:
    """The sentences of `text` that begin so."""
    return [" ".join((one[1] + one[2]).split())[:80] for one in BEGINS.finditer(text) if one[3] != "?"]


def docstrings(source: str) -> Iterator[str]:
    """Docstrings, those of attributes too, and the texts of `help=`."""
    for node in ast.walk(ast.parse(source)):
        value = (
            node.value if isinstance(node, ast.Expr) or (isinstance(node, ast.keyword) and node.arg == "help") else None
        )
        for part in ast.walk(value) if value is not None and not isinstance(value, ast.Call | ast.Await) else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value


def comments(source: str) -> Iterator[str]:
    """Comments; those of lines that follow one another are one text."""
    block: list[str] = []
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1 and block:
                yield " ".join(block)
                block = []
            block.append(token.string.lstrip("#:! "))
            last = token.start[0]
    yield " ".join(block)


def headings(source: str) -> Iterator[str]:
    """Lines of comments that follow one another, in a script or a file of make."""
    yield from (block.replace("\n#", "\n") for block in re.findall(r"(?:^#.*\n)+", source, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages(page: Path) -> None:
    assert nameless(prose(page)) == []


def test_docstrings_comments_and_help() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {said}"
        for path in CODE
        for text in (*docstrings(path.read_text()), *comments(path.read_text()))
        for said in nameless(text)
    ]
    found += [
        f"{path.relative_to(ROOT)}: {said}"
        for path in (ROOT / "Makefile", *sorted(ROOT.glob("tests/core/golden*/*.txt")))
        for text in headings(path.read_text())
        for said in nameless(text.lstrip("# "))
    ]
    assert found == [], "\n".join(found)


def test_it_sees_what_it_is_for() -> None:
    source = (
        '"""One thing.\n\nWho waits, gets it."""\n# Whoever\n# is late.\nx = 1\n'
        '"""Good: Who leads here?"""\nf(help="Who leads.")\n'
    )
    assert [said for text in docstrings(source) for said in nameless(text)] == ["Who waits, gets it", "Who leads"]
    assert [said for text in comments(source) for said in nameless(text)] == ["Whoever is late"]
    assert nameless("H15  Who hears nobody is alone.\n3. Who stops.") == ["Who hears nobody is alone", "Who stops"]
    assert [
        nameless(text) for text in headings("# R1: a rule. Who\n# breaks it?\nx\n# It is. Who\n# reads it, ends.\n")
    ] == [
        [],
        ["Who reads it, ends"],
    ]
    page = "| Who may not | yes |\n\n- Whoever it is.\n\nA member whose lease ends. Who knows?"
    assert nameless(page) == ["Who may not", "Whoever it is"]
