"""What a seed stands for: one frozen value that says everything about a play before it begins.

Not every fault in every seed: a seed switches most of them off, for a world in which everything fails at once hides what goes
wrong when only one thing does. Lengths of time are in sessions (the group's typical one), unless their names say otherwise.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec
from msgspec import Struct

from pares.sim.engine import MS
from pares.sim.members.rare import rare
from pares.sim.world.logs.link import Weather, slowed

STYLES: Final = ("terms", "background", "only", "wait", "poll")
"""How a user's program does the work of a role."""

ALIKE: Final = (
    "crash",
    "crash_at",
    "freeze",
    "freeze_at",
    "starve",
    "starve_at",
    "raise_at",
    "cut",
    "deaf",
    "mute",
    "one_way",
)
"""Faults that befall members of every protocol on a log. The faults of other plans begin with these, in this order, as a seed
draws by it."""
FAULTS: Final = (
    *ALIKE,
    "outage",
    "half",
    "close",
    "ready",
    "replay",
    "replace",
    "trim",
    "rate",
    "wall",
    "lose_lock",
)
ACTS: Final = ("hand_over", "step_down", "pause", "resume", "drain", "mark", "ask")


class Plan(Struct, frozen=True, kw_only=True):
    """One play. Other protocols derive from it, and leave what is only of claims as it is."""

    seed: int
    protocol: str = "claims"
    members: int
    roles: int
    session_ms: int
    sessions: tuple[int, ...]
    """Each member's, in milliseconds."""
    drift: float
    """What all grant their stopwatches, and keep to."""
    rates: tuple[float, ...]
    """At which each stopwatch runs at first."""
    storm: float
    calm: float
    pace: float
    """Faults a session."""
    cut: float
    """How long somebody stays deaf, mute or cut off, at most."""
    faults: dict[str, float]
    acts: dict[str, float]
    act_pace: float = 0.5
    """Acts a session."""
    skip: dict[str, tuple[int, ...]] = {}
    """Faults ("storm") and acts ("acts") that don't happen, by their numbers: what a seed was shrunk by."""
    weathers: tuple[Weather, ...]
    """Each member's."""
    machines: int = 1
    styles: tuple[str, ...]
    """Each member's."""
    barrier: float = -1.0
    """How long barriers take, at most; below 0: there are none."""
    barrier_raises: float = 0.0
    """How often a barrier raises."""
    barrier_timeout: float
    """Seconds."""
    starts: tuple[bool, ...]
    """Whether each member is asked if it is ready, and is not when it starts."""
    connect: tuple[str, ...]
    step_ms: float
    """How long one step of work takes, on average."""
    starving: float = 0.0
    """How likely a woken task comes back late, all the time; and how late at most, in sessions."""
    starving_by: float = 0.0
    wall_spread: float = 0.0
    """How far wall clocks are apart, in seconds."""
    bells: bool = True
    stamps: bool = False
    """Whether appends are stamped with the stopwatch of their writers, which those of one machine share (R21)."""
    arrivals: bool = False
    """Whether readers' handles note when entries come, so that beats need wake nobody in a small group (R21)."""
    apart: tuple[bool, ...] = ()
    """Whether each member is in a time namespace of its own: its stopwatch is no other's. Empty: none is."""
    overlap_ms: int = 0
    seats: int = 1
    proof: bool = False
    witnesses: int = 0
    """Of each machine (R22)."""
    shared: bool = False
    """Whether machines see each other's lock files, and not the locks on them."""
    settle: float = 0.5
    neighbours: bool = False
    """Whether each process has a second member, of another group on the same log."""
    slow: tuple[float, ...] = ()
    """Each member's round trip, for its whole life, in its own sessions; 0: as its weather has it. Empty: all 0."""
    burden_us: int = 0
    """Microseconds for which a machine works for each record that a process on it reads, one after the other: a burst of
    records makes all of its members late."""
    warm: tuple[str, ...] = ()
    """How ready each member is whenever it starts, of `STARTS`. Empty: as `starts` says, until the calm."""
    warm_up: float = 1.0
    """How long, at most, until a member of "later" is ready, and one of "flaps" changes its mind, in sessions."""
    admin: bool = False
    """Whether there is an administrator, who does most of what users can ask for from outside."""
    ranks: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    zones: bool = False
    eligible: tuple[int, ...] = ()
    """Each member's rank and weight; whether they name a zone; and of how many of the roles each may hold a seat."""
    begin: int = 0
    """Where the log begins."""
    scale: dict[str, int] = {}
    """Constants of the format and of the core that are smaller here (`scale.SCALED`): what takes long comes soon."""
    releases: tuple[tuple[int, int], ...] = ()
    """(writes, reads) of the releases that members run one after the other while the storm lasts (R11). Empty: this one's."""

    @property
    def unit(self) -> int:
        """A session, in nanoseconds."""
        return self.session_ms * MS

    @property
    def barrier_timeout_ns(self) -> int:
        return int(self.barrier_timeout * 1e9)

    @property
    def barrier_ns(self) -> int:
        return int(max(0.0, self.barrier) * self.unit)

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()


