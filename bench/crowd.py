"""`python -m bench.crowd`: what a large group costs, in virtual time: the members' real core on one log.

They start, settle, live for ten sessions, half of them die in one instant, the others settle, and as many come (R13, R18, R20,
R23). Steps take no time and an append takes 2 ms, so virtual times, records and moves are the same on any machine. Each member
reads up to the end of the log before it acts, so they share one fold (`tests/core/core_shared.py`): with a world for each, a
thousand members with ten thousand roles would need some 11 GB for worlds alone.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Final, NamedTuple

CORE: Final = Path(__file__).resolve().parent.parent / "tests" / "core"
if str(CORE) not in sys.path:
    sys.path.append(str(CORE))  # for the machine that only tests have

from core_machine import Machine  # noqa: E402

NONE: Final = "-"


class Row(NamedTuple):
    """One thing that happens to the group."""

    what: str
    seconds: float
    """Virtual ones, until it is over."""
    records: int
    claims: int
    transfers: int
    lapses: int
    movement: float | None
    """Seats that changed hands, to the least that had to."""
    cpu: float
    mib: float
    """The process' peak so far."""

    def line(self) -> str:
        moved = NONE if self.movement is None else f"{self.movement:.3f}"
        counts = f"{self.records:,} | {self.claims:,} | {self.transfers:,} | {moved} | {self.lapses}"
        return f"| {self.what} | {self.seconds:.2f} s | {counts} | {self.cpu:.1f} s | {self.mib:,.0f} MiB |"


class Crowd:
    """So many members with so many roles."""

    def __init__(self, members: int, roles: int, session: float, seed: int) -> None:
        self._session, self._members, self._roles = session, members, roles
        self._machine = Machine(members, roles, session_ms=round(session * 1000), seed=seed, shared=True)

    def measured(self) -> Iterator[Row]:
        """Raises `AssertionError` if the group does not come to be as it should within twenty sessions."""
        machine, session, half = self._machine, self._session, self._members // 2
        yield self._row("until all is led, from the first start on", self._until(self._led))
        yield self._row("until balanced within one", self._until(self._balanced))
        machine.run(session)  # in which the last terms are told of
        yield self._row("ten sessions of calm", lambda: machine.run(10 * session))
        machine.kill(half)
        lost = machine.roles - machine.led
        again = self._row(f"{half} die at once: until all is led again", self._until(self._led), least=lost)
        yield again
        yield self._row("until balanced within one", self._until(self._balanced))
        machine.run(2 * session)
        machine.start(half, last=1.0)
        surplus = machine.roles * half // self._members
        yield self._row(f"{half} join within a second: until balanced", self._until(self._balanced), least=surplus)

    def _led(self) -> bool:
        return self._machine.led == self._roles

    def _balanced(self) -> bool:
        leads = [member.leads for member in self._machine.members]
        return self._led() and max(leads) - min(leads) <= 1

    def _until(self, done: Callable[[], bool]) -> Callable[[], None]:
        def run() -> None:
            end = self._machine.now + 20 * self._session * 1e9
            while not done():
                assert self._machine.now < end, "it is not so after twenty sessions"
                self._machine.run(self._session / 100)

        return run

    def _row(self, what: str, run: Callable[[], None], *, least: int | None = None) -> Row:
        machine = self._machine
        machine.counted.clear()
        began, records, cpu = machine.now, len(machine.log), process_time()
        run()
        claims, transfers = machine.counted["Claim"], machine.counted["Transfer"]
        return Row(
            what,
            (machine.now - began) / 1e9,
            len(machine.log) - records,
            claims,
            transfers,
            machine.counted["fenced"] + machine.counted["restarts"],
            None if not least else (claims + transfers) / least,
            process_time() - cpu,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        )


def table(rows: Iterator[Row]) -> Iterator[str]:
    yield "| what | virtual time | records | claims | transfers | moved, to the least | lapses | CPU | memory |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        yield row.line()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.crowd", description=__doc__)
    parser.add_argument("--members", type=int, default=1000, help="how many start (default: 1000)")
    parser.add_argument("--roles", type=int, default=10_000, help="of one seat each (default: 10000)")
    parser.add_argument("--session", type=float, default=10.0, help="seconds (default: 10)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments at which members start (default: 1)")
    options = parser.parse_args()
    for line in table(Crowd(options.members, options.roles, options.session, options.seed).measured()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
