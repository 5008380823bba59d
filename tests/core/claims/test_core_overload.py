"""R13, R18: members of a machine that is too slow for their session lose what they lead, and have it again when it is not."""

from __future__ import annotations

import pytest
from core_machine import Machine

from pares.core.claims import decisions
from pares.core.lease import MS

MEMBERS, ROLES = 20, 100
SEEDS = range(1, 5)


def overloaded() -> Machine:
    """For eight sessions far slower than the session lets it be; then as it was for four more."""
    machine = Machine(MEMBERS, ROLES)
    machine.run(3)
    assert machine.led == ROLES
    machine.counted.clear()
    machine.slower(150)
    machine.run(8)
    machine.slower(1)
    machine.run(4)
    return machine


def test_r18_it_is_led_again_when_the_machine_is_quick_again_and_nobody_begins_anew() -> None:
    machine = overloaded()
    assert machine.counted["terms"] > 0, "the leases had run out"
    assert machine.led == ROLES
    assert machine.counted["restarts"] == 0
    assert max(member.leads for member in machine.members) == ROLES // MEMBERS
    assert machine.counted["Claim"] <= 3 * ROLES, "nobody claims everything"
    assert machine.counted["Transfer"] <= ROLES // 4, "and hardly anything moves for balance"


def test_r18_a_member_that_takes_the_late_for_dead_claims_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above would see it."""
    monkeypatch.setattr(decisions.Moves, "_at_most", lambda self, world, now: len(world.seats))
    machine = overloaded()
    assert machine.counted["Claim"] > MEMBERS * ROLES // 2


def slow_from_the_start(seed: int) -> Machine:
    """On which all that begins at once takes longer than a session, and what has begun does not."""
    machine = Machine(MEMBERS, 160, seed=seed)
    machine.slower(25)
    machine.run(18)
    return machine


@pytest.mark.parametrize("seed", SEEDS)
def test_r18_members_that_make_one_another_late_claim_less_until_they_are_not(seed: int) -> None:
    machine = slow_from_the_start(seed)
    assert machine.led == 160
    before = machine.counted["terms"]
    machine.run(5)
    assert (machine.led, machine.counted["terms"]) == (160, before), "and nothing moves any more"
    assert machine.counted["restarts"] == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_r18_members_that_claim_all_that_is_free_lead_little(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """So the test above would see it."""
    monkeypatch.setattr(decisions.Moves, "_at_most", lambda self, world, now: len(world.seats))
    machine = slow_from_the_start(seed)
    machine.run(5)
    assert machine.led < 160 // 2


def test_r18_what_moves_for_balance_moves_a_part_at_a_time() -> None:
    """The first member leads everything when the others come."""
    machine = Machine(MEMBERS, 300)
    machine.members[0].go()
    most = 0
    while machine.now < 4_000 * MS:
        before = machine.counted["Transfer"]
        machine.run(0.005)
        most = max(most, machine.counted["Transfer"] - before)
    assert machine.led == 300
    assert max(member.leads for member in machine.members) == 300 // MEMBERS
    assert machine.counted["Transfer"] > most >= 16
    assert most <= 300 // 8 + 16
