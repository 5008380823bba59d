"""How roles share out over partitions, and what a member says when somebody is left with nothing."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from runtime_tools import PATIENCE, Crew, until

import pares
from pares.core.errors import CapabilityError, ConfigError
from pares.runtime.neli.idle import uneven

KINDS = ("fast-neli", "neli", "nele")


@pytest.mark.parametrize("protocol", KINDS)
def test_in_the_first_example_two_members_share_two_roles(memory: str, protocol: Any) -> None:
    """No partitions= anywhere: one led both, and the other nothing."""
    crew, roles = Crew(memory), ("AAPL", "MSFT")
    a, b = (crew.member(name, roles, protocol=protocol) for name in "ab")
    until(
        lambda: sorted(r for m in (a, b) for r in roles if m.holds(r)) == ["AAPL", "MSFT"], "each role has one leader"
    )
    until(lambda: [sum(m.holds(r) for r in roles) for m in (a, b)] == [1, 1], "and each member leads one")
    assert [m.partition(r) for m in (a, b) for r in roles] == [0, 1, 0, 1]


def test_a_log_that_is_there_keeps_its_partitions_and_so_does_one_that_was_given_some(memory: str) -> None:
    with contextlib.closing(pares.open(memory)) as ledger:
        ledger.append(b"something")
        crew = Crew(memory)
        assert crew.member("a", ("x", "y"), protocol="fast-neli").wait("x", PATIENCE)
        assert ledger.partitions == 1
    with contextlib.closing(pares.open(memory + "2?partitions=3")) as ledger:
        crew = Crew(memory + "2?partitions=3")
        assert crew.member("a", ("x", "y"), protocol="fast-neli").wait("x", PATIENCE)
        assert ledger.partitions == 3


def test_partitions_are_told_and_only_where_there_are_any(memory: str) -> None:
    me = Crew(memory + "?partitions=4").member("a", ("x", "y", "7"), protocol="fast-neli")
    assert me.wait("y", PATIENCE)
    assert [me.partition(role) for role in ("x", "y", "7")] == [0, 1, 3]
    with pytest.raises(ConfigError, match="seat is 1"):
        me.partition("x", 1)
    with pytest.raises(CapabilityError, match="role 'x' has no partition: protocol 'claims'"):
        Crew(memory + "c").member("a", ("x",)).partition("x")


def test_members_that_must_idle_are_told_of_once(memory: str) -> None:
    crew = Crew(memory + "?partitions=1")
    members = [crew.member(name, ("x", "y", "z"), protocol="fast-neli", session=1.0) for name in "ab"]
    assert [m for m in members if m.wait("x", 1.0)] or members[1].wait("x", PATIENCE)
    until(
        lambda: any("1 of them lead nothing" in str(p) for m in members for p in m.health().problems),
        "somebody says so",
    )


def test_who_is_left_with_nothing_by_which_numbers() -> None:
    said = {kind for kind, _ in uneven(1, 1, 3, 2)}
    assert said == {"idle-members"}
    ((_, text),) = uneven(2, 1, 5, 4)
    assert "?partitions=4" in text
    assert [kind for kind, _ in uneven(4, 1, 2, 2)] == ["idle-partitions"]
    for fine in ((1, 1, 1, 3), (2, 1, 2, 2), (4, 2, 2, 4), (3, 1, 9, 3), (4, 1, 0, 2), (8, 1, 1, 1)):
        assert not list(uneven(*fine)), "a leader with standbys, or everybody has something"


@pytest.mark.parametrize("protocol", ["fast-neli", "neli"])
def test_two_members_of_one_name_are_seen(memory: str, protocol: Any) -> None:
    url = memory + "?partitions=2"
    older = Crew(url).member("twin", ("x", "y"), protocol=protocol)
    assert older.wait("x", PATIENCE)
    Crew(url).member("twin", ("x", "y"), protocol=protocol)
    until(
        lambda: any("shares out under the name of this member" in str(p) for p in older.health().problems), "it is told"
    )


def test_who_begins_anew_on_a_topic_that_has_grown_is_not_warned_of_itself(
    memory: str, caplog: pytest.LogCaptureFixture
) -> None:
    me = Crew(memory + "?partitions=2").member("a", ("x", "y", "z"), protocol="fast-neli")
    assert me.wait("x", PATIENCE)
    before = me.id
    wider = Crew(memory + "?partitions=3").member("b", ("x", "y", "z"), protocol="fast-neli")
    until(lambda: me.id != before and me.state == "live", "it has begun anew, with three partitions")
    until(lambda: sum(m.holds(r) for m in (me, wider) for r in "xyz") == 3, "and all is led")
    assert "under the name of this member" not in caplog.text
    assert not any("under the name" in str(p) for m in (me, wider) for p in m.health().problems)
