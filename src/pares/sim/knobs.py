"""What a seed stands for: one frozen value, drawn from it, that says everything about a simulation before it begins.

Not every fault in every seed: a seed switches most of them off ("swarm testing"), for a world in which everything fails at
once hides what goes wrong when only one thing does. All lengths of time are in units of the group's typical session, so that
a group with sessions of 20 ms and one with sessions of seconds meet the same troubles.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final

import msgspec
from msgspec import Struct

from pares.sim.engine import MS
from pares.sim.wire import Weather

FAULTS: Final = (
    "crash",
    "freeze",
    "freeze_inside",
    "deaf",
    "mute",
    "cut",
    "one_way",
    "outage",
    "stall",
    "replay",
    "garbage",
    "forge",
    "future",
    "twin",
    "close",
    "ready",
    "late_joiner",
    "trim",
    "replace",
    "barrier",
    "wall",
)
"""What can befall a group, apart from what weather does to single appends."""

RARELY: Final = 0.3
"""Of the seeds, how many have each of the troubles below. All are drawn by chance of their own, after everything else, so that
a seed without them is the same whether they exist or not."""

RARE: Final = ("half", "loop", "names", "freeze_fetch", "consume", "false_snapshot", "forgetful")
"""Faults of that kind: half of the members die in one instant; a process starts and dies again and again, under its name or
under another one each time; one stands still while it waits for a fetch; who holds a seat, or held it once, writes what it
takes of its work and what is done (R15); somebody who is no member writes a snapshot of another world; the log keeps far less
than it should."""

STARTS: Final = ("ready", "later", "never", "flaps")
"""How ready a member is when it starts: at once; after a while; never; now and then."""

ACTS: Final = (
    "pause",
    "resume",
    "ask",
    "drain",
    "rewind",
    "mark",
    "add_role",
    "change_role",
    "remove_role",
    "hand_over",
    "step_down",
)
"""What users and administrators do."""


OURS: Final = ((1, 1),)
ROLLS: Final = (
    ((1, 1), (1, 2), (2, 2), (1, 2), (2, 2)),
    ((1, 1), (2, 2), (1, 1), (2, 2)),
    ((1, 2), (2, 2), (1, 2)),
)
"""Releases that follow one another, by what they write and read of the format: over one that reads both, or without it."""


class Knobs(Struct, frozen=True):
    """One simulation."""

    seed: int
    members: int
    roles: int
    seats: tuple[int, ...]
    """How many seats each role has."""
    session_ms: int
    """The typical session."""
    sessions: tuple[int, ...]
    """Each member's session, in milliseconds."""
    drift: float
    """The largest drift of any member's stopwatch."""
    drifts: tuple[float, ...]
    """What each member grants its own stopwatch, and what it keeps to."""
    extreme: bool
    """Stopwatches run as fast or as slow as drift allows, and not somewhere in between."""
    overlap_ms: int
    storm: float
    """How long faults happen, in sessions."""
    calm: float
    """How long the group then has to itself, in sessions."""
    pace: float
    """Faults a session."""
    cut: float
    """How long somebody stays deaf, mute or cut off, at most, in sessions."""
    faults: dict[str, float]
    """Weight of each kind of fault, if it is on."""
    acts: dict[str, float]
    weather: Weather
    proof: bool
    proof_delay_ms: float
    ranks: bool
    hosts: int
    weights: bool
    picky: bool
    """Members are eligible for different roles."""
    settle: float
    barrier: float
    """How long barriers take, at most, in sessions."""
    barrier_timeout: float
    retention: float | None
    """Sessions (the longest ones) that the log is kept; None: for ever."""
    trims: bool
    """Whether what stands before a snapshot that all agree with goes when it is a session old."""
    neighbours: int
    """Members of another group in the same partition."""
    begin: int
    """Where the log begins."""
    wall_spread: float
    """How far wall clocks are apart, in seconds."""
    admin: bool
    scale: dict[str, int]
    """Constants of the format and of the kernel that are smaller here, so that a short history meets what takes a long one."""
    releases: tuple[tuple[int, int], ...] = OURS
    """(writes, reads) of the releases that members run one after the other while the storm lasts (R11)."""
    slow: tuple[float, ...] = ()
    """Each member's round trip, for its whole life, in its own sessions; 0: as the weather has it. Empty: all 0."""
    starts: tuple[str, ...] = ()
    """How ready each member is whenever it starts, of `STARTS`. Empty: all are ready at once."""
    warm_up: float = 1.0
    """How long, at most, until a member of "later" is ready, and one of "flaps" changes its mind, in sessions."""

    @property
    def steady(self) -> bool:
        """Whether members are as able and as ready for their whole life as at their start."""
        return not any(self.slow) and set(self.starts) <= {"ready"}

    @property
    def alike(self) -> bool:
        """Whether all members, and all seats, are alike: then it is plain what placement should do."""
        unlike = (
            not self.steady
            or self.ranks
            or self.weights
            or self.picky
            or self.hosts
            or self.acts
            or len(set(self.drifts)) > 1
        )
        namesakes = "twin" in self.faults  # who has the name of the dead comes before the balance (R8)
        return not unlike and not namesakes and all(seats == 1 for seats in self.seats)

    @property
    def healthy(self) -> bool:
        """Whether the ledger does what it is told, at once; and nobody writes in the name of others."""
        w = self.weather
        rough = w.slow or w.unknown or w.lost or w.silent or w.stall or w.part
        return not rough and "forge" not in self.faults

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()


