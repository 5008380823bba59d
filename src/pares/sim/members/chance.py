"""Things that happen at random times until a storm is over: faults, and what users do.

Each has a number, by which a plan can leave it out (`Plan.skip`), and draws from a stream of its own: all else stays as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from pares.sim.members.stage import Stage


class Acting(Protocol):
    """What is chosen among."""

    @property
    def running(self) -> bool: ...
    @property
    def over(self) -> object: ...
    @property
    def beliefs(self) -> object: ...


P = TypeVar("P", bound=Acting)


class Chance(Generic[P]):
    """Draws `kinds`, by their weights, `pace` times in a session on average, while the storm lasts; a subclass says what
    they do. `name`: of all that it draws."""

    RATHER = 0.6
    """How often somebody who leads is chosen, if there is one."""

    def __init__(self, stage: Stage, name: str, kinds: dict[str, float], *, pace: float) -> None:
        plan = stage.plan
        self.engine = stage.world
        self.name = name
        self.over_at = int(plan.storm * plan.unit)
        self._unit, self._pace = plan.unit, pace
        self._kinds, self._weights = list(kinds), list(kinds.values())
        self._times = stage.world.random(name)
        self.rng = stage.world.random(f"{name}/0")
        """Of what happens now."""
        self._skip = frozenset(plan.skip.get(name, ()))
        stage.chances.append(self)
        self.happened = 0
        """How many have had their time, those that were left out included."""
        if self._kinds and pace:
            self._next()

    def happen(self, kind: str) -> None:
        """Do it."""
        raise NotImplementedError

    def own(self) -> Sequence[P]:
        """Whom it can befall."""
        raise NotImplementedError

    def _next(self) -> None:
        at = self.engine.now + max(1, int(self._times.expovariate(self._pace) * self._unit))
        if at < self.over_at:
            self.engine.at(at, self._strike)

    def _strike(self) -> None:
        number, kind = self.happened, self._times.choices(self._kinds, self._weights)[0]
        self.happened += 1
        if number not in self._skip:
            self.rng = self.engine.random(f"{self.name}/{number}")
            self.happen(kind)
        self._next()

    def span(self, low: float, high: float) -> int:
        """A length of time between so many sessions and so many."""
        return int(self.rng.uniform(low, high) * self._unit)

    def someone(self, *, holder: bool | None = None) -> P | None:
        """A process that runs; rather one that holds something, unless told otherwise."""
        running: list[Any] = [p for p in self.own() if p.running and p.over is None]
        if not running:
            return None
        holders = [p for p in running if p.beliefs]
        if holders and (holder or (holder is None and self.rng.random() < self.RATHER)):
            return self.rng.choice(holders)
        return self.rng.choice(running)
