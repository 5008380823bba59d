"""What the tests of NELI's and Fast NELI's members share."""

from __future__ import annotations

from typing import Any

from runtime_tools import PATIENCE, Crew

import pares

ROLES = ("0", "1")
"""One for each of two partitions."""
ROLE = "leader"
"""goNELI's only role."""


def member(crew: Crew, name: str, protocol: str, roles: tuple[str, ...] = ROLES, **settings: Any) -> pares.Member:
    return crew.member(name, roles, protocol=protocol, **settings)


def shared(*members: pares.Member) -> bool:
    """Whether each leads something, and each role has one leader."""
    return all(any(m.holds(role) for role in ROLES) for m in members) and all(
        sum(m.holds(role) for m in members) == 1 for role in ROLES
    )


def node(crew: Crew, name: str = "a", **settings: Any) -> pares.Member:
    """A member as goNELI has them."""
    return crew.member(name, (ROLE,), protocol="fast-neli", **settings)


def leader(crew: Crew, name: str = "a", **settings: Any) -> pares.Member:
    """Such a member, once it leads."""
    me = node(crew, name, **settings)
    assert me.wait(ROLE, PATIENCE)
    return me
