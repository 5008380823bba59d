"""Of members that hear each other, and have for a beat and a delay, one leads."""

from __future__ import annotations

from itertools import combinations

from pares.sim.members.allcall.ground import Ground
from pares.sim.members.allcall.promises.base import AllCallPromise

Pair = tuple[str, str, str]
"""A role, and the two members that lead it."""


class OneSide(AllCallPromise):
    name = "one leader among those who hear each other"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.met: dict[Pair, int] = {}
        self.look_every()

    def look(self) -> None:
        ground, now = self.ground, self.world.now
        met: dict[Pair, int] = {}
        for role in ground.roles:
            for one, other in combinations(ground.sight.believers(ground.seat(role)), 2):
                key = (role, one.term.member, other.term.member)
                met[key] = self.met.get(key, now)
                a, b = one.process, other.process
                since = max(met[key], ground.steady(ground.user(a)), ground.steady(ground.user(b)))
                since = max(since, ground.bus.hindered(a.name, b.name), ground.bus.hindered(b.name, a.name))
                if now > since + self.bounds.heal:
                    raise self.broken(
                        f"{one} and {other} both lead, {(now - since) / 1e6:.1f} ms since they hear each other"
                    )
        self.met = met
