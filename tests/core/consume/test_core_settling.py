"""C6, R13: what it takes, in records and placements, until consumers that come all at once share many partitions."""

from __future__ import annotations

from typing import Any

import core_machine
import pytest
from core_machine import Machine, Runner

from pares.core.claims.chores.declaring import Declaring
from pares.core.claims.protocol import Config, RoleSpec
from pares.core.consume.names import Partition, Terms, tag_of
from pares.core.consume.protocol import Consume

MEMBERS, PARTITIONS = 20, 400
ROLES = tuple(Partition("orders", tag_of("orders:1"), number).role for number in range(PARTITIONS))


class Worker(Runner):
    """A consumer of one topic, in the rounds of the driver."""

    written = 30_000

    def _begin(self) -> None:
        self.incarnations += 1
        terms: dict[str, Any] = {"eligible": None, "labels": Terms(frozenset({"orders"})).labels()}
        session, roles = self.machine.session_ms, tuple(RoleSpec(role) for role in ROLES)
        settings: dict[str, Any] = {"session_ms": session, "settle_ms": session, **terms}
        self.core = Consume(
            Config(
                group=core_machine.GROUP, id=f"{self.name}~{self.incarnations}", name=self.name, roles=roles, **settings
            )
        )
        self.core.living.moves.willing = frozenset(ROLES)
        self.core.living.moves.placing = self._placing  # type: ignore[method-assign]
        self._placings = 0
        self.beliefs.clear()
        self._attached = False

    def _placing(self, world: Any, alive: Any, **more: Any) -> Any:
        self.machine.counted["placements"] += 1
        return super()._placing(world, alive, **more)


def settled(monkeypatch: pytest.MonkeyPatch, slowness: float) -> Machine:
    """Until each has its share."""
    monkeypatch.setattr(core_machine, "Runner", Worker)
    machine = Machine(MEMBERS, PARTITIONS)
    machine.slower(slowness)
    share = PARTITIONS // MEMBERS
    while any(member.leads != share for member in machine.members):
        machine.run(0.1)
        assert machine.now < 60e9, f"they hold {sorted(member.leads for member in machine.members)}"
    return machine


def test_partitions_are_shared_out_at_the_cost_of_a_record_or_two_each(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = settled(monkeypatch, 0.2)
    counted = machine.counted
    assert counted["Role"] == PARTITIONS, "declared once"
    assert counted["Claim"] <= 3 * PARTITIONS // 2
    assert counted["Transfer"] <= PARTITIONS, "the first ones had them all"
    assert counted["terms"] <= 2 * PARTITIONS + counted["Transfer"] // 4
    assert counted["placements"] <= 12 * MEMBERS, "and not once for each record"
    machine.run(2)
    before = (counted["terms"], counted["placements"])
    machine.run(5)
    assert (counted["terms"], counted["placements"]) == before, "then nothing moves, and nobody thinks about it"


def declared(monkeypatch: pytest.MonkeyPatch, slowness: float) -> int:
    """Records of roles, by members that come within 20 ms."""
    monkeypatch.setattr(core_machine, "Runner", Worker)
    machine = Machine(MEMBERS, PARTITIONS, last=0.02)
    machine.slower(slowness)
    machine.run(2)
    return machine.counted["Role"]


@pytest.mark.parametrize("slowness", [1, 8])
def test_partitions_are_declared_once_also_where_that_takes_long(
    monkeypatch: pytest.MonkeyPatch, slowness: float
) -> None:
    assert declared(monkeypatch, slowness) == PARTITIONS


def test_members_that_wait_as_for_one_role_declare_all_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above would see it."""

    def turn(self: Any, missing: int, now: int) -> bool:
        return self._moves.in_line(self._since, now)

    monkeypatch.setattr(Declaring, "_turn", turn)
    assert declared(monkeypatch, 8) > 2 * PARTITIONS
