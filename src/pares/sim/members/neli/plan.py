"""What a seed stands for when a group shares out the partitions of a log: NELI, Fast NELI or NELE. See `members.plan`."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec

import pares
from pares.core.neli.protocols import MODES, Mode
from pares.runtime.config.protocols import Partitioned
from pares.sim.engine import MS
from pares.sim.members import plan as claims
from pares.sim.members.plan import Plan
from pares.sim.world.logs.link import Span

FAULTS: Final = (
    *claims.ALIKE,
    "nothing_back",
    "outage",
    "half",
    "close",
    "ready",
    "replay",
    "garbage",
    "barrier",
    "replace",
    "replace_one",
    "trim",
    "forget",
    "rate",
    "late_announcement",
    "grow",
    "cut_group",
)
BY_BROKER: Final = ("oblivious", "cut_all", "shuffle", "lie")
"""What can befall a broker's group."""
BY_CLAIMS: Final = ("lose_lock",)
RARE: Final = {"lose_tail": 0.15, "double": 0.15, "loop": 0.1}
"""Faults of few seeds, and of how many: each by chance of its own, so that other seeds are as they were (`members.rare`)."""
ACTS: Final = ("step_down", "drain", "ask", "roles")
STEERING: Final = ("hand_over", "pause", "resume")
"""What users do where claims share the partitions out."""
MANY: Final = 0.4
"""How many of the logs whose partitions claims share out do many things at once, as SQLite's does. No broker's does."""


class NeliPlan(Plan, frozen=True, kw_only=True):
    """One play. `protocol`: fast-neli, neli (exclusive) or nele (NELI, non-exclusive)."""

    partitions: int
    native: bool
    """A broker shares the partitions out; else claims do."""
    threshold_ms: int
    interval_ms: int
    error_ms: int
    """How far the wall clocks of exclusive NELI's members and the broker's may be apart."""
    stamped: bool
    """Entries carry the broker's time; else that of their writer."""
    group_delay: Span
    """Nanoseconds that a message to or from a broker's coordinator takes."""
    numbers: bool
    """Roles are whole numbers, which are their own; else names, which the log numbers."""
    at_clocks: bool = False
    """Calls that are chosen by their kind are all looks at the wall clock."""
    many_at_once: bool = False
    """Members append to several partitions in one call, and ask of all in one which of them have something new."""
    next_door: int = 0
    """Groups of one member each that share the log, and that nothing befalls."""

    @property
    def law(self) -> Mode:
        """What the protocol is."""
        return MODES[self.protocol]

    @property
    def threshold(self) -> int:
        """T, or Fast NELI's deadline, in nanoseconds."""
        return self.threshold_ms * MS

    @property
    def own(self) -> Partitioned:
        """The protocol with its settings, as it is given to `Member`."""
        t, interval = self.threshold_ms / 1000, self.interval_ms / 1000
        if not self.law.exclusive:
            return pares.Nele(T=t, interval=interval)
        if self.law.by_clocks:
            return pares.Neli(T=t, interval=interval, clock_error=self.error_ms / 1000)
        return pares.FastNeli(heartbeat_timeout=t, poll_interval=interval)


