"""The rest of the surface of NELI and Fast NELI on a real Kafka, whose own groups take no wishes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from induction_tools import ROLES
from runtime_tools import Crew, until

import pares
from pares.core.errors import CapabilityError
from pares.dev import Kafka

pytestmark = pytest.mark.brokers
PATIENCE = 60.0


@pytest.fixture(params=["fast-neli", "neli", "nele"])
def mode(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"protocol": "nele", "overlap": 1.0} if request.param == "nele" else {"protocol": request.param}


@pytest.fixture
def ledger(kafka: Kafka) -> Iterator[Any]:
    made = pares.open(f"kafka://{kafka.bootstrap}/t-{uuid.uuid4().hex}?partitions=4", options=kafka.client())
    yield made
    made.close()


def crew_of(ledger: Any) -> Crew:
    return Crew(ledger, f"g-{uuid.uuid4().hex[:8]}")


def test_what_the_broker_decides_no_member_does(ledger: Any, mode: dict[str, Any]) -> None:
    crew = crew_of(ledger)
    one = crew.member("one", ROLES, **mode)
    term = one.wait("0", PATIENCE)
    assert term is not None
    for act in (
        lambda: one.hand_over("0"),
        lambda: one.pause(seconds=1),
        lambda: one.resume(),
        lambda: one.mark(term, 1),
    ):
        with pytest.raises(CapabilityError, match=r"is not in protocol .* protocol='claims'"):
            act()
    with pares.Admin(ledger, group=crew.group) as admin, pytest.raises(CapabilityError, match="takes no wishes"):
        admin.pause(seconds=1)


def test_roles_come_and_go_for_the_whole_group_and_observers_see_it(ledger: Any, mode: dict[str, Any]) -> None:
    crew = crew_of(ledger)
    one = crew.member("one", ROLES, host="h1", **mode)
    assert all(one.wait(role, PATIENCE) for role in ROLES)
    with pares.Observer(ledger, group=crew.group) as observer:
        until(lambda: all(observer.leader(role) for role in ROLES), "it was read", PATIENCE)
        holder = observer.leader("0")
        assert holder is not None
        assert (holder.name, holder.host) == ("one", "h1")
        with pares.Admin(ledger, group=crew.group) as admin:
            admin.add_role("pricing")
            assert one.wait("pricing", PATIENCE)
            until(lambda: observer.leader("pricing") is not None, "it was read", PATIENCE)
            admin.remove_role("pricing")
            until(lambda: not one.holds("pricing"), "it is gone", PATIENCE)


def test_two_seats_are_kept_apart_by_claims_here_too(ledger: Any, mode: dict[str, Any]) -> None:
    crew = crew_of(ledger)
    members = [crew.member(name, ROLES, seats=2, host=name[0], **mode) for name in ("a1", "a2", "b1", "b2")]

    def spread() -> bool:
        return all(sorted(m.name[0] for m in members if m.holds(role)) == ["a", "b"] for role in ROLES)

    until(spread, "each role is led on both hosts", PATIENCE)
    leader = next(m for m in members if m.holds("0"))
    other = next(m for m in members if m.name[0] == leader.name[0] and m is not leader)
    leader.hand_over("0", to=other.name)
    until(lambda: other.holds("0"), "it was moved", PATIENCE)
    leader.pause("0", seconds=60)
    until(lambda: not any(m.holds("0") for m in members), "nobody leads it", PATIENCE)
    leader.resume("0")
    until(spread, "it goes on", PATIENCE)
