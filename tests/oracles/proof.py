"""The tables of docs/proof.md: the rules of claims and of consumption, the mutants that break them, and what the record says of
each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pares.sim.members.consume.mutants import MUTANTS as OF_CONSUMPTION
from pares.sim.members.mutants import MUTANTS as OF_CLAIMS
from pares.sim.mutant import Mutant

from .mutants import recorded

PAGE: Final = Path(__file__).parents[2] / "docs" / "proof.md"
BEGINS: Final = {
    "claims": "<!-- The table is written by `python -m tests.oracles --record mutants.txt`. -->",
    "consume": "<!-- So is this one, of consumption. -->",
}
"""What stands before each table, by protocol."""
HEAD: Final = "| rule | mutant | what is broken | seed | promise that was seen to break |\n|---|---|---|---|---|"
MUTANTS: Final[dict[str, Iterable[Mutant]]] = {"claims": OF_CLAIMS.values(), "consume": OF_CONSUMPTION.values()}


def table(protocol: str) -> str:
    """As it should stand there."""
    found = recorded()
    rows: list[str] = []
    for mutant in sorted(MUTANTS[protocol], key=lambda one: _number(one.rule)):
        seed, _, promise = found.get((protocol, mutant.rule, mutant.name), "? | not played").partition(" | ")
        rows.append(f"| {mutant.rule} | {mutant.name} | {mutant.what} | {seed} | {promise} |")
    return "\n".join([HEAD, *rows]) + "\n"


def _number(rule: str) -> tuple[str, int, str]:
    digits = "".join(letter for letter in rule if letter.isdigit())
    return rule[:1], int(digits or 0), rule


def _parts(protocol: str) -> tuple[str, str, str]:
    """The page before a table, the table, and what follows."""
    begin = BEGINS[protocol]
    head, _, rest = PAGE.read_text().partition(begin + "\n\n")
    there, _, tail = rest.partition("\n\n")
    return head + begin + "\n\n", there + "\n", "\n" + tail


def stands(protocol: str) -> str:
    return _parts(protocol)[1]


def write() -> None:
    for protocol in BEGINS:
        head, _, tail = _parts(protocol)
        PAGE.write_text(head + table(protocol) + tail)
