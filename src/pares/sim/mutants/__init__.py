"""Rules broken on purpose, one at a time, to see that the simulation would notice (docs/proof.md).

A mutant patches the real core for as long as a simulation runs. It says which rule it breaks, and what should make the damage
likely (`bias`: knobs that replace those drawn from the seed); the checkers are the same for all, and know of no mutant.
"""

from __future__ import annotations

from pares.sim.mutant import Mutant, applied
from pares.sim.mutants.beliefs import BELIEFS
from pares.sim.mutants.entry import ENTRY
from pares.sim.mutants.group import GROUP
from pares.sim.mutants.leases import LEASES
from pares.sim.mutants.loop import LOOP
from pares.sim.mutants.records import RECORDS

MUTANTS: dict[str, Mutant] = {mutant.name: mutant for mutant in (*BELIEFS, *LEASES, *LOOP, *RECORDS, *ENTRY, *GROUP)}
"""All of them, by name."""

__all__ = ["MUTANTS", "Mutant", "applied"]
