"""What a promise may look at, and how it says that it was broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.sim.checker import Broken

if TYPE_CHECKING:
    from pares.sim.members.stage import Stage


class Promise:
    """`name` is what it guards. One that is found broken by the hub raises; one found by a task's code calls `fail`."""

    name = ""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.world = stage.world

    def broken(self, what: str) -> Broken:
        return Broken(self.name, self.world.now, what)

    def fail(self, what: str) -> None:
        """From within a task."""
        self.world.fail(self.broken(what))

    def end(self) -> None:
        """The play is over, all faults healed long ago."""
