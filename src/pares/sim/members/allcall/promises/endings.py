"""What follows when a term ends whose holder lives: no fence where nothing was in the way, and no gap in the calm."""

from __future__ import annotations

from pares.core.reasons import LEASE_RAN_OUT, OUTBID
from pares.runtime.events import Event, Fenced
from pares.sim.members.allcall.ground import Ground, why
from pares.sim.members.allcall.promises.base import AllCallPromise
from pares.sim.members.sight import Held, Seat
from pares.sim.world.bus import LONG_AGO
from pares.sim.world.process import Process


class Planned(AllCallPromise):
    """A member that has nothing in its way, and hears itself, ends its terms by plan: for a better ranked one, by a wish of its
    user's, by closing. Its lease does not run out, neither while it leads nor while the barrier runs that it then waits for."""

    name = "what ends by plan is no fence"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        bounds = self.bounds
        self.wait = bounds.lease + bounds.window + 2 * bounds.beat + 2 * bounds.delay
        """So long ago is the last trouble that could have kept it from prolonging what ends now."""
        stage.events.append(self._told)

    def _told(self, process: Process, event: Event) -> None:
        if not isinstance(event, Fenced) or event.why != LEASE_RAN_OUT or not process.alive:
            return
        user = self.ground.user(process)
        hindered = self.ground.bus.hindered(process.name, process.name)
        if self.ground.well(user, self.wait) and self.world.now > hindered + self.wait:
            raise self.broken(f"{user.member.id} is fenced from {event.role} ({event.why}), and nothing was in its way")


class NoGap(AllCallPromise):
    """In the calm a term that ends while its holder lives is followed by another within a beat and two delays. `calm` is set by
    whatever makes troubles."""

    name = "no gap"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.calm = False
        self.gone_at = LONG_AGO
        """When a process last ended, by whatever."""
        self.newest: dict[Seat, int] = {}
        """When the last term of each seat ended."""
        self.world.on_end.insert(0, self._ends)
        stage.sight.ended.append(self._ended)

    def _ends(self, process: Process) -> None:
        if self.ground.sight.of_process(process):
            self.gone_at = self.world.now

    def _ended(self, held: Held) -> None:
        self.newest[held.seat] = self.world.now
        if self.calm and why(held) != OUTBID:
            self.world.after(self.bounds.stop, self._look, held, self.world.now)

    def _look(self, held: Held, since: int) -> None:
        ground = self.ground
        able = any(held.term.role in user.roles and ground.able(user, self.bounds.quiet) for user in ground.own)
        alone = self.gone_at < since and self.newest[held.seat] == since
        if self.calm and alone and able and not ground.sight.believers(held.seat):
            raise self.broken(
                f"nobody leads {held.term.role} {self.bounds.stop / 1e6:.1f} ms after {held} ended ({why(held)})"
            )
