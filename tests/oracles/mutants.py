"""The oracle of the simulation: every rule that can be broken on purpose, and a seed that notices.

Names are compared each time, so that no mutant is lost in a move; docs/proof.md has the same table of claims. Recorded is the
first seed that breaks a promise with the mutant, and none without it in the same troubles. Tests play it. With `--play` all are
looked for from seed 0 on: that takes minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pares.sim.members.play import UNSTOPPABLE
from pares.sim.mutant import applied
from pares.sim.runs import PROTOCOLS

FILE: Final = Path(__file__).parent / "mutants.txt"
SEEDS: Final = 1000
"""So many are tried."""
ELSEWHERE: Final = {
    "lapses-are-kept": "struck at its calls (tests/sim/world/test_members_mutants.py)",
    "term-ends-before-its-deadline-goes": "struck at its calls (tests/sim/world/test_members_mutants.py)",
}
"""Mutants that one short history shows, which is struck at each of its calls."""
LOOKED_AT: Final = frozenset({"claims", "consume"})
"""Protocols of which recording plays what the record has."""
HEAD: Final = "# protocol | rule | mutant | first seed that notices | promise that was seen to break"


def _named() -> Iterator[tuple[str, str, str]]:
    for protocol, simulated in PROTOCOLS.items():
        for mutant in simulated.mutants.values():
            yield protocol, mutant.rule, mutant.name


def recorded() -> dict[tuple[str, ...], str]:
    """What the record says of each mutant."""
    found: dict[tuple[str, ...], str] = {}
    for line in FILE.read_text().splitlines() if FILE.exists() else []:
        if not line.startswith("#"):
            *key, seed, promise = line.split(" | ")
            found[tuple(key)] = f"{seed} | {promise}"
    return found


def seeds(protocol: str) -> dict[str, int]:
    """The seed that notices each mutant of a protocol."""
    found = {key[2]: line.partition(" | ")[0] for key, line in recorded().items() if key[0] == protocol}
    return {name: int(seed) for name, seed in found.items() if seed.isdecimal()}


def broken(protocol: str, name: str, seed: int) -> str:
    """The promise that this seed breaks with the mutant; "" if it breaks none, or one without the mutant too, or if the mutant
    does not fit the code that it patches."""
    simulated = PROTOCOLS[protocol]
    mutant = simulated.mutants[name]
    with applied(mutant):
        outcome = simulated.play(simulated.draw(seed, mutant.bias))
    if not outcome.broken or outcome.broken in (UNSTOPPABLE, "nothing stops a reader"):
        return ""
    return "" if simulated.play(simulated.draw(seed, mutant.bias)).broken else outcome.broken


def _noticed(protocol: str, name: str) -> str:
    if name in ELSEWHERE:
        return f"- | {ELSEWHERE[name]}"
    for seed in range(SEEDS):
        if promise := broken(protocol, name, seed):
            return f"{seed} | {promise}"
    return f"NONE in {SEEDS} | not noticed"


def mutants() -> str:
    """The record, with the mutants that there are now and the seeds that it has for them."""
    return _table({})


def completed() -> str:
    """The same, those played that the record has nothing of, or a seed that no longer notices."""
    there = recorded()
    return _table({key: _noticed(key[0], key[2]) for key in _named() if not _holds(key, there.get(key, ""))})


def _holds(key: tuple[str, str, str], line: str) -> bool:
    seed, _, promise = line.partition(" | ")
    if not seed.isdecimal():
        return seed == "-" and key[2] in ELSEWHERE
    return key[0] not in LOOKED_AT or broken(key[0], key[2], int(seed)) == promise


def _table(found: dict[tuple[str, ...], str]) -> str:
    there = recorded() | found
    rows = [f"{' | '.join(key)} | {there.get(key, 'not played | record it anew')}" for key in _named()]
    return "\n".join([HEAD, *rows]) + "\n"


def played() -> str:
    """The same, every mutant played from seed 0 on. Says on standard error how far it is."""
    rows = [HEAD]
    for protocol, rule, name in _named():
        rows.append(f"{protocol} | {rule} | {name} | {_noticed(protocol, name)}")
        print(rows[-1], file=sys.stderr, flush=True)
    return "\n".join(rows) + "\n"
