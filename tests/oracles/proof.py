"""The table of docs/proof.md: the rules of claims, the mutants that break them, and what the record says of each."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pares.sim.members.mutants import MUTANTS

from .mutants import recorded

PAGE: Final = Path(__file__).parents[2] / "docs" / "proof.md"
BEGIN: Final = "<!-- The table is written by `python -m tests.oracles --record mutants.txt`. -->"
HEAD: Final = "| rule | mutant | what is broken | seed | promise that was seen to break |\n|---|---|---|---|---|"


def table() -> str:
    """As it should stand there."""
    found = recorded()
    rows: list[str] = []
    for mutant in sorted(MUTANTS.values(), key=lambda one: _number(one.rule)):
        seed, _, promise = found.get(("claims", mutant.rule, mutant.name), "? | not played").partition(" | ")
        rows.append(f"| {mutant.rule} | {mutant.name} | {mutant.what} | {seed} | {promise} |")
    return "\n".join([HEAD, *rows]) + "\n"


def _number(rule: str) -> tuple[str, int, str]:
    digits = "".join(letter for letter in rule if letter.isdigit())
    return rule[:1], int(digits or 0), rule


def _parts() -> tuple[str, str, str]:
    """The page before the table, the table, and what follows."""
    page = PAGE.read_text()
    head, _, rest = page.partition(BEGIN + "\n\n")
    there, _, tail = rest.partition("\n\n")
    return head + BEGIN + "\n\n", there + "\n", "\n" + tail


def stands() -> str:
    return _parts()[1]


def write() -> None:
    head, _, tail = _parts()
    PAGE.write_text(head + table() + tail)
