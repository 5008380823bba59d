"""In a large group one round reads what many write at once (R21)."""

from __future__ import annotations

from typing import Any

import pares
from pares.core.claims.chores.duties import EAGER
from pares.sim.engine import MS, SECOND
from pares.sim.world.process import Process
from pares.sim.world.simulation import World

RECORDS = 100


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
