"""What a seed stands for: everything about a simulation of ALLCALL, before it begins; and the bounds that follow from it.

Bounds (nanoseconds of true time), with B the heartbeat, L the lease, S the skew, W = 2.5 B the window in which somebody heard
is taken to be there, d the delay of a message, each stretched by the slowest stopwatch:

cold     L + S + B + d        silence ends; the first calls are answered for a beat (counted from the start of the best ranked
                              one, if that begins within the beat in which another waits for answers)
crash    L + S + B + 2d       the newest claim was on its way (d), lasts L and S on the receiver's stopwatch; who claims then
                              may have heard of it through another (d), and may wake late (B)
stop     B + 2d + barrier     the barrier returns; a release is heard (d) and answered by a claim at once; who can't claim at
                              once, because it has just begun or stood still, listens for a beat
heal     B + d                each of two leaders calls within a beat, and its call takes d: the worse one stops when it hears
best     L + B + d + barrier  who leads has just renewed when the best one is heard; at its last beat it yields. By rank: B + d
quiet    L + S + W + 2B + 3d  whatever went before: claims of the dead are over, the dead are no longer taken to be there,
         + barrier            silences are over, and who may claim has called and claimed

A member that wakes up later than it asked for calls as much later, and notices as much later that something is over: B has that
more, and `cold`, `crash` and `quiet` once again. Where wall clocks are more than a lease apart, all have W + 2B more: so long
it takes until a newcomer's calls are known for new by their pace.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec
from msgspec import Struct

from pares.core.allcall.election import Order
from pares.core.allcall.peers import WINDOW
from pares.sim.engine import MS, US

FAULTS: Final = (
    "crash",
    "restart",
    "freeze",
    "freeze_inside",
    "disconnect",
    "blink",
    "deaf",
    "mute",
    "one_way",
    "split",
    "outage",
    "close",
    "step_down",
    "ready",
    "barrier",
    "replay",
    "garbage",
    "wall",
)
"""What can befall a group, apart from what weather does to single messages."""
PROBES: Final = ("crash", "crash", "close", "step_down", "split", "join", "restart")
"""What is done in the calm, one at a time, to see how long it takes to come right."""


class Weather(Struct, frozen=True):
    """How the bus treats everybody's messages. Times in nanoseconds, chances per message and receiver."""

    delay: tuple[int, int] = (MS, MS)
    loss: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    late_by: tuple[int, int] = (0, 0)
    kept: bool = False
    """Clients keep what they can't send, and send it when they are connected again."""


class AllCallKnobs(Struct, frozen=True):
    """One simulation. Lengths of storm and calm are in leases."""

    seed: int
    members: int
    ranks: tuple[int, ...]
    roles: int
    picky: bool
    """Not everybody may lead every role."""
    beat_ms: int
    lease_ms: int
    skew_ms: int
    order: Order
    isolated: tuple[str, ...]
    """What each does when it is alone."""
    drift: float
    """Of stopwatches. The skew covers by what two of them part in a lease."""
    extreme: bool
    wall_s: float
    """By how much wall clocks are wrong."""
    storm: float
    pace: float
    reach: float
    """How long what is cut stays cut, in times of `quiet`."""
    faults: dict[str, float]
    probes: tuple[str, ...]
    weather: Weather
    dawn: float
    """Within what part of a lease all are started."""
    barrier: float
    """How long barriers take at most, in leases; they time out after three."""
    wakes_late: int
    """Nanoseconds by which everybody wakes up later than asked for, at most."""

    @property
    def barrier_ms(self) -> int:
        return 3 * self.lease_ms if self.barrier else 0

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()


class Bounds:
    """What is promised by when; see above."""

    def __init__(self, knobs: AllCallKnobs) -> None:
        slow = 1 / (1 - knobs.drift)
        beat, lease, skew = (int(ms * MS * slow) for ms in (knobs.beat_ms, knobs.lease_ms, knobs.skew_ms))
        self.delay = knobs.weather.delay[1] + 50 * US
        self.window = int(WINDOW * beat)
        late = int(knobs.wakes_late * slow)
        beat += late
        self.beat, self.lease, self.skew = beat, lease, skew
        self.step = MS
        """What whole milliseconds on the wire may add."""
        # Whose wall clock is wrong by more than a lease is believed after a window of calls at one pace.
        self.clocks = self.window + 2 * beat if knobs.wall_s * 1000 > knobs.lease_ms else 0
        self.cold = lease + skew + beat + late + self.delay + self.step + self.clocks
        self.crash = lease + skew + beat + late + 2 * self.delay + self.step + self.clocks
        self.barrier = int(knobs.barrier * lease)
        self.stop = beat + 2 * self.delay + self.step + self.barrier + self.clocks
        self.heal = beat + self.delay + self.step + self.clocks
        self.best = beat + self.delay + self.step + self.clocks
        if knobs.order == "lease":
            self.best += lease + self.barrier
        self.quiet = lease + skew + self.window + 2 * beat + late + 3 * self.delay + self.step
        self.quiet += self.clocks + self.barrier


