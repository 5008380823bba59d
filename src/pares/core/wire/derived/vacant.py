"""Which seats nobody holds, and whether all seats and roles are alike: what placement asks at each look (R23).

Found from what has changed since it was asked last, so it costs no more than that. [a member dies that held ten of a thousand
seats, and each member of its group looks at the thousand: a hundred of them on one machine have no time to lead]

Nothing of it is part of the world: it is derived from the seats and roles, and made anew when a world is loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pares.core.wire.hashes import Key
from pares.core.wire.records import Seat
from pares.core.wire.states import RoleState, SeatState

SPARE: Final = 64
"""Changes that wait for somebody to ask, besides two for each seat and role. [a reader that never asks keeps the name of every
role that ever was]"""


class Vacant:
    """Kept for one world, whose `seats` and `roles` it is told."""

    def __init__(self, seats: Mapping[Seat, SeatState], roles: Mapping[str, RoleState]) -> None:
        self._seats, self._roles = seats, roles
        self._changed_seats: set[Seat] = set(seats)
        self._changed_roles: set[str] = set(roles)
        self._free: set[Seat] = set()
        self._odd: set[Seat] = set()
        """Seats that somebody asked for, or stepped down from."""
        self._pinned: set[Seat] = set()
        self._known: dict[str, tuple[float, bool]] = {}
        """Of each role its weight, and whether it is one of a kind: of several seats, or removed."""
        self._weights: Counter[tuple[float, bool]] = Counter()
        self._all: dict[frozenset[str], bool] = {}

    def changed(self, keys: Iterable[Key]) -> None:
        """These parts of the world have changed, or are gone."""
        for table, key in keys:
            if table == "seats":
                self._changed_seats.add(key)
            elif table == "roles":
                self._changed_roles.add(key)
        if len(self._changed_seats) + len(self._changed_roles) > 2 * (len(self._seats) + len(self._roles)) + SPARE:
            self._look()

    def seats(self) -> Collection[Seat]:
        """Those that nobody holds, in no order."""
        self._look()
        return self._free

    def pinned(self) -> Collection[Seat]:
        """Those whose holder was named by a user."""
        self._look()
        return self._pinned

    def one_weight(self) -> float | None:
        """The weight of each role, if all roles have one and the same, and one seat, which nobody has asked for or stepped down
        from; else None."""
        self._look()
        if self._odd or len(self._weights) != 1 or len(self._seats) != len(self._roles):
            return None
        ((weight, odd),) = self._weights
        return None if odd else weight

    def all_in(self, roles: frozenset[str] | None) -> bool:
        """Whether all roles of the group are among these; None: they are all there may be."""
        if roles is None:
            return True
        self._look()
        known = self._all.get(roles)
        if known is None:
            known = self._all[roles] = self._roles.keys() <= roles
        return known

    def _look(self) -> None:
        if self._changed_seats:
            self._look_at_seats()
        if self._changed_roles:
            self._look_at_roles()

    def _look_at_seats(self) -> None:
        for seats in (self._free, self._odd, self._pinned):
            seats -= self._changed_seats
        for seat in self._changed_seats:
            state = self._seats.get(seat)
            if state is None:
                continue
            if state.holder is None:
                self._free.add(seat)
            if state.pinned:
                self._pinned.add(seat)
            if state.asked is not None or state.avoid is not None:
                self._odd.add(seat)
        self._changed_seats.clear()

    def _look_at_roles(self) -> None:
        for name in self._changed_roles:
            before, role = self._known.pop(name, None), self._roles.get(name)
            if before is not None:
                self._weights[before] -= 1
                if not self._weights[before]:
                    del self._weights[before]
            if role is not None:
                known = self._known[name] = (role.weight, role.removed or role.seats != 1)
                self._weights[known] += 1
        self._changed_roles.clear()
        self._all.clear()