def draw(seed: int, bias: dict[str, Any] | None = None) -> Knobs:
    """The knobs of a seed. `bias` replaces some of them, to make a trouble likely; of the weather only what it names, with
    `timeout` in sessions."""
    rng = Random(f"{seed}/knobs")
    bias = dict(bias or {})
    changing = bool(bias)
    base = bias.pop("session_ms", None) or rng.choice((20, 50, 100, 300, 500, 1000, 1000, 1000, 3000))
    members = bias.get("members") or rng.choice((3, 3, 3, 3, 4, 4, 4, 5, 5, 6, 8))
    roles = bias.get("roles") or rng.choice((1, 1, 2, 2, 3, 4, 6))
    plain = rng.random() < 0.3
    """All members and all roles alike: only then can it be counted what a move of work was good for."""
    seats = tuple(1 if plain else rng.choice((1, 1, 1, 2, 3)) for _ in range(roles))
    overlap = rng.random() < 0.2
    drift = rng.choice((0.1, 0.1, 0.1, 0.01, 0.2, 0.0))
    drifts = tuple(rng.choice((0.0, 0.05, 0.1, 0.3)) if drift == 0.2 else drift for _ in range(members))
    knobs = Knobs(
        seed=seed,
        members=members,
        roles=roles,
        seats=seats,
        session_ms=base,
        sessions=_sessions(rng, base, members),
        drift=max(drifts),
        drifts=drifts,
        extreme=rng.random() < 0.5,
        overlap_ms=int(base * rng.uniform(0.1, 2)) if overlap else 0,
        storm=rng.uniform(10, 20),
        calm=rng.uniform(8, 11),
        cut=rng.choice((2.0, 8.0, 8.0, 14.0)),
        pace=rng.choice((0.2, 0.5, 1.0, 1.5)),
        faults=_some(rng, FAULTS, 5),
        acts=_some(rng, ACTS, 4) if rng.random() < 0.8 and not plain else {},
        weather=_weather(rng, base),
        proof=rng.random() < 0.4,
        proof_delay_ms=base * rng.choice((0.002, 0.05)),
        ranks=rng.random() < 0.2 and not plain,
        hosts=0 if plain else rng.choice((0, 1, 2, 3)),
        weights=rng.random() < 0.2 and not plain,
        picky=rng.random() < 0.3 and not plain,
        settle=rng.choice((0.2, 0.5, 0.5, 1.0)),
        barrier=rng.choice((0.0, 0.0, 0.02, 0.3)),
        barrier_timeout=rng.choice((0.5, 2.0, 4.0)),
        retention=rng.choice((None, None, 10.0, 12.0)),
        trims=rng.random() < 0.5,
        neighbours=rng.choice((0, 0, 0, 0, 0, 2)),
        begin=rng.choice((0, 0, 0, 0, 0, 0, 0, 1000)),
        wall_spread=rng.choice((0.0, 1.0, 3600.0)),
        admin=rng.random() < 0.5,
        scale=_scale(rng) if rng.random() < 0.4 else {},
        releases=_releases(seed),
    )
    # A caller that asks for one kind of trouble gets no other beside it.
    knobs = msgspec.structs.replace(knobs, **_rare(knobs, 0.0 if changing else RARELY))
    changed = {name: value for name, value in bias.items() if name not in ("members", "roles")}
    if "weather" in changed:
        weather = dict(changed["weather"])
        if "timeout" in weather:
            weather["timeout"] = int(weather["timeout"] * base * MS)
        changed["weather"] = msgspec.structs.replace(knobs.weather, **weather)
    return msgspec.structs.replace(knobs, **changed) if changed else knobs


