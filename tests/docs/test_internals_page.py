"""docs/internals.md follows a record by the names of classes: each of them is there."""

from __future__ import annotations

import re

from doc_pages import ROOT, prose, snippets

PAGE = ROOT / "docs" / "internals.md"
NAME = re.compile(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)*\b")
ELSEWHERE = {"Shoebox"}
"""The page's own."""


def classes() -> set[str]:
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    return set(re.findall(r"^class (\w+)", source, re.MULTILINE))


def named(text: str) -> set[str]:
    """What stands in backticks and looks like a class: `Loop`, `Member.hand_over`, `Lead(seat, token, until)`."""
    return {found for code in re.findall(r"`([^`\n]+)`", text) for found in NAME.findall(code.split("(")[0])}


def test_the_classes_that_it_names_are_there() -> None:
    found = named(prose(PAGE))
    assert len(found) > 30
    assert found - classes() - ELSEWHERE == set()


def test_the_pictures_name_what_the_text_names() -> None:
    """A class in a picture is one of the code: only the words of the picture are not."""
    pictures = [snippet.text for snippet in snippets(PAGE) if snippet.language == "text"]
    assert len(pictures) == 2
    shown = {
        found
        for picture in pictures
        for found in re.findall(r"(?:──[►] |◄── |(?:^|│) {1,4})([A-Z]\w*[a-z]\w*)", picture)
    }
    assert len(shown) > 10
    assert shown - classes() == set()
