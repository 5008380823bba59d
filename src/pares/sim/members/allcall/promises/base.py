"""What a promise of ALLCALL is made of: it sees what a person with perfect instruments would see, and does not look inside."""

from __future__ import annotations

from pares.sim.members.allcall.ground import LOOKS, Ground
from pares.sim.members.promises.base import Promise


class AllCallPromise(Promise):
    """`look` is called a few times a beat, by the hub, if it is there."""

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.ground = stage
        self.bounds = stage.bounds
        self._step = stage.bounds.beat // LOOKS

    def look_every(self) -> None:
        self.world.after(self._step, self._look_on)

    def _look_on(self) -> None:
        self.look()
        self.world.after(self._step, self._look_on)

    def look(self) -> None:
        """What holds at every instant."""
