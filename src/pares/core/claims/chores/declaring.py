"""How a member has the group know the roles that it was made with: once in its life.

The first in line declares those that are missing, each of the others a little later, and later still for as long as somebody
else declares. Where there are many it is the one that has joined first, those in line leave one another a few round trips, and
they look at the log once more before they begin. [each of hundreds that start at once finds some missing when its turn comes,
and declares them all; every member reads a thousand records for each of those]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pares.core import events as ev
from pares.core.claims.chores.asked import differing
from pares.core.claims.config import Config
from pares.core.claims.decisions import Moves
from pares.core.claims.outbox import Outbox
from pares.core.claims.silence import Stopwatches
from pares.core.wire.changes import Change, RoleChanged
from pares.core.wire.reader import Reader
from pares.core.wire.records import Asked, Role

SOON: Final = 200
"""Roles that are declared about as soon as one is."""


class Declaring:
    """The part of `tick.Living` that has to do with roles. Times are of the member's own stopwatch, in nanoseconds."""

    def __init__(self, config: Config, reader: Reader, outbox: Outbox, moves: Moves, watches: Stopwatches) -> None:
        self._reader = reader
        self._outbox = outbox
        self._moves = moves
        self._watches = watches
        self._left = {role.name: role for role in config.roles}
        """Those that it was made with, until all are known to be the group's."""
        self._missing = self._left.copy()
        """Those of them that are not, for all that was read."""
        self._since = 0
        """Since when this member waits for its turn: since its join counted, or somebody else declared something."""
        self._begun = False
        """Its turn has come: what it has begun it ends, unless somebody else has begun, too."""

    def begin(self, now: int) -> None:
        """The join has counted."""
        self._since = now
        self._look(self._left)

    def read(self, changes: Iterable[Change], now: int) -> None:
        """These changes were read."""
        if not self._left:
            return
        changed = [change for change in changes if type(change) is RoleChanged]
        self._look(change.role for change in changed)
        declared = {change.offset for change in changed}
        if not declared.issubset(offset for offset, _, _ in self._reader.mine):
            self._since, self._begun = now, False

    def act(self, now: int, effects: list[ev.Effect]) -> None:
        """Declares what is missing, when it is its turn."""
        if not self._left:
            return
        world = self._reader.world
        if not self._missing:
            if self._say_asked(now, effects):
                self._left = {}
        elif self._turn(len(self._missing), now):
            for role in self._missing.values():
                if not self._outbox.room():
                    return
                fields: dict[str, Any] = {"seats": role.seats, "weight": role.weight, "spread": role.spread}
                self._outbox.write(world, Role, now, name=role.name, **fields)

    def _look(self, names: Iterable[str]) -> None:
        """What stands in the world of these roles, if it was made with them. [each look at ten thousand takes a millisecond]"""
        roles = self._reader.world.roles
        for name in names:
            known = roles.get(name)
            if known is not None and not known.removed:
                self._missing.pop(name, None)
            elif name in self._left:
                self._missing[name] = self._left[name]

    def _turn(self, missing: int, now: int) -> bool:
        if self._begun or missing < SOON:
            return self._begun or self._moves.in_line(self._since, now)
        at = self._since + (1 + missing // SOON) * self._moves.behind_the_first(self._reader.world, now)
        if not self._moves.due(at, now):
            return False
        self._begun = at == self._since or self._watches.seen_until(now) >= at
        if not self._begun:
            self._moves.wakes.append(now)  # that is a look at the log
        return self._begun

    def _say_asked(self, now: int, effects: list[ev.Effect]) -> bool:
        """Where the roles that it was made with have other seats it says so, to its user and in the log. Whether there was room
        for it."""
        if not self._outbox.room():
            return False
        world = self._reader.world
        differ = differing(self._left.values(), world.roles)
        if differ:
            self._outbox.write(world, Asked, now, roles=tuple((found.role, found.asked) for found in differ))
        effects += [ev.Report("seats", found.sentence) for found in differ]
        return True
