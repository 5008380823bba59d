"""What comments, docstrings and pages refer to: rules by their number, files by their name, headings, names of modules."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from doc_pages import ROOT

FOLDERS: Final = ("src", "tests", "bench", "chaos", "examples", "docs", "ops", "requirements")
READ: Final = (".py", ".md", ".toml", ".sh", ".txt")
RECORDS: Final = ROOT / "tests" / "oracles"
"""What is recorded there refers to nothing."""
RULE: Final = re.compile(r"(?<![\w.`#/\"'-])([AHNRW]\d{1,2}[a-z]?)\b(?![.\-]?\d)")
ELSEWHERE: Final = re.compile(
    r"(?<![\w.`#/\"'-])[BKSU]\d{1,2}\b(?![.\-]?\d)|(?<!spark/)\bfacts/\w|\bdesign, section|\b(?:api|style|review|house)\.md"
)
"""What stands in texts that are not in the tree: findings of a review, sections of a plan."""
PROMISE: Final = re.compile(r"\b[Pp]romises? (\d)(?: (?:and|to) (\d))?")
FILE: Final = re.compile(r"(?<![\w./{}*~-])((?:[\w-]+/)*[\w-]+\.(?:py|md|sh|svg|toml))(?:#([\w-]+))?(?![\w/.*])")
MODULE: Final = re.compile(r"`(?:pares\.)?((?:core|runtime|ledger|sim|view|supervise|demo)(?:\.\w+)+)(?:\(\))?`")
"""A file of pares by its dotted path, with a name in it or without."""
COMMENT: Final = re.compile(r'"""(.*?)"""|(?<=#)( [^\n]*)', re.DOTALL | re.MULTILINE)
NUMBERED: Final = re.compile(r"^(?:- \*\*|\*\*|### |\| )([AHNRW]\d{1,2}[a-z]?)\b", re.MULTILINE)


@cache
def files() -> dict[Path, str]:
    """The files that people read and write, with their text."""
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    here = [path for path in sorted([*ROOT.iterdir(), *inside]) if path.is_file()]
    kept = [path for path in here if path.suffix in READ or path.name == "Makefile"]
    return {path: path.read_text() for path in kept if not (path.suffix == ".txt" and path.is_relative_to(RECORDS))}


@cache
def names() -> frozenset[str]:
    """Each file by its path, and by each end of it."""
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    parts = [path.relative_to(ROOT).parts for path in [*ROOT.iterdir(), *inside]]
    return frozenset("/".join(each[start:]) for each in parts for start in range(len(each)))


def said(path: Path, text: str) -> str:
    """What a file says to people: of code, comments and what stands between three quotes."""
    return text if path.suffix != ".py" else "\n".join("".join(each) for each in COMMENT.findall(text))


@cache
def rules() -> frozenset[str]:
    """The numbers that a text in the tree explains. A letter behind one is a part of that rule: (a), (b), (c)."""
    design = (ROOT / "docs" / "design.md").read_text()
    found = {*NUMBERED.findall(design), *NUMBERED.findall((ROOT / "docs" / "from-goneli.md").read_text())}
    for rule, text in re.findall(r"^### (R\d+) [^\n]*\n(.*?)(?=^##)", design, re.MULTILINE | re.DOTALL):
        found |= {f"{rule}{letter}" for letter in re.findall(r"\(([a-c])\)", text)}
    return frozenset(found)


@cache
def promises() -> frozenset[str]:
    page = (ROOT / "docs" / "guarantees.md").read_text()
    return frozenset(re.findall(r"^(\d)\. \*\*", page, re.MULTILINE))


def is_in_a_module(path: str) -> bool:
    """Whether this dotted path leads to a module of pares, or to something that one of them names."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        place = ROOT.joinpath("src", "pares", *parts[:end])
        file = next((each for each in (place.with_suffix(".py"), place / "__init__.py") if each.exists()), None)
        if file is not None:
            if end == len(parts):
                return True
            begin = r"\b" if file.name == "__init__.py" else r"^ *(?:class |def |async def )?"
            return re.search(rf"{begin}{parts[end]}\b", file.read_text(), re.MULTILINE) is not None
    return False
