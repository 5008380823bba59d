"""`python -m bench.shedding`: a slow member gives all that it holds up at once (R18), and what it would be like to shed it by
halves; in virtual time, the real core on one log, as in `bench.crowd`.

Twenty members, 200 roles, sessions of 1 s; from some moment on the round trips of one member are long, either always, or the
longer the more roles it holds. The variant hands half of them over at each look, a quarter of a session apart at least, as long
as its trips are not well inside its lease.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

CORE: Final = Path(__file__).resolve().parent.parent / "tests" / "core"
if str(CORE) not in sys.path:
    sys.path.append(str(CORE))  # for the machine that only tests have

from core_machine import Machine  # noqa: E402

from pares.core.claims.decisions import Give, Moves  # noqa: E402
from pares.core.claims.tenure import Phase  # noqa: E402
from pares.core.lease import MS  # noqa: E402

# pyright: reportPrivateUsage=false

MEMBERS, ROLES, SESSIONS, PARTS = 20, 200, 30, 20
TRIPS: Final[dict[str, Callable[[int], int]]] = {
    "500 ms": lambda held: 500 * MS,
    "700 ms": lambda held: 700 * MS,
    "50 ms for each role held": lambda held: (2 + 50 * held) * MS,
    "70 ms for each role held": lambda held: (2 + 70 * held) * MS,
}


class Found(NamedTuple):
    """Over 30 sessions."""

    unled: float
    """Seconds without a leader, of all roles together."""
    fenced: int
    """Terms that ran out."""
    moves: int
    """Claims and transfers."""


def by_halves() -> Any:
    """The variant, in force as long as this is."""
    real, last = Moves.gives, dict[str, int]()

    def gives(self: Moves, world: Any, now: int, *, closing: str = "") -> list[Give]:
        found, pace = real(self, world, now, closing=closing), self._pace
        hurried = pace.trip is not None and not pace.well and not pace.slow
        terms = [t for t in self._tenures.by_seat.values() if t.phase in (Phase.LEADING, Phase.WAITING)]
        if not closing and not found and hurried and len(terms) > 1 and now >= last.get(self.me, 0) + 250 * MS:
            last[self.me] = now
            terms.sort(key=lambda term: -term.token)
            found = [Give(term, "slow") for term in terms[: (len(terms) + 1) // 2]]
        return found

    return patch.object(Moves, "gives", gives)


def slowed(trip: Callable[[int], int], *, halves: bool) -> Found:
    """What follows when the trips of one member become so long."""
    machine = Machine(MEMBERS, ROLES, shared=True)
    machine.run(6)
    member = next(member for member in machine.members if member.leads)
    member.trip = lambda: trip(member.leads)
    machine.counted.clear()
    unled = 0.0
    with by_halves() if halves else nullcontext():
        for _ in range(SESSIONS * PARTS):
            machine.run(1 / PARTS)
            unled += (ROLES - machine.led) / PARTS
    return Found(unled, machine.counted["fenced"], machine.counted["Claim"] + machine.counted["Transfer"])


def table() -> Iterator[str]:
    yield "| trips of one of twenty | given up | role-seconds without a leader | terms that ran out | claims and transfers |"
    yield "|---|---|---|---|---|"
    for what, trip in TRIPS.items():
        for halves in (False, True):
            found = slowed(trip, halves=halves)
            how = "half at each look" if halves else "all at once"
            yield f"| {what} | {how} | {found.unled:.1f} | {found.fenced} | {found.moves} |"


if __name__ == "__main__":
    for line in table():
        print(line, flush=True)
