"""Rules broken on purpose, one at a time, to see that the simulation would notice (docs/proof.md).

A mutant patches the code that ships, core or runtime, for as long as a play lasts. It says which rule it breaks, and what
should make the damage likely (`bias`: what of the plan it replaces); the promises are the same for all, and know of no mutant.
"""

from __future__ import annotations

from typing import Final

from pares.sim.members.mutants.beliefs import BELIEFS
from pares.sim.members.mutants.driver import DRIVER
from pares.sim.members.mutants.entry import ENTRY
from pares.sim.members.mutants.group import GROUP
from pares.sim.members.mutants.leases import LEASES
from pares.sim.members.mutants.need import NEED
from pares.sim.members.mutants.records import RECORDS
from pares.sim.members.mutants.vacancies import VACANCIES
from pares.sim.members.mutants.witnesses import WITNESSES
from pares.sim.mutant import Mutant

MUTANTS: Final[dict[str, Mutant]] = {
    mutant.name: mutant
    for mutant in (*BELIEFS, *LEASES, *DRIVER, *RECORDS, *ENTRY, *GROUP, *NEED, *VACANCIES, *WITNESSES)
}
"""All of them, by name."""
