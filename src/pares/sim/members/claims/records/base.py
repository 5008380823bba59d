"""A promise about records: told of each one that lands, and begun anew with another log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.core.wire.records import Seat
from pares.sim.members.claims.judge import Landed
from pares.sim.members.promises.base import Promise

if TYPE_CHECKING:
    from pares.core.wire.world import World
    from pares.sim.members.claims.ground import Ground


class OfRecords(Promise):
    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.ground = stage
        self.judge = stage.judge
        self.anew()
        self.judge.folding.append(self)

    @property
    def folded(self) -> World:
        """The judge's world, after the record."""
        return self.judge.judge.world

    def anew(self) -> None:
        """Another log, or one that has lost its tail: all that stands in it is told once more, from its start."""

    def landed(self, landed: Landed) -> None:
        """A record has come to stand in the log."""


def name(seat: Seat) -> str:
    return f"{seat[0]}/{seat[1]}"