def _some(rng: Random, kinds: tuple[str, ...], most: int) -> dict[str, float]:
    """A few of the kinds, with weights."""
    chosen = rng.sample(kinds, rng.randint(1, most))
    return {kind: rng.choice((1.0, 1.0, 3.0)) for kind in sorted(chosen)}


def _sessions(rng: Random, base: int, members: int) -> tuple[int, ...]:
    mix = rng.random()
    if mix < 0.6:
        return (base,) * members
    spread = (0.5, 1.0, 2.0) if mix < 0.9 else (0.25, 1.0, 4.0)
    return tuple(max(20, int(base * rng.choice(spread))) for _ in range(members))


def _scale(rng: Random) -> dict[str, int]:
    choices = {"forget": (60, 150, 400), "window": (8, 40), "text": (300, 1000), "batch": (1, 3), "place": (4, 8)}
    chosen = rng.sample(sorted(choices), rng.randint(1, 3))
    return {name: rng.choice(choices[name]) for name in sorted(chosen)}


def _releases(seed: int) -> tuple[tuple[int, int], ...]:
    """By chance of its own, so that all else in a seed is as it was before there were any."""
    rng = Random(f"{seed}/releases")
    return rng.choice(ROLLS) if rng.random() < 0.1 else OURS


def _rare(knobs: Knobs, chance: float = RARELY) -> Mapping[str, Any]:
    """The knobs of members that are slow, or not ready, for their whole life, and of faults that befall many at once, or one
    again and again. One member at least is quick, and one (perhaps another) ready."""
    found: dict[str, Any] = {}
    rng, count = Random(f"{knobs.seed}/slow"), knobs.members
    if rng.random() < chance:
        slow = [round(rng.uniform(0.3, 2), 2) for _ in range(rng.randint(1, count - 1))]
        found["slow"] = _dealt(rng, slow, 0.0, count)
    rng = Random(f"{knobs.seed}/starts")
    if rng.random() < chance:
        starts = [rng.choice(STARTS[1:]) for _ in range(rng.randint(1, count - 1))]
        found["starts"], found["warm_up"] = _dealt(rng, starts, "ready", count), rng.choice((0.1, 0.5, 2.0, 6.0))
    if found:
        found["calm"] = knobs.calm + 8  # what is never over must be seen to go on
    for kind in RARE:
        rng = Random(f"{knobs.seed}/{kind}")
        if rng.random() < chance:
            found["faults"] = {**found.get("faults", knobs.faults), kind: rng.choice((1.0, 1.0, 3.0))}
            if kind == "names":
                found["scale"] = {**knobs.scale, "keep": rng.choice((2, 4))}
    return found


def _dealt(rng: Random, some: list[Any], others: Any, count: int) -> tuple[Any, ...]:
    dealt = [*some, *[others] * (count - len(some))]
    rng.shuffle(dealt)
    return tuple(dealt)


def _weather(rng: Random, base: int) -> Weather:
    """Delays in proportion to the session; single appends fail in some seeds only."""
    unit = base * MS
    quick = rng.choice((0.002, 0.01, 0.05))
    rough = rng.random()
    chances: dict[str, Any] = {}
    if rough > 0.4:
        chance = rng.choice((0.01, 0.05, 0.15))
        for kind in rng.sample(
            ("slow", "unknown", "lost", "silent", "doubled", "copied", "stall", "part", "hole"), rng.randint(1, 4)
        ):
            chances[kind] = chance
    return Weather(
        send=(int(quick * unit / 4), int(quick * unit)),
        ack=(int(quick * unit / 4), int(quick * unit)),
        lag=(int(quick * unit / 8), int(quick * unit / 2)),
        timeout=int(rng.choice((0.3, 0.6, 1.2)) * unit),
        slow_by=(int(0.1 * unit), int(1.2 * unit)),
        late_by=(int(0.1 * unit), int(3 * unit)),
        stall_by=(int(0.05 * unit), int(0.6 * unit)),
        blocking=rng.random() < 0.5,
        **chances,
    )
