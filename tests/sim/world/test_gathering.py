"""How often members wake for what others write: in a large group one round reads what many write at once (R21)."""

from __future__ import annotations

from typing import Any

import pares
from pares.core.claims.chores.duties import EAGER
from pares.sim.engine import MS, SECOND
from pares.sim.world.process import Process
from pares.sim.world.simulation import World

RECORDS = 100
SESSION_S = 1


def rounds_for(count: int) -> float:
    """How often each of so many members wakes, on average, while a hundred urgent records land a millisecond apart."""
    with World(1).playing() as world:
        log = world.log()

        def main(process: Process) -> None:
            ledger: Any = world.ledger(process, log)
            pares.Member(ledger, group="g", name=process.name, session=10.0)
            process.host.flag().wait()

        members = [world.start(f"m{n}", main) for n in range(count)]
        world.run(20 * SECOND)
        before = sum(process.rounds for process in members)
        for number in range(RECORDS):
            world.after(number * MS, log.partitions[0].append, [b"something urgent"], 20 * SECOND + number * MS)
        world.run(20 * SECOND + RECORDS * MS)
        return (sum(process.rounds for process in members) - before) / count


def test_a_member_of_a_large_group_wakes_once_for_what_many_write() -> None:
    assert rounds_for(EAGER) > 0.9 * RECORDS
    assert rounds_for(EAGER + 8) < 0.5 * RECORDS


def rounds_at_rest(count: int, *, noted: bool) -> float:
    """How often each of so many holders wakes in a session in which nothing happens, on average."""
    with World(1).playing() as world:
        log = world.log(noted=noted)

        def main(process: Process) -> None:
            ledger: Any = world.ledger(process, log)
            roles = [f"r{number}" for number in range(count)]
            pares.Member(ledger, group="g", name=process.name, session=SESSION_S, roles=roles)
            process.host.flag().wait()

        members = [world.start(f"m{n}", main) for n in range(count)]
        world.run(30 * SECOND)
        before = sum(process.rounds for process in members)
        world.run(50 * SECOND)
        return (sum(process.rounds for process in members) - before) / count / (20 / SESSION_S)


def test_beats_wake_nobody_where_it_is_noted_when_they_come() -> None:
    """So what a member costs does not grow with its group."""
    few = rounds_at_rest(3, noted=True)
    assert few < 10
    assert rounds_at_rest(EAGER, noted=True) < 1.2 * few
    assert rounds_at_rest(EAGER, noted=False) > 4 * few
