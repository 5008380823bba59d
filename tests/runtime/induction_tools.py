"""What the tests of NELI's and Fast NELI's members share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from runtime_tools import PATIENCE, Crew

import pares
from pares.runtime.config.protocols import Protocol

ROLES = ("0", "1")
"""One for each of two partitions."""
ROLE = "leader"
"""goNELI's only role."""


def member(crew: Crew, name: str, protocol: Protocol, roles: tuple[str, ...] = ROLES, **settings: Any) -> pares.Member:
    return crew.member(name, roles, protocol=protocol, **settings)


def shared(*members: pares.Member) -> bool:
    """Whether each leads something, and each role has one leader."""
    return all(any(m.holds(role) for role in ROLES) for m in members) and all(
        sum(m.holds(role) for m in members) == 1 for role in ROLES
    )


def node(crew: Crew, name: str = "a", **settings: Any) -> pares.Member:
    """A member as goNELI has them."""
    return crew.member(name, (ROLE,), **({"protocol": "fast-neli"} | settings))


class OneAtATime:
    """A barrier for each of several members: at each Acquired exactly one leads, at each Revoked and Fenced nobody. (goNELI
    counts only nodes that are Live, which hides W1.)"""

    def __init__(self) -> None:
        self.leading: set[str] = set()
        self.wrong: list[str] = []
        self.kinds: dict[str, list[str]] = {}
        """By member: what it was told of its leadership."""
        self._guard = threading.Lock()

    def barrier(self, name: str) -> Callable[[pares.Event], None]:
        kinds = self.kinds.setdefault(name, [])

        def told(event: pares.Event) -> None:
            if not isinstance(event, pares.Acquired | pares.Revoked | pares.Fenced):
                return
            with self._guard:
                kinds.append(type(event).__name__)
                if isinstance(event, pares.Acquired):
                    self.leading.add(name)
                else:
                    self.leading.discard(name)
                if len(self.leading) != isinstance(event, pares.Acquired):
                    self.wrong.append(f"{sorted(self.leading)} at {event} of {name}")

        return told


def leader(crew: Crew, name: str = "a", **settings: Any) -> pares.Member:
    """Such a member, once it leads."""
    me = node(crew, name, **settings)
    assert me.wait(ROLE, PATIENCE)
    return me
