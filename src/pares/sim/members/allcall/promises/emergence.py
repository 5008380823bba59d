"""When nothing has happened for long enough, a member that could follow somebody has a leader of which it hears, but for the
moment of a handover: on each side of a split; and a member on its own leads itself if it was told to.
"""

from __future__ import annotations

from typing import Any

from pares.sim.members.allcall.ground import Ground
from pares.sim.members.allcall.promises.base import AllCallPromise


class Emergence(AllCallPromise):
    name = "a leader emerges on every side"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.without: dict[tuple[Any, str], int] = {}
        self.look_every()

    def look(self) -> None:
        ground, now = self.ground, self.world.now
        without, self.without = self.without, {}
        air = ground.air
        since = max(ground.disturbed_at, ground.bus.unsettled_until if air.late or air.doubled else 0)
        if air.dropped or air.late or now < since + self.bounds.quiet:
            return
        led = {role: {held.process for held in ground.sight.believers(ground.seat(role))} for role in ground.roles}
        for user in ground.acting():
            for role in user.roles:
                reach = self._reach(user, role)
                if any(each.process in led[role] for each in reach) or not any(self._able(each) for each in reach):
                    continue
                key = (user.process, role)
                self.without[key] = without.get(key, now)
                if now > self.without[key] + self.bounds.stop:
                    ago = (now - since) / 1e6
                    raise self.broken(
                        f"{user.member.id} hears of nobody who leads {role}, {ago:.0f} ms after the last thing that happened"
                    )

    def _reach(self, user: Any, role: str) -> list[Any]:
        """Itself, and those whose calls reach it, directly or passed on."""
        found, new = [user], [user]
        others = [other for other in self.ground.acting() if role in other.roles]
        while new:
            target = new.pop()
            for other in others:
                if other not in found and self.ground.passes(other, target):
                    found.append(other)
                    new.append(other)
        return found

    def _able(self, user: Any) -> bool:
        """It may lead: its calls come back, or it hears nobody and leads on its own."""
        ground = self.ground
        if not user.ready or user.draining:
            return False
        if ground.passes(user, user):
            return True
        alone = not any(ground.passes(other, user) for other in ground.acting() if other is not user)
        return alone and ground.leads_alone(user)