def draw(protocol: str, seed: int, bias: dict[str, Any] | None = None) -> NeliPlan:
    """The plan of a seed. `bias` replaces some of it, to make a trouble likely."""
    rng, bias = Random(f"{seed}/{protocol}/plan"), dict(bias or {})
    law = MODES[protocol]
    session = bias.get("session_ms") or rng.choice((100, 200, 300, 500, 1000))
    members = bias.get("members") or rng.choice((2, 3, 3, 4))
    drift = bias.get("drift", rng.choice((0.1, 0.1, 0.01, 0.0)))
    partitions = bias.get("partitions") or rng.choice((1, 1, 2, 2, 3, 4))
    native = bias.get("native", rng.random() < 0.5)
    seats = 2 if partitions in (2, 4) and not native and rng.random() < 0.25 else 1
    threshold, error = _times(rng, law, session if native or not law.exclusive else int(session / (1 + drift)), bias)
    weathers = claims._weathers(rng, min(session, threshold), members)  # pyright: ignore[reportPrivateUsage]
    faults, acts = (*FAULTS, *BY_BROKER), ACTS
    if not native:
        faults, acts = (*FAULTS, *BY_CLAIMS), (*ACTS, *STEERING)
    plan = NeliPlan(
        seed=seed,
        protocol=protocol,
        members=members,
        roles=rng.choice((1, 2, 2, 4)),
        seats=seats,
        session_ms=session,
        sessions=(session,) * members,
        drift=drift,
        rates=claims._rates(rng, drift, members),  # pyright: ignore[reportPrivateUsage]
        overlap_ms=0,
        storm=rng.uniform(8, 16),
        calm=rng.uniform(10, 13),
        pace=rng.choice((0.3, 0.6, 1.2)),
        cut=rng.choice((2.0, 6.0)),
        faults=claims._some(rng, faults, 4),  # pyright: ignore[reportPrivateUsage]
        acts=claims._some(rng, acts, 2) if rng.random() < 0.4 else {},  # pyright: ignore[reportPrivateUsage]
        weathers=weathers,
        bells=rng.random() < 0.9 or session < 300,
        proof=rng.random() < 0.5,
        machines=rng.choice((1, 2)),
        styles=tuple(rng.choice(claims.STYLES) for _ in range(members)),
        barrier=rng.choice((-1.0, -1.0, 0.0, 0.02, 0.3)),
        barrier_raises=rng.choice((0.0, 0.0, 0.0, 0.3)),
        barrier_timeout=session / 1000 * rng.choice((0.5, 2.0, 4.0)),
        settle=rng.choice((0.2, 0.5, 0.5, 1.0)),
        starts=tuple(rng.random() < 0.1 for _ in range(members)),
        connect=tuple(rng.choice(("now", "now", "background")) for _ in range(members)),
        step_ms=session * rng.choice((0.05, 0.3)),
        starving=rng.choice((0.0, 0.0, 0.01, 0.05)),
        starving_by=rng.choice((0.02, 0.2, 1.0)),
        wall_spread=error / 1000 if law.by_clocks else rng.choice((0.0, 1.0, 3600.0)),
        partitions=partitions,
        native=native,
        threshold_ms=threshold,
        interval_ms=max(1, (threshold - error) // rng.choice((5, 8, 12))),
        error_ms=error,
        stamped=law.by_clocks or rng.random() < 0.5,
        group_delay=(MS // 2, max(MS, int(session * MS * rng.choice((0.005, 0.02))))),
        numbers=rng.random() < 0.5,
        next_door=rng.choice((0, 0, 0, 0, 1, 2)),
    )
    if not bias:  # a plan that was asked for a trouble of its own gets no other beside it
        many = not native and Random(f"{seed}/{protocol}/many").random() < MANY
        plan = msgspec.structs.replace(plan, faults={**plan.faults, **_rare(protocol, seed)}, many_at_once=many)
    changed = {name: value for name, value in bias.items() if name != "weather"}
    if "weather" in bias:
        changed["weathers"] = tuple(msgspec.structs.replace(each, **bias["weather"]) for each in plan.weathers)
    return msgspec.structs.replace(plan, **changed) if changed else plan


def _rare(protocol: str, seed: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind, chance in RARE.items():
        rng = Random(f"{seed}/{protocol}/{kind}")
        if rng.random() < chance:
            found[kind] = rng.choice((1.0, 1.0, 3.0))
    return found


def _times(rng: Random, law: Mode, bound: int, bias: dict[str, Any]) -> tuple[int, int]:
    """T and the error of clocks, in milliseconds."""
    error = 0
    if not law.exclusive:
        threshold = int(bound * rng.uniform(1.2, 3)) + 1
    elif law.by_clocks:
        error = int(bound * rng.choice((0.0, 0.02, 0.1)))
        threshold = int(bound * rng.uniform(0.3, 0.8))
    else:
        threshold = int(bound * rng.choice((0.33, 0.33, 0.6, 1.5)))
    return bias.get("threshold_ms", threshold), bias.get("error_ms", error)
