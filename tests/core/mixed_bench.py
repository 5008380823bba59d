"""Members of claims and of the NELI family under one group's name and on one log, played in an order that chance decides:
appends that land and are acknowledged late, reads that bring a part, members that stand still."""

from __future__ import annotations

import random
from typing import Any

from pares.core import events as ev
from pares.core.claims.protocol import Claims, RoleSpec
from pares.core.claims.protocol import Config as ClaimsConfig
from pares.core.neli.classic import Neli
from pares.core.neli.config import Config
from pares.core.neli.fast import Fast
from pares.core.neli.induced import Induced

MS = 1_000_000
WALL_US = 1_700_000_000_000_000
GROUP, ROLE = "g", "0"


class Shared:
    """The log and the time that all members have."""

    def __init__(self) -> None:
        self.now = 10**12
        self.log: list[tuple[int, int, bytes]] = []

    @property
    def wall_us(self) -> int:
        return WALL_US + self.now // 1000

    def land(self, payload: bytes) -> int:
        self.log.append((len(self.log), self.wall_us // 1000, payload))
        return len(self.log) - 1


class Actor:
    """A member, with a new incarnation after each `Restart`; it is over after a `Stop`."""

    def __init__(self, shared: Shared, name: str, protocol: str) -> None:
        self.shared, self.name, self.protocol = shared, name, protocol
        self.incarnations = 0
        self.ended: ev.Stop | ev.Closed | None = None
        self.reports: list[str] = []
        self.asleep_until = 0
        self.tokens: list[int] = []
        self._begin()

    def _begin(self) -> None:
        self.incarnations += 1
        self.until: dict[Any, int] = {}
        self.flying: list[tuple[int, Any]] = []
        """(when it lands, effect)"""
        self.landed: list[tuple[int, Any]] = []
        """(when it is acknowledged, event)"""
        id, end = f"{self.name}~{self.incarnations}", len(self.shared.log)
        if self.protocol == "claims":
            self.core: Claims | Induced = Claims(
                ClaimsConfig(group=GROUP, id=id, name=self.name, session_ms=500, roles=(RoleSpec(ROLE),))
            )
            self.step(ev.Attached(0, end))
            return
        settings: dict[str, Any] = {"threshold_ms": 300, "interval_ms": 50, "session_ms": 1000}
        config = Config(group=GROUP, id=id, name=self.name, roles=(ROLE,), **settings)
        self.core = Induced(Fast(config) if self.protocol == "fast-neli" else Neli(config))
        self.step(ev.Attached(0, end))
        self.step(ev.Assigned((0,)))

    @property
    def core_position(self) -> int:
        return self.core.position if isinstance(self.core, Claims) else self.core.position(0)

    def leads(self) -> bool:
        return any(self.shared.now < until for until in self.until.values())

    def step(self, event: Any) -> None:
        core = self.core
        for effect in core.step(event, self.shared.now):
            if core is self.core:
                self._carry(effect)

    def _carry(self, effect: Any) -> None:
        now = self.shared.now
        if isinstance(effect, ev.Append):
            self.flying.append((now + self.delay(), effect))
        elif isinstance(effect, ev.Lead):
            self.until[effect.seat] = effect.until
            self.tokens.append(effect.token)
        elif isinstance(effect, ev.Extend):
            self.until |= dict.fromkeys(self.until if effect.seats is None else effect.seats, effect.until)
        elif isinstance(effect, ev.Follow):
            self.until.pop(effect.seat, None)
        elif isinstance(effect, ev.Barrier):
            self.step(ev.WorkOver(effect.seat, effect.token))
        elif isinstance(effect, ev.Report):
            self.reports.append(effect.kind)
        elif isinstance(effect, ev.Stop | ev.Closed):
            self.ended, self.until = effect, {}
        elif isinstance(effect, ev.Restart):
            # What is on its way lands all the same.
            for at, put in self.flying:
                self._land(at, put)
            self._begin()

    def delay(self) -> int:
        return 0

    def _land(self, at: int, effect: ev.Append) -> None:
        offset = [self.shared.land(payload) for payload in effect.payloads][-1]
        self.landed.append((at + self.delay(), ev.Acked(effect.ticket, offset)))

    def write(self) -> None:
        """What is due lands, in order, whether or not its sender sleeps."""
        while self.flying and self.flying[0][0] <= self.shared.now:
            self._land(*self.flying.pop(0))

    def hear(self) -> None:
        while self.landed and self.landed[0][0] <= self.shared.now and self.ended is None:
            self.step(self.landed.pop(0)[1])

    def read(self, most: int) -> None:
        if self.ended is None:
            entries = self.shared.log[self.core_position :][:most]
            self.step(ev.Read(entries, wall_us=self.shared.wall_us))  # type: ignore[arg-type]

    def tick(self) -> None:
        if self.ended is None:
            self.step(ev.Tick(self.shared.wall_us))

    def close(self) -> None:
        if self.ended is None:
            self.step(ev.Close())


class Chance(Actor):
    """An actor whose appends take as long as chance has it."""

    def __init__(self, shared: Shared, name: str, protocol: str, chance: random.Random, slow_ms: int) -> None:
        self.chance, self.slow_ms = chance, slow_ms
        super().__init__(shared, name, protocol)

    def delay(self) -> int:
        return int(self.chance.random() ** 3 * self.slow_ms * MS)


class Stage:
    """Plays actors side by side and looks, after every single step, who believes."""

    def __init__(self, chance: random.Random, *, slow_ms: int = 0) -> None:
        self.shared = Shared()
        self.chance, self.slow_ms = chance, slow_ms
        self.actors: list[Chance] = []
        self.met = 0

    def enter(self, name: str, protocol: str) -> Chance:
        actor = Chance(self.shared, name, protocol, self.chance, self.slow_ms)
        self.actors.append(actor)
        return actor

    def look(self) -> None:
        leading = [a for a in self.actors if a.leads()]
        assert len(leading) <= 1, f"two lead: {[(a.name, a.until, a.tokens) for a in leading]} at {self.shared.now}"

    def run(self, seconds: float, *, freezes: float = 0.0) -> None:
        end = self.shared.now + int(seconds * 1000) * MS
        while self.shared.now < end:
            self.shared.now += self.chance.randrange(1, 15) * MS
            self.look()
            for actor in self.chance.sample(self.actors, len(self.actors)):
                if self.shared.now < actor.asleep_until:
                    actor.write()
                    continue
                if self.chance.random() < freezes:
                    actor.asleep_until = self.shared.now + self.chance.randrange(1500) * MS
                # A thread may stand still between any two of these, and then goes on with the next.
                for act in (
                    actor.write,
                    actor.hear,
                    lambda actor=actor: actor.read(self.chance.choice((1, 3, 100))),
                    actor.tick,
                ):
                    if self.chance.random() < 0.9:
                        act()
                        self.look()

    def leading(self) -> list[str]:
        return [a.name for a in self.actors if a.leads()]
