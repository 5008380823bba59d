"""The oracle of the simulation: every rule that can be broken on purpose, and the first seed that notices.

Names are compared each time, so that no mutant is lost in a move. Seeds are played by tests/sim, which has its own list of them
(any that notice will do), and from scratch only with `--play`: that takes minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pares.sim.runs import PROTOCOLS, results

FILE: Final = Path(__file__).parent / "mutants.txt"
SEEDS: Final = 200
"""So many are tried."""
ELSEWHERE: Final = {"ghosts-are-waited-for": "tests/core/golden", "unshown-is-given": "tests/core/golden"}
"""Mutants that cost a session at most, which the simulation allows: what catches them."""
HEAD: Final = "# protocol | rule | mutant | first seed that notices | promise that was seen to break"


def _named() -> Iterator[tuple[str, str, str]]:
    for protocol, simulated in PROTOCOLS.items():
        for mutant in simulated.mutants.values():
            yield protocol, mutant.rule, mutant.name


def _recorded() -> dict[tuple[str, ...], str]:
    """What the record says of each mutant."""
    found: dict[tuple[str, ...], str] = {}
    for line in FILE.read_text().splitlines() if FILE.exists() else []:
        if not line.startswith("#"):
            *key, seed, promise = line.split(" | ")
            found[tuple(key)] = f"{seed} | {promise}"
    return found


def _noticed(protocol: str, name: str) -> str:
    if name in ELSEWHERE:
        return f"- | {ELSEWHERE[name]}"
    for result in results(range(SEEDS), mutant=name, protocol=protocol, first_only=True):
        if result.broken:
            return f"{result.seed} | {result.broken}"
    return f"NONE in {SEEDS} | not noticed"


def mutants() -> str:
    """The record, with the mutants that there are now and the seeds that it has for them."""
    return _table({})


def completed() -> str:
    """The same, those played that the record has nothing of."""
    there = _recorded()
    return _table({key: _noticed(key[0], key[2]) for key in _named() if key not in there})


def _table(found: dict[tuple[str, ...], str]) -> str:
    there = _recorded() | found
    rows = [f"{' | '.join(key)} | {there.get(key, 'not played | record it anew')}" for key in _named()]
    return "\n".join([HEAD, *rows]) + "\n"


def played() -> str:
    """The same, every mutant played from seed 0 on. Says on standard error how far it is."""
    rows = [HEAD]
    for protocol, rule, name in _named():
        rows.append(f"{protocol} | {rule} | {name} | {_noticed(protocol, name)}")
        print(rows[-1], file=sys.stderr, flush=True)
    return "\n".join(rows) + "\n"
