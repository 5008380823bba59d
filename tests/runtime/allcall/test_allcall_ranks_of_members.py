"""Members that run ALLCALL: any rank, and the leaders of all roles."""

from __future__ import annotations

import uuid

import pytest
from allcall_tools import PATIENCE, TIMES
from runtime_tools import Crew, until

import pares
from pares.core.errors import ConfigError


def test_any_integer_is_a_rank(crew: Crew) -> None:
    own = pares.AllCall(**TIMES)
    high, low = uuid.uuid4().int + 2**64, -(2**40)
    second = crew.member("second", ("x",), rank=high, protocol=own)
    first = crew.member("first", ("x",), rank=low, protocol=own)
    assert first.wait("x", PATIENCE)
    until(
        lambda: {p.name: p.rank for p in second.members()} == {"first": low, "second": high}, "each knows the other's"
    )
    with pytest.raises(ConfigError, match="rank is"):
        crew.member("third", ("x",), rank=2**256, protocol=own)
    with pytest.raises(ConfigError, match="rank is -1: give a whole number from 0"):
        crew.member("fourth", ("x",), rank=-1)


def test_a_member_knows_the_leaders_of_roles_that_it_does_not_declare(crew: Crew) -> None:
    own = pares.AllCall(**TIMES)
    a = crew.member("a", ("x",), protocol=own)
    b = crew.member("b", ("y",), protocol=own)
    assert a.wait("x", PATIENCE)
    assert b.wait("y", PATIENCE)
    until(lambda: (h := a.leader("y")) is not None and h.name == "b", "a knows who leads b's role")
    until(lambda: (h := b.leader("x")) is not None and h.name == "a", "b knows who leads a's role")
    assert a.roles() == b.roles() == {"x": 1, "y": 1}
    assert {p.name: p.roles for p in a.members()} == {"a": ("x",), "b": ("y",)}
    assert not a.holds("y")
