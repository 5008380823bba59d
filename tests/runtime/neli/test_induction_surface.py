"""The rest of a member's surface with NELI and Fast NELI: moves, pauses, roles of the whole group, several seats."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from induction_tools import ROLES, member, shared
from runtime_tools import PATIENCE, Crew, Recorder, fresh_url, until

import pares
from pares.core.errors import CapabilityError, ConfigError
from pares.runtime.config.protocols import ProtocolName


@pytest.fixture(params=["fast-neli", "neli"])
def protocol(request: pytest.FixtureRequest) -> ProtocolName:
    return request.param


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path) + "?partitions=2"


def two_that_share(ledger: str, protocol: ProtocolName, **settings: Any) -> tuple[pares.Member, pares.Member]:
    crew = Crew(ledger)
    one = member(crew, "one", protocol, **settings)
    assert all(one.wait(role, PATIENCE) for role in ROLES)
    two = member(crew, "two", protocol, **settings)
    until(lambda: shared(one, two), "each leads one role")
    return one, two


# Moves -----------------------------------------------------------------------------------------------------------------------


def test_a_partition_is_handed_over_to_a_member_by_name(ledger: str, protocol: ProtocolName) -> None:
    barrier = Recorder()
    one, two = two_that_share(ledger, protocol, barrier=barrier)
    role = next(role for role in ROLES if one.holds(role))
    term = one.term(role)
    assert term is not None
    one.hand_over(role, to="two", why="for a test")
    until(lambda: two.holds(role), "the other leads it")
    assert not one.holds(role)
    assert term.why == "revoked"
    assert "Fenced" not in barrier.kinds()
    after = two.term(role)
    assert after is not None
    assert after.token > term.token
    time.sleep(0.5)
    assert two.holds(role), "it stays there"


def test_nobody_of_that_name_is_an_error(ledger: str, protocol: ProtocolName) -> None:
    crew = Crew(ledger)
    one = member(crew, "one", protocol)
    assert one.wait("0", PATIENCE)
    with pytest.raises(ConfigError, match="has no member 'nobody'"):
        one.hand_over("0", to="nobody")


def test_a_standby_is_known_before_it_has_led(ledger: str, protocol: ProtocolName) -> None:
    """In Fast NELI only owners beat; the assignment knows the others."""
    crew = Crew(ledger)
    one = member(crew, "one", protocol, ("0",))
    assert one.wait("0", PATIENCE)
    for name in ("two", "three"):
        member(crew, name, protocol, ("0",), session=0.5)
    until(lambda: {p.name for p in one.members()} == {"one", "two", "three"}, "everybody is known")


def test_one_role_is_stepped_down_from(ledger: str, protocol: ProtocolName) -> None:
    one, two = two_that_share(ledger, protocol)
    role = next(role for role in ROLES if one.holds(role))
    one.step_down(role)
    until(lambda: two.holds(role), "the other leads it")
    time.sleep(0.5)
    assert two.holds(role), "it does not come back with the next balancing"


def test_a_pause_holds_for_all_roles_of_its_partition(ledger: str, protocol: ProtocolName) -> None:
    crew = Crew(ledger)
    one = member(crew, "one", protocol, ("0", "1", "2"))
    assert all(one.wait(role, PATIENCE) for role in ("0", "1", "2"))
    one.pause("0", seconds=60)
    until(lambda: not one.holds("0"), "it is paused")
    until(lambda: not one.holds("2"), "it belongs to the same partition")
    time.sleep(0.3)
    assert [one.holds(role) for role in ("0", "1", "2")] == [False, True, False]
    one.resume("0")
    assert one.wait("0", PATIENCE)
    assert one.wait("2", PATIENCE)


def test_the_whole_group_is_paused_for_a_while(ledger: str, protocol: ProtocolName) -> None:
    one, two = two_that_share(ledger, protocol)
    two.pause(seconds=1.0)
    until(lambda: not any(m.holds(role) for m in (one, two) for role in ROLES), "nobody leads")
    until(lambda: all(any(m.holds(role) for m in (one, two)) for role in ROLES), "it ends by itself")


# Roles -----------------------------------------------------------------------------------------------------------------------


def test_a_role_is_added_and_removed_for_the_whole_group(ledger: str, protocol: ProtocolName) -> None:
    one, two = two_that_share(ledger, protocol)
    one.add_role("pricing")
    until(lambda: one.holds("pricing") != two.holds("pricing"), "one of them leads it")
    until(lambda: one.roles() == two.roles() == {"0": 1, "1": 1, "pricing": 1}, "both know")
    leader, other = (one, two) if one.holds("pricing") else (two, one)
    other.remove_role("pricing")
    until(lambda: not leader.holds("pricing"), "it was removed")
    until(lambda: one.roles() == two.roles() == {"0": 1, "1": 1}, "both know")


def test_what_one_member_brings_along_the_others_lead_too(ledger: str, protocol: ProtocolName) -> None:
    crew = Crew(ledger)
    one = member(crew, "one", protocol, ("0",))
    assert one.wait("0", PATIENCE)
    two = member(crew, "two", protocol, ("1", "b"))
    until(lambda: all(one.holds(r) != two.holds(r) for r in ("0", "1", "b")), "each role has one leader")
    two.close()
    until(lambda: all(one.holds(r) for r in ("0", "1", "b")), "the other leads all of them")


def test_more_roles_than_fit_into_a_record(tmp_path: Path, protocol: ProtocolName) -> None:
    url = fresh_url("sqlite", tmp_path) + "?partitions=2"
    names = tuple(f"{'r' * 150}{number}" for number in range(300))
    one = member(Crew(url), "one", protocol, names)
    until(lambda: all(one.holds(name) for name in names), "it leads all")


# Seats -----------------------------------------------------------------------------------------------------------------------


def test_two_seats_are_led_on_different_hosts(protocol: ProtocolName, ledger: str) -> None:
    crew = Crew(ledger.replace("partitions=2", "partitions=4"))
    one = member(crew, "a1", protocol, seats=2, host="a")
    until(lambda: all(one.holds(role) for role in ROLES), "it leads one seat of each role")
    until(lambda: all(one.leaders(role) for role in ROLES), "it has read that it leads")
    assert all(len(one.leaders(role)) == 1 for role in ROLES), "one member leads one seat of a role"
    rest = [member(crew, name, protocol, seats=2, host=name[0]) for name in ("a2", "b1", "b2")]
    everybody = (one, *rest)

    def spread() -> bool:
        return all(
            sorted(m.name[0] for m in everybody if m.holds(role)) == ["a", "b"]
            and sorted(h.host for h in one.leaders(role)) == ["a", "b"]
            and [h.seat for h in one.leaders(role)] == [0, 1]
            for role in ROLES
        )

    until(spread, "each role is led on both hosts")
    assert one.roles() == {"0": 2, "1": 2}
    tokens = {(h.role, h.seat): h.token for role in ROLES for h in one.leaders(role)}
    held = {(m.term(role) or one).token for m in everybody for role in ROLES if m.holds(role)}  # type: ignore[union-attr]
    assert held == set(tokens.values())


def test_who_says_another_number_of_seats_is_refused(ledger: str, protocol: ProtocolName) -> None:
    crew = Crew(ledger)
    one = member(crew, "one", protocol, seats=2)
    assert one.wait("0", PATIENCE)
    two = member(crew, "two", protocol)
    until(lambda: two.state == "failed", "it stopped")
    assert any("with 2 seats a role" in problem for problem in two.health().problems)
    assert one.holds("0")


def test_a_seat_for_each_role_needs_a_partition_for_each(ledger: str, protocol: ProtocolName) -> None:
    with pytest.raises(ConfigError, match="seats is 3, and each seat of a role needs a partition of its own"):
        pares.Member(ledger, group="g", roles=ROLES, protocol=protocol, seats=3)


def test_whole_partitions_know_no_eligibility(ledger: str, protocol: ProtocolName) -> None:
    with pytest.raises(CapabilityError, match="whole partitions, whatever roles they carry"):
        pares.Member(ledger, group="g", roles=ROLES, protocol=protocol, eligible=["0"])


@pytest.mark.parametrize(
    ("given", "says"),
    [({"seats": 2}, "seats=2, "), ({"weight": 3}, "weight=3, "), ({"spread": "zone"}, "spread='zone'")],
)
def test_a_role_is_added_with_nothing_that_would_be_ignored(memory: str, given: dict[str, Any], says: str) -> None:
    """Seats, weight and spread are refused, and not dropped without a word."""
    me = member(Crew(memory), "one", "fast-neli")
    assert me.wait("0", PATIENCE)
    with pytest.raises(CapabilityError, match=f"{says}.*the members' seats= says, which is 1"):
        me.add_role("more", **given)
    assert "more" not in me.roles()
    me.add_role("more")
    assert me.wait("more", PATIENCE)
