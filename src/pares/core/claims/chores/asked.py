"""What a member asks for and the group's log says otherwise: the log counts, and the group is told of the difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pares.core.claims.config import RoleSpec
from pares.core.wire.states import RoleState

AT_MOST: Final = 50
"""Roles that one record names; their names fit in."""


class Differs(NamedTuple):
    """One role."""

    role: str
    asked: int
    there: int

    @property
    def sentence(self) -> str:
        return (
            f"seats={self.asked} was asked for role {self.role!r}, which has {self.there} in the group's log: the log counts; "
            f"change it for the whole group by add_role({self.role!r}, seats={self.asked}) or `pares roles add`"
        )


def differing(asked: Iterable[RoleSpec], there: Mapping[str, RoleState]) -> list[Differs]:
    """The roles that were asked for with other seats than they have, by name, so many as a record has room for."""
    found = [Differs(a.name, a.seats, there[a.name].seats) for a in asked if a.name in there]
    return sorted(differs for differs in found if differs.asked != differs.there)[:AT_MOST]