def draw(seed: int, bias: dict[str, Any] | None = None) -> AllCallKnobs:
    """The knobs of a seed. `bias` replaces some of them, and some of the weather's."""
    rng = Random(f"{seed}/allcall/knobs")
    bias = dict(bias or {})
    members = int(bias.get("members", rng.choice((2, 2, 3, 3, 3, 3, 4, 4, 5, 8))))
    beat = int(bias.get("beat_ms", rng.choice((20, 100, 200, 1000))))
    lease = int(bias.get("lease_ms", beat * rng.choice((3, 3, 4, 4, 5, 10))))
    skew = max(4, int(lease * rng.choice((0.05, 0.1, 0.1, 0.3))))
    order: Order = rng.choice(("lease", "rank"))
    tied = rng.random() < 0.3
    ranks = tuple(rng.choice((0, 1)) if tied else rank for rank in rng.sample(range(members), members))
    alone = rng.choice((("lead",), ("lead",), ("step_down",), ("lead", "step_down")))
    most = 0.9 * (skew - 2) / (2 * lease + skew)
    knobs = AllCallKnobs(
        seed=seed,
        members=members,
        ranks=ranks,
        roles=rng.choice((1, 1, 2)),
        picky=rng.random() < 0.3,
        beat_ms=beat,
        lease_ms=lease,
        skew_ms=skew,
        order=order,
        isolated=tuple(rng.choice(alone) for _ in range(members)),
        drift=rng.choice((0.0, 0.001, 1.0, 1.0)) * min(most, 0.1),
        extreme=rng.random() < 0.5,
        wall_s=rng.choice((0.0, 0.3 * lease / 1000, 0.3 * lease / 1000, 0.4 * lease / 1000, 60.0)),
        storm=rng.uniform(6, 12),
        pace=rng.choice((0.2, 0.5, 1.0)),
        reach=rng.choice((0.5, 1.0, 3.0)),
        faults=_some(rng, 4),
        probes=tuple(rng.choice(PROBES) for _ in range(2)),
        weather=_weather(rng, beat, lease),
        dawn=rng.choice((0.0, 0.1, 1.0)),
        barrier=rng.choice((0.0, 0.0, 0.1, 0.7)),
        wakes_late=_wakes_late(seed, beat),
    )
    weather = bias.pop("weather", None)
    if weather is not None:
        bias["weather"] = msgspec.structs.replace(knobs.weather, **weather)
    return msgspec.structs.replace(knobs, **bias)


def _wakes_late(seed: int, beat_ms: int) -> int:
    """Drawn by itself: a seed's other knobs are what they were before this one was there."""
    return int(beat_ms * MS * Random(f"{seed}/allcall/wakes").choice((0.0, 0.02, 0.1, 0.3)))


def _some(rng: Random, most: int) -> dict[str, float]:
    """A few kinds of fault, each with a weight."""
    chosen = rng.sample(FAULTS, rng.randint(1, most))
    return {kind: rng.choice((1.0, 1.0, 3.0)) for kind in chosen}


def _weather(rng: Random, beat_ms: int, lease_ms: int) -> Weather:
    slow = int(beat_ms * MS * rng.choice((0.005, 0.02, 0.1, 0.4)))
    calm = Weather(delay=(slow // 4, slow), kept=rng.random() < 0.3)
    if rng.random() < 0.4:
        return calm
    chance = rng.choice((0.02, 0.1, 0.2))
    return msgspec.structs.replace(
        calm,
        loss=chance * rng.choice((0, 1)),
        doubled=chance * rng.choice((0, 1)),
        late=chance * rng.choice((0, 0, 1)) / 2,
        late_by=(slow, lease_ms * MS * rng.choice((1, 3))),
    )


def fair(weather: Weather) -> Weather:
    """The same delays, and nothing goes wrong any more."""
    return msgspec.structs.replace(weather, loss=0.0, doubled=0.0, late=0.0, kept=False)
