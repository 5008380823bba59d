"""A member with one rule broken on purpose: a run with such members has to fail. Run by path, like the worker itself:

    python mutant.py MUTANT LEDGER NAME ROLES SESSION FOLDER [BREATH]

The mutants are those of the simulation (`pares.sim.members.mutants`): the same core, with the same patch. Offered are the ones
whose damage shows on real brokers within a few faults; the simulation shows the others.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from pares.sim.members.mutants import MUTANTS
from pares.sim.mutant import applied

SHOWN: Final = ("challenger-waits-too-short", "lease-longer-than-session")


def script(mutant: str | None) -> list[str]:
    """What a crew of such members runs; nothing without a mutant."""
    return [] if mutant is None else [__file__, mutant]


def main() -> None:
    sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "processes"))
    import process_worker

    with applied(MUTANTS[sys.argv.pop(1)]):
        process_worker.main()


if __name__ == "__main__":
    main()
