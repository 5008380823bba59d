"""R13, R18: members of a machine that is too slow for their session lose what they lead, and have it again when it is not."""

from __future__ import annotations

import pytest
from core_machine import Machine

from pares.core.claims import decisions

MEMBERS, ROLES = 20, 100


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
    monkeypatch.setattr(decisions.Moves, "_most_seem_dead", lambda self, world, now: False)
    machine = overloaded()
    assert machine.counted["Claim"] > MEMBERS * ROLES // 2
