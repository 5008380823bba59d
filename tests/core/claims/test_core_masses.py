"""R10, R13, R18, R20, R23: a hundred members with a thousand roles start, live, die and come by halves, and enter an old log.

Steps take no time here, and an append takes 2 ms (`core_machine`, `shared`). `python -m bench.crowd` plays a thousand members
with ten thousand roles.
"""

from __future__ import annotations

from typing import Any

import pytest
from core_machine import Machine
from core_steps import steps

from pares.core.claims.protocol import Stage
from pares.core.wire.reader import WINDOW

MEMBERS, ROLES = 100, 1000
MOVED = 1.05
"""Seats that change hands, to the least that do."""


def spread(machine: Machine) -> set[int]:
    return {member.leads for member in machine.members}


def led_again(machine: Machine, within: float) -> bool:
    """Whether everything is led before so many seconds are over."""
    until = machine.now + int(within * 1e9)
    while machine.led < machine.roles and machine.now < until:
        machine.run(0.01)
    return machine.led == machine.roles


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2])
def test_r20_half_of_a_hundred_die_and_as_many_come(seed: int) -> None:
    machine = Machine(MEMBERS, ROLES, seed=seed, shared=True)
    assert led_again(machine, 10), "from its start on"
    machine.run(3)
    assert spread(machine) == {ROLES // MEMBERS}
    machine.counted.clear()
    machine.run(10)
    assert {*machine.counted} == {"Beat"}, "calm: no term ends, no role moves, nobody begins anew"
    machine.kill(MEMBERS // 2)
    assert led_again(machine, 1 + 0.2), "a session and 0.2 s"
    machine.run(3)
    assert spread(machine) == {2 * ROLES // MEMBERS}
    moved = machine.counted["Claim"] + machine.counted["Transfer"]
    assert moved <= MOVED * ROLES / 2, "hardly any but those of the dead"
    machine.counted.clear()
    machine.start(MEMBERS // 2)
    machine.run(6)
    assert spread(machine) == {ROLES // MEMBERS}
    assert machine.counted["Claim"] + machine.counted["Transfer"] <= MOVED * ROLES / 2, "hardly any but the surplus"
    assert machine.counted["fenced"] == machine.counted["restarts"] == 0


@pytest.mark.timeout(900)
def test_r10_hundreds_that_come_at_once_to_an_old_log_read_from_a_snapshot_on() -> None:
    """They have worlds of their own, and read for themselves."""
    machine = Machine(20, 100, shared=True)
    machine.run(126)
    old = len(machine.log)
    assert old > 2 * WINDOW
    assert machine.counted["Snapshot"] == 2, "one a minute"
    machine.start(200, last=1.0, alone=True)
    machine.run(3)
    joiners = machine.members[20:]
    assert {member.core.stage for member in joiners} == {Stage.LIVE}
    assert machine.counted["restarts"] == 0
    (began,) = {min(member.core.reader.places) for member in joiners}
    assert began > old - WINDOW // 2, "all with the second one"
    read = max(member.has_read for member in joiners)
    assert read <= WINDOW + len(machine.log) - began, "they look for it near the end, and read on from its place"
    assert machine.led == machine.roles


def steps_of_a_beat(roles: int) -> float:
    """What a member does from one record of its own to the next, in calm; it holds a twentieth of the roles."""
    machine = Machine(20, roles, shared=True)
    machine.run(8)
    member, before, taken = machine.members[0], len(machine.log), list[int]()
    assert member.leads == roles // 20
    real = member.core.step

    def counted(event: Any, now: int) -> list[Any]:
        found: list[Any] = []
        taken.append(steps(lambda: found.extend(real(event, now))))
        return found

    member.core.step = counted  # type: ignore[method-assign]
    machine.run(2)
    beats = sum(member.core.me.encode() in payload for _, _, payload in machine.log[before:])
    return sum(taken) / beats


def test_r18_what_a_member_holds_hardly_makes_it_slower() -> None:
    """So it wins nothing by holding less: a slow one gives up everything at once."""
    few, many = steps_of_a_beat(20), steps_of_a_beat(1000)
    assert (many - few) / 49 < 400
