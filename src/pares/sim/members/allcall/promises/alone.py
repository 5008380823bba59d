"""A member whose own calls don't come back steps down, if it was told to; and it does not lead for longer than a lease beside
others whom it hears.
"""

from __future__ import annotations

from pares.sim.members.allcall.calls import Message
from pares.sim.members.allcall.ground import FRESH, Ground
from pares.sim.members.allcall.promises.base import AllCallPromise
from pares.sim.world.process import Process


class Alone(AllCallPromise):
    name = "a member that is not heard does not lead"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.back: dict[Process, int] = {}
        """When one of its calls came back, or it had reason to wait for one anew."""
        self.others: dict[Process, int] = {}
        self.among: dict[Process, int] = {}
        """From when on it has heard others all the time."""
        self.world.on_start.append(self._anew)
        self.world.on_hindered.append(self._anew)
        stage.calls.heard.append(self._heard)
        self.look_every()

    def _anew(self, process: Process) -> None:
        self.back[process] = self.others[process] = self.among[process] = self.world.now

    def _heard(self, process: Process, message: Message) -> None:
        now = self.world.now
        if message.process is process:
            self.back[process] = now
        elif now <= message.at + FRESH * self.ground.plan.unit:
            if now > self.others[process] + self.bounds.window // 2:
                self.among[process] = now
            self.others[process] = now

    def look(self) -> None:
        ground, now, bounds = self.ground, self.world.now, self.bounds
        if bounds.clocks:
            return
        for user in ground.acting():
            process = user.process
            if not any(held.believing() for held in ground.sight.of_process(process)):
                continue
            wait = bounds.window + bounds.beat + bounds.step + 2 * bounds.late
            back = max(self.back[process], process.starved_at)
            if ground.held_up(process):
                continue  # its tasks come back late, just now
            if not ground.leads_alone(user) and now > back + wait:
                raise self.broken(
                    f"{user.member.id} leads, and its calls have not come back for {(now - back) / 1e6:.1f} ms"
                )
            among = now < self.others[process] + bounds.window // 2
            if among and now > max(back, self.among[process]) + wait + bounds.lease + bounds.window:
                raise self.broken(f"{user.member.id} leads among others who don't hear it, and its term does not end")
