"""Promise 1: at no instant do two members believe that they hold one seat; in overlap mode, for no longer than `overlap`.

So of a role no more members believe than it has seats. A frozen member believes as far as its own stopwatch lets it; a dead one
believes nothing. Not judged: beliefs from before and after a log was replaced or lost what it had acknowledged (A1), while a
lease of the old one lasts; and members whose lock was lost (A3), which others may have proven dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.sim.engine import MS
from pares.sim.members.promises.base import Promise
from pares.sim.members.sight import Held, Seat

if TYPE_CHECKING:
    from pares.sim.members.stage import Stage

SLACK: Final = 2 * MS


class Exclusive(Promise):
    name = "exclusive belief"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.meetings: dict[tuple[Seat, int, int], tuple[Held, Held, int]] = {}
        """Overlap mode: who met, and since when, by the two tokens."""
        stage.sight.began.append(self._look)
        stage.sight.prolonged.append(self._look)
        stage.sight.ended.append(self._ended)

    def _look(self, held: Held) -> None:
        if not held.believing():
            return
        for other in self.stage.sight.seats.get(held.seat, ()):
            if other is not held and other.member is not held.member and other.believing():
                self._meet(held, other)

    def _meet(self, one: Held, other: Held) -> None:
        if self.stage.excused(one, other):
            return
        if not (self.stage.overlap(one.member) or self.stage.overlap(other.member)):
            left = min(one.left(), other.left())
            raise self.broken(f"{one} and {other} both believe, for {left:.3f} ms if nobody stops")
        first, second = sorted((one, other), key=lambda held: held.token)
        self.meetings.setdefault((one.seat, first.token, second.token), (first, second, self.world.now))

    def _ended(self, held: Held) -> None:
        for key, (one, other, since) in list(self.meetings.items()):
            if held in (one, other):
                del self.meetings[key]
                self._judge(one, other, since)

    def _judge(self, one: Held, other: Held, since: int) -> None:
        met = min(self._over(one), self._over(other)) - since
        allowed = max(self.stage.overlap(one.member), self.stage.overlap(other.member))
        if met > allowed / (1 - self.stage.plan.drift) + SLACK:
            raise self.broken(
                f"{one} and {other} both believed for {met / 1e6:.3f} ms, {allowed / 1e6:.0f} ms of overlap are allowed"
            )

    def _over(self, held: Held) -> int:
        """The true time at which it believes no more. One that was ended after its lease had run out believed less long."""
        now = self.world.now if held.over_at is None else held.over_at
        return min(now, held.process.stopwatch.when(held.last))

    def end(self) -> None:
        for one, other, since in self.meetings.values():
            self._judge(one, other, since)
