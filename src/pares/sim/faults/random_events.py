"""Things that happen at random times until a storm is over: faults, and what users do."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Generic, Protocol, TypeVar

from pares.sim.engine import Engine


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
    """Draws kinds, by their weights, `pace` times in a `unit` (nanoseconds) on average; whoever derives says what they do."""

    RATHER = 0.6
    """How often somebody who leads is chosen, if there is one."""

    def __init__(
        self, engine: Engine, rng: Random, kinds: dict[str, float], *, pace: float, unit: int, until: int
    ) -> None:
        self.engine = engine
        self.rng = rng
        self.over_at = until
        self._unit, self._pace = unit, pace
        self._kinds, self._weights = list(kinds), list(kinds.values())
        if self._kinds and pace:
            self._next()

    def happen(self, kind: str) -> None:
        """Do it."""
        raise NotImplementedError

    def own(self) -> Sequence[P]:
        """Whom it can befall."""
        raise NotImplementedError

    def _next(self) -> None:
        at = self.engine.now + max(1, int(self.rng.expovariate(self._pace) * self._unit))
        if at < self.over_at:
            self.engine.at(at, self._strike)

    def _strike(self) -> None:
        self.happen(self.rng.choices(self._kinds, self._weights)[0])
        self._next()

    def span(self, low: float, high: float) -> int:
        """A length of time between so many units and so many."""
        return int(self.rng.uniform(low, high) * self._unit)

    def someone(self, *, holder: bool | None = None) -> P | None:
        """A process that runs; rather one that holds something, unless told otherwise."""
        running = [p for p in self.own() if p.running and p.over is None]
        if not running:
            return None
        holders = [p for p in running if p.beliefs]
        if holders and (holder or (holder is None and self.rng.random() < self.RATHER)):
            return self.rng.choice(holders)
        return self.rng.choice(running)
