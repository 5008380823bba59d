"""Draws the plan of a seed. Most seeds have few troubles: a world in which everything fails at once hides what goes wrong when
only one thing does.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec

from pares.sim.engine import MS
from pares.sim.members.allcall.bounds import Bounds
from pares.sim.members.allcall.plan import ACTS, DAWN, FAULTS, PROBES, AllCallPlan
from pares.sim.members.plan import STYLES
from pares.sim.world.bus import Air
from pares.sim.world.logs.link import CALM

FIRST: Final = ("session_ms", "members", "beat_ms", "skew_ms", "drift")
"""What of a plan is drawn before the rest, which depends on it."""


def draw(seed: int, bias: dict[str, Any] | None = None) -> AllCallPlan:
    """The plan of a seed. `bias` replaces some of it, and some of its air."""
    rng, bias = Random(f"{seed}/allcall/plan"), dict(bias or {})
    members = int(bias.get("members") or rng.choice((2, 2, 3, 3, 3, 3, 4, 4, 5)))
    beat = int(bias.get("beat_ms") or rng.choice((20, 100, 200, 1000)))
    lease = int(bias.get("session_ms") or beat * rng.choice((3, 3, 4, 4, 5, 8)))
    skew = int(bias.get("skew_ms") or max(4, int(lease * rng.choice((0.05, 0.1, 0.1, 0.3)))))
    tied = rng.random() < 0.3
    alone = rng.choice((("lead",), ("lead",), ("step_down",), ("lead", "step_down")))
    drift = bias.get("drift", rng.choice((0.0, 0.001, 1.0, 1.0)) * most_drift(lease, skew))
    plan = AllCallPlan(
        seed=seed,
        members=members,
        roles=rng.choice((1, 1, 2)),
        session_ms=lease,
        sessions=(lease,) * members,
        drift=drift,
        rates=_rates(rng, drift, members),
        storm=rng.uniform(4, 8),
        calm=0.0,
        pace=rng.choice((0.3, 0.6, 1.0)),
        cut=0.0,
        faults=_some(rng, FAULTS, 4),
        acts=_some(rng, ACTS, 2) if rng.random() < 0.5 else {},
        weathers=(CALM,) * members,
        styles=tuple(rng.choice(STYLES) for _ in range(members)),
        barrier=rng.choice((-1.0, 0.0, 0.1, 0.5)),
        barrier_raises=rng.choice((0.0, 0.0, 0.0, 0.3)),
        barrier_timeout=lease / 1000 * rng.choice((1.5, 3.0)),
        starts=tuple(rng.random() < 0.1 for _ in range(members)),
        connect=tuple(rng.choice(("now", "now", "background")) for _ in range(members)),
        step_ms=lease * rng.choice((0.05, 0.1, 0.3)),
        starving=rng.choice((0.0, 0.1, 0.5)),
        starving_by=beat / lease * rng.choice((0.02, 0.1, 0.2)),
        wall_spread=rng.choice((0.0, 0.3 * lease / 1000, 0.3 * lease / 1000, 0.35 * lease / 1000, 60.0)),
        beat_ms=beat,
        skew_ms=skew,
        ranks=tuple(rng.choice((0, 1)) if tied else rank for rank in rng.sample(range(members), members)),
        picky=rng.random() < 0.3,
        order=rng.choice(("lease", "rank")),
        isolated=tuple(rng.choice(alone) for _ in range(members)),
        dawn=0.0,
        reach=rng.choice((0.4, 1.0, 2.0)),
        probes=tuple(rng.choice(PROBES) for _ in range(rng.choice((1, 1, 2)))),
        air=_air(rng, beat, lease),
        kept=rng.random() < 0.3,
    )
    changed = {name: value for name, value in bias.items() if name not in (*FIRST, "air")}
    if "air" in bias:
        changed["air"] = msgspec.structs.replace(plan.air, **bias["air"])
    return _with_times(msgspec.structs.replace(plan, **changed))


def _with_times(plan: AllCallPlan) -> AllCallPlan:
    """When the storm begins, when it ends, and how long the calm lasts. What was drawn as `storm` is its length."""
    bounds = Bounds(plan)
    dawn = DAWN + 2 * bounds.cold / plan.unit
    # The play adds two timeouts of barriers to the calm.
    calm = (bounds.first + len(plan.probes) * bounds.each - 2 * plan.barrier_timeout_ns) / plan.unit
    return msgspec.structs.replace(plan, dawn=dawn, storm=dawn + plan.storm, calm=max(1.0, calm))


def most_drift(lease: int, skew: int) -> float:
    """The skew covers by what two stopwatches part in a lease, and a little more."""
    return min(0.9 * (skew - 2) / (2 * lease + skew), 0.1)


def _rates(rng: Random, drift: float, members: int) -> tuple[float, ...]:
    """As wrong as the skew allows, in half of the seeds."""
    if rng.random() < 0.5:
        return tuple(1 + drift * rng.choice((-1, 1)) for _ in range(members))
    return tuple(1 + drift * rng.uniform(-1, 1) for _ in range(members))


def _some(rng: Random, kinds: tuple[str, ...], most: int) -> dict[str, float]:
    """A few kinds, each with a weight."""
    chosen = rng.sample(kinds, rng.randint(1, most))
    return {kind: rng.choice((1.0, 1.0, 3.0)) for kind in sorted(chosen)}


def _air(rng: Random, beat_ms: int, lease_ms: int) -> Air:
    slow = int(beat_ms * MS * rng.choice((0.005, 0.02, 0.1, 0.3)))
    calm = Air(delay=(slow // 4, slow))
    if rng.random() < 0.4:
        return calm
    chance = rng.choice((0.02, 0.1, 0.2))
    return msgspec.structs.replace(
        calm,
        dropped=chance * rng.choice((0, 1)),
        doubled=chance * rng.choice((0, 1)),
        late=chance * rng.choice((0, 0, 1)) / 2,
        late_by=(slow, lease_ms * MS * rng.choice((1, 3))),
    )