def draw(seed: int, bias: dict[str, Any] | None = None) -> Plan:
    """The plan of a seed. `bias` replaces some of it, to make a trouble likely."""
    rng, bias = Random(f"{seed}/plan"), dict(bias or {})
    session = bias.get("session_ms") or rng.choice((50, 100, 200, 300, 500, 1000))
    members = bias.get("members") or rng.choice((2, 2, 3, 3, 3, 4, 5))
    drift = bias.get("drift", rng.choice((0.1, 0.1, 0.05, 0.01, 0.0)))
    overlap = rng.random() < 0.15
    plan = Plan(
        seed=seed,
        members=members,
        roles=rng.choice((1, 1, 2, 3)),
        seats=rng.choice((1, 1, 1, 2)),
        session_ms=session,
        sessions=_sessions(rng, session, members),
        drift=drift,
        rates=_rates(rng, drift, members),
        overlap_ms=int(session * rng.uniform(0.1, 1.5)) if overlap else 0,
        storm=rng.uniform(6, 14),
        calm=rng.uniform(9, 12),
        pace=rng.choice((0.3, 0.6, 1.2)),
        cut=rng.choice((2.0, 6.0)),
        faults=_some(rng, FAULTS, 5),
        acts=_some(rng, ACTS, 3) if rng.random() < 0.6 else {},
        weathers=_weathers(rng, session, members),
        bells=rng.random() < 0.9 or session < 300,
        proof=rng.random() < 0.5,
        machines=rng.choice((1, 1, 2)),
        styles=tuple(rng.choice(STYLES) for _ in range(members)),
        barrier=rng.choice((-1.0, -1.0, 0.0, 0.02, 0.3)),
        barrier_raises=rng.choice((0.0, 0.0, 0.0, 0.3)),
        barrier_timeout=session / 1000 * rng.choice((0.5, 2.0, 4.0)),
        settle=rng.choice((0.2, 0.5, 0.5, 1.0)),
        starts=tuple(rng.random() < 0.15 for _ in range(members)),
        connect=tuple(rng.choice(("now", "now", "background")) for _ in range(members)),
        step_ms=session * rng.choice((0.01, 0.05, 0.3)),
        starving=rng.choice((0.0, 0.0, 0.01, 0.05)),
        starving_by=rng.choice((0.02, 0.2, 1.0)),
        wall_spread=rng.choice((0.0, 0.0, 1.0, 3600.0)),
    )
    if not bias:  # a plan that was asked for a trouble of its own gets no other beside it
        plan = msgspec.structs.replace(plan, **rare(seed, members, plan.roles, plan.unit, plan.faults, plan.acts))
    changed = {name: value for name, value in bias.items() if name not in ("session_ms", "members", "drift", "weather")}
    if "weather" in bias:
        weathers = (msgspec.structs.replace(weather, **bias["weather"]) for weather in plan.weathers)
        changed["weathers"] = tuple(weathers)
    plan = msgspec.structs.replace(plan, **changed) if changed else plan
    return msgspec.structs.replace(plan, weathers=_slowed(plan)) if any(plan.slow) else plan


def _slowed(plan: Plan) -> tuple[Weather, ...]:
    """Where the time is lost differs from one slow member to another."""
    shares = Random(f"{plan.seed}/shares")
    found: list[Weather] = []
    for place, weather in enumerate(plan.weathers):
        trip, share = plan.slow[place % len(plan.slow)], shares.choice((0.1, 0.5, 0.9))
        found.append(slowed(weather, int(trip * plan.sessions[place] * MS), share) if trip else weather)
    return tuple(found)


def _some(rng: Random, kinds: tuple[str, ...], most: int) -> dict[str, float]:
    chosen = rng.sample(kinds, rng.randint(1, most))
    return {kind: rng.choice((1.0, 1.0, 3.0)) for kind in sorted(chosen)}


def _sessions(rng: Random, base: int, members: int) -> tuple[int, ...]:
    spread = (1.0,) if rng.random() < 0.6 else (0.5, 1.0, 2.0)
    return tuple(max(20, int(base * rng.choice(spread))) for _ in range(members))


def _rates(rng: Random, drift: float, members: int) -> tuple[float, ...]:
    """As wrong as drift allows, in half of the seeds."""
    if rng.random() < 0.5:
        return tuple(1 + drift * rng.choice((-1, 1)) for _ in range(members))
    return tuple(1 + drift * rng.uniform(-1, 1) for _ in range(members))


def _weathers(rng: Random, base: int, members: int) -> tuple[Weather, ...]:
    """Delays in proportion to the session; one for all, or one for each."""
    if rng.random() < 0.5:
        return (_weather(rng, base),) * members
    return tuple(_weather(rng, base) for _ in range(members))


def _weather(rng: Random, base: int) -> Weather:
    unit = base * MS
    quick = rng.choice((0.001, 0.005, 0.02, 0.08))
    chances: dict[str, float] = {}
    if rng.random() > 0.4:
        chance = rng.choice((0.01, 0.05, 0.15))
        kinds = (
            "slow",
            "unknown",
            "lost",
            "silent",
            "doubled",
            "copied",
            "hole",
            "part",
            "split",
            "torn",
            "unreadable",
        )
        chances = dict.fromkeys(rng.sample(kinds, rng.randint(1, 4)), chance)
    return Weather(
        send=(int(quick * unit / 4), int(quick * unit)),
        ack=(int(quick * unit / 4), int(quick * unit)),
        read=(int(quick * unit / 8), int(quick * unit / 2)),
        lag=rng.choice((0, 0, int(quick * unit))),
        timeout=int(rng.choice((0.3, 0.6, 1.2)) * unit),
        slow_by=(int(0.1 * unit), int(1.2 * unit)),
        late_by=(int(0.1 * unit), int(3 * unit)),
        **chances,
    )
