"""The story of a group that runs ALLCALL, which keeps no log: as it was heard, in the shape that the screen knows."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pares.core.wire.changes import SeatChanged
from pares.core.wire.states import new_seat
from pares.core.wire.world import World
from pares.demo.quotes import now_ms
from pares.ledger import Log
from pares.runtime.allcall.observer import AllCallObserver
from pares.view import Move, Story

OTHER: Final = "another's claim counts now"


class HeardStory(Story):
    """The leaders that were heard of, by role. During a split: on the conductor's side."""

    steered_here = False

    def __init__(self, log: Log, group: str, roles: list[str]) -> None:
        self._world = World()
        for role in roles:
            self._world.seats[role, 0] = new_seat(role, 0)
        self._observer = AllCallObserver(log, group)
        super().__init__(log, group)

    def _attach(self) -> None:
        """There is nothing to begin at."""

    @property
    def world(self) -> World:
        return self._world

    @property
    def here(self) -> set[str]:
        """The names of those that were heard lately."""
        return {member.name for member in self._observer.members()}

    def catch_up(self) -> list[Move]:
        moves: list[Move] = []
        for change in self._observer.read():
            if isinstance(change, SeatChanged) and change.seat in self._world.seats:
                seat = self._world.seats[change.seat]
                if change.before is not None:
                    self._world.held.get(change.before, set()).discard(change.seat)
                seat.holder, seat.token = change.holder, change.token
                if change.holder is not None:
                    self._world.held.setdefault(change.holder, set()).add(change.seat)
            self._note(change, now_ms(), moves)
        # What was heard is that another's claim counts: not why.
        moves = [replace(m, cause="released", why=OTHER) if m.cause == "silent" else m for m in moves]
        self.moves += moves
        return moves

    def close(self) -> None:
        self._observer.close()
