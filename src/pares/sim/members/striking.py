"""What strikes users at random times: whom, and how long something lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.sim.members.chance import Chance
from pares.sim.members.users import User

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground


class Striking(Chance[User]):
    """Of one stage, until its storm is over. A class that derives from it says what happens."""

    def __init__(self, stage: Ground) -> None:
        self.stage = stage
        self.world = stage.world
        self.plan = stage.plan
        self.struck: User | None = None
        """The user that everything befalls now, in the place of any other."""
        super().__init__(stage, "storm", self.plan.faults, pace=self.plan.pace)

    def own(self) -> list[User]:
        return self.stage.own

    def someone(self, *, holder: bool | None = None) -> User | None:
        return self.struck or super().someone(holder=holder)

    def again(self, user: User) -> None:
        """Somebody starts it again, or nobody does."""
        if self.rng.random() < 0.75:
            self.world.after(self.span(0, 4), user.start)
