"""What a seed stands for: everything about a simulation of NELI or Fast NELI, before it begins."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec
from msgspec import Struct

from pares.core.lease import lease_ns
from pares.core.neli.budget import BUDGET
from pares.core.neli.classic import SHARED
from pares.core.neli.fast import BEATS
from pares.core.neli.protocols import MODES, USUAL, Mode
from pares.sim.engine import MS
from pares.sim.wire import Weather

DRAWN: Final = (
    "crash",
    "freeze",
    "freeze_buffered",
    "freeze_ticked",
    "cut_log",
    "cut_group",
    "oblivious",
    "cut_all",
    "deaf",
    "mute",
    "shuffle",
    "lie",
    "close",
    "replay",
    "garbage",
    "barrier",
    "outage",
)
"""What befalls a group as its seed has it."""
RARE: Final = 0.15
"""Of the seeds, how many have "freeze_clocks" as well. It is drawn last, and those that don't have it stay as they were."""
LOSSES: Final = ("broken", "forgetful")
"""Logs that lose what they acknowledged, against A1: in no seed, but for the rules that make the best of it."""
FAULTS: Final = (*DRAWN, "freeze_clocks", *LOSSES)
"""What can befall a group, apart from what weather does to single appends."""


class NeliKnobs(Struct, frozen=True):
    """One simulation. Lengths of time are in units of the group's session."""

    seed: int
    mode: str
    """fast-neli, neli (exclusive) or nele (NELI, non-exclusive)."""
    members: int
    partitions: int
    roles: int
    session_ms: int
    threshold_ms: int
    interval_ms: int
    error_ms: int
    drift: float
    extreme: bool
    storm: float
    calm: float
    pace: float
    faults: dict[str, float]
    weather: Weather
    group_delay: tuple[int, int]
    barrier: float
    """How long barriers take, at most."""
    barrier_ms: int
    narrow: int
    """How many partitions some members share out at first, before the topic grew; 0: all alike."""

    neighbours: int = 0
    """Groups of one member each that share the topic, and that nothing befalls."""
    budget: int = BUDGET
    """Beats a second on the topic."""

    @property
    def law(self) -> Mode:
        """What the mode is."""
        return MODES[self.mode]

    @property
    def beat_ms(self) -> float:
        """The longest interval at which anybody beats, when all are known to all."""
        share = (self.members + self.neighbours) * self.partitions * 1000 / self.budget
        share = max(share, self.interval_ms * (1 + self.neighbours))
        return max(self.interval_ms, min(share, self.slowest_ms) if self.exclusive else share)

    @property
    def slowest_ms(self) -> float:
        """The longest interval that exclusive beliefs bear."""
        if self.law.by_own_beats:
            return lease_ns(self.threshold_ms, self.drift) / BEATS / MS
        return (self.threshold_ms - self.error_ms) / SHARED

    @property
    def protocol(self) -> str:
        return self.mode if self.exclusive else USUAL.name

    @property
    def exclusive(self) -> bool:
        return self.law.exclusive

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()


def draw(seed: int, mode: str, bias: dict[str, Any] | None = None) -> NeliKnobs:
    """The knobs of a seed. `bias` replaces some of them."""
    rng = Random(f"{seed}/{mode}/knobs")
    bias = dict(bias or {})
    session = rng.choice((200, 500, 1000, 1000, 3000))
    error = 0
    law = MODES[mode]
    if not law.exclusive:
        threshold = int(session * rng.uniform(1.2, 3))
    elif law.by_clocks:
        error = int(session * rng.choice((0.0, 0.02, 0.1)))
        threshold = int(session * rng.uniform(0.2, 0.8))
    else:
        threshold = int(session * rng.choice((0.2, 0.33, 0.33, 0.6, 1.5)))
    knobs = NeliKnobs(
        seed=seed,
        mode=mode,
        members=rng.choice((2, 3, 3, 4, 5)),
        partitions=rng.choice((1, 1, 2, 3, 4)),
        roles=rng.choice((1, 2, 4)),
        session_ms=session,
        threshold_ms=threshold,
        interval_ms=max(1, (threshold - error) // rng.choice((5, 8, 12))),
        error_ms=error,
        drift=rng.choice((0.1, 0.1, 0.01, 0.0)),
        extreme=rng.random() < 0.5,
        storm=rng.uniform(15, 30),
        calm=rng.uniform(14, 18),
        pace=rng.choice((0.2, 0.5, 1.0, 1.5)),
        faults=_some(rng, DRAWN, 4),
        weather=_weather(rng, min(session, threshold)),
        group_delay=(MS // 2, int(session * MS * rng.choice((0.005, 0.02)))),
        barrier=rng.choice((0.0, 0.0, 0.1, 0.5)),
        barrier_ms=int(session * rng.choice((0.3, 1.0, 4.0))),
        narrow=rng.choice((0, 0, 1)),
    )
    neighbours = bias.pop("neighbours", rng.choice((0, 0, 0, 1, 2, 4)))
    if rng.random() < RARE:
        knobs = msgspec.structs.replace(knobs, faults=knobs.faults | {"freeze_clocks": 1.0})
    weather = bias.pop("weather", None)
    if weather is not None:
        bias["weather"] = msgspec.structs.replace(knobs.weather, **weather)
    knobs = msgspec.structs.replace(knobs, **bias)
    if neighbours and "budget" not in bias:
        # So small that it is shared by beating half as often.
        owners = neighbours + (1 if law.by_own_beats else knobs.members)
        budget = max(1, owners * knobs.partitions * 500 // knobs.interval_ms)
        knobs = msgspec.structs.replace(knobs, budget=budget)
    return msgspec.structs.replace(knobs, neighbours=neighbours)


def _some(rng: Random, kinds: tuple[str, ...], most: int) -> dict[str, float]:
    """A few kinds of fault, each with a weight."""
    chosen = rng.sample(kinds, rng.randint(1, most))
    return {kind: rng.choice((1.0, 1.0, 3.0)) for kind in chosen}


def _weather(rng: Random, unit_ms: int) -> Weather:
    """Delays are small beside the threshold; a rough ledger loses, delays and doubles."""
    quick = max(20_000, unit_ms * MS // 200)
    calm = Weather(
        send=(quick // 2, quick), ack=(quick // 2, quick), lag=(quick // 2, quick), timeout=unit_ms * MS // 4
    )
    if rng.random() < 0.4:
        return calm
    late = (0, unit_ms * MS * rng.choice((1, 4)))
    chance = rng.choice((0.01, 0.05, 0.15))
    return msgspec.structs.replace(
        calm,
        late_by=late,
        slow=chance * rng.choice((0, 1)),
        slow_by=(quick, unit_ms * MS),
        unknown=chance * rng.choice((0, 1)),
        lost=chance * rng.choice((0, 1)),
        silent=chance * rng.choice((0, 1)),
        doubled=chance * rng.choice((0, 1)),
        copied=chance * rng.choice((0, 1)),
        hole=rng.choice((0.0, 0.1)),
    )
