"""docs/internals.md follows a record by the names of classes: each of them is there."""

from __future__ import annotations

import re

from doc_pages import ROOT, prose, snippets
from tests.house.imports import SOURCE, When, graph

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


def folders() -> dict[str, set[str]]:
    """The page's table of folders: what each may import."""
    found = dict[str, set[str]]()
    for line in PAGE.read_text().splitlines():
        cells = line.strip("| ").split(" | ")
        for name in re.findall(r"\[(\w+)\]\(\.\./src/pares/\1\)", cells[0]) if len(cells) == 3 else ():
            found[name] = set(re.findall(r"\w+", cells[2]))
    return found


def test_the_folders_are_those_that_there_are_and_import_what_it_says() -> None:
    there = {path.parent.name for path in (SOURCE / "pares").glob("*/__init__.py")}
    stated = folders()
    assert set(stated) == there
    stated["cli"] = there  # all of these
    stated["core"] = set()  # nothing of pares
    imports = {
        (source.split(".")[1], target.split(".")[1])
        for source, targets in graph().items()
        for target, when in targets.items()
        if when <= When.IN_FUNCTIONS and "." in source and "." in target
    }
    assert [
        f"{source} imports {target}"
        for source, target in sorted(imports)
        if source in there and target in there - {source} and target not in stated[source]
    ] == []
