"""Promise 4: tokens strictly grow per seat, in the order in which their terms begin; and a fence is enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.sim.members.promises.base import Promise
from pares.sim.members.sight import Held, Seat

if TYPE_CHECKING:
    from pares.sim.members.stage import Stage


class Tokens(Promise):
    name = "tokens grow"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.last: dict[Seat, Held] = {}
        self.fence: dict[Seat, int] = {}
        self.writes: list[tuple[int, Seat, int, bool]] = []
        """What came to the sink: true time, seat, token, and whether it was taken."""
        stage.sight.began.append(self._began)
        stage.renewed.append(self._anew)

    def _anew(self) -> None:
        """Another log, or one that has lost its tail: a wall clock says how tokens go on."""
        if self.stage.tokens_may_fall():
            self.last.clear()
            self.fence.clear()

    def _began(self, held: Held) -> None:
        if not self.stage.judged(held) or not held.believing() or self.stage.between_logs():
            return  # or it was over before its member could begin it, or belongs to a log that is no more
        before = self.last.get(held.seat)
        late = held.token < (0 if before is None else before.token) and self.stage.overlap(held.member)
        if late:  # in overlap mode a member may begin late what another has taken meanwhile: a fence refuses it
            return
        if before is not None and held.token <= before.token:
            raise self.broken(f"{held} begins after {before}")
        self.last[held.seat] = held

    def write(self, held: Held) -> bool:
        """A user writes in the name of a term, whether it still believes or not. Whether the sink took it. By a task."""
        seen = self.fence.get(held.seat, 0)
        taken = held.token >= seen
        self.writes.append((self.world.now, held.seat, held.token, taken))
        if taken:
            if not self.stage.between_logs():
                self.fence[held.seat] = held.token
        elif held.believing() and self.last.get(held.seat) is held and not self.stage.overlap(held.member):
            self.fail(f"the fence refuses {held}, which rightly leads: it has seen {seen}")
        return taken
