"""A member that runs NELI, or Fast NELI by our rules or by goNELI's. Run by path, like the worker itself:

    python induced.py PROTOCOL RULE GROUP LEDGER NAME ROLES SESSION FOLDER [BREATH]

goNELI's rule is a mutant of the simulation (`pares.sim.members.neli.mutants`): any record that is read re-arms the deadline,
and nobody looks at a successor's announcement. It is planted in this process only. SESSION is the group's. The deadline is a
third of it, as goNELI has it, so that two who lead for longer than a deadline are told from two who lead up to it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pares
from pares.sim.members.neli.mutants import MUTANTS
from pares.sim.mutant import applied

RULES: Final = {"pares": None, "goneli": MUTANTS["fast-neli"]["any-beat-re-arms"]}


def script(rule: str, group: str, protocol: str = "fast-neli") -> list[str]:
    """What a crew of such members runs."""
    return [__file__, protocol, rule, group]


def main() -> None:
    sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "processes"))
    import process_worker

    protocol, rule, group = (sys.argv.pop(1) for _ in range(3))
    session = float(sys.argv[4])
    client = {"session.timeout.ms": str(round(session * 1000))}
    fast = pares.FastNeli(heartbeat_timeout=session / 3, poll_interval=session / 15)
    with applied(RULES[rule]):
        # The broker balances: it has no use for `settle`.
        own = protocol if protocol == "neli" else fast
        process_worker.main(group=group, protocol=own, settle=None, options={"options": client})


if __name__ == "__main__":
    main()
