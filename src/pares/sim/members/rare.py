"""Troubles of few seeds, each by chance of its own, so that a seed without them is the same whether they exist or not."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final

STARTS: Final = ("ready", "later", "never", "flaps")
"""How ready a member is when it starts: at once; after a while; never; now and then."""
RARE: Final = {
    "lose_tail": 0.08,
    "garbage": 0.12,
    "forge": 0.08,
    "future": 0.1,
    "false_snapshot": 0.1,
    "consume": 0.12,
    "twin": 0.12,
    "half": 0.1,
    "loop": 0.1,
    "names": 0.1,
    "double": 0.15,
    "barrier": 0.1,
    "forgetful": 0.08,
    "nothing_back": 0.1,
    "tamper": 0.08,
}
"""Faults of few seeds, and of how many."""
RARE_ACTS: Final = ("add_role", "change_role", "remove_role", "rewind", "move", "drain_other")
"""What administrators do: members could do it too."""
ROLLS: Final = (
    ((1, 1), (1, 2), (2, 2), (1, 2), (2, 2)),
    ((1, 1), (2, 2), (1, 1), (2, 2)),
    ((1, 2), (2, 2), (1, 2)),
)
"""Releases that follow one another, by what they write and read of the format: over one that reads both, or without it."""


def rare(
    seed: int, count: int, roles: int, unit: int, faults: dict[str, float], acts: dict[str, float]
) -> Mapping[str, Any]:
    """What of a plan such troubles replace. `count`: of members; `unit`: a session, in nanoseconds."""
    found: dict[str, Any] = {}
    rng = Random(f"{seed}/slow")
    if rng.random() < 0.2:  # members that live, and are slow all their life; one at least is quick
        slow = [round(rng.uniform(0.3, 2), 2) for _ in range(rng.randint(1, count - 1))]
        found["slow"] = _dealt(rng, slow, 0.0, count)
    rng = Random(f"{seed}/warm")
    if rng.random() < 0.15:  # members that are not ready when they start; one at least is
        warm = [rng.choice(STARTS[1:]) for _ in range(rng.randint(1, count - 1))]
        found["warm"], found["warm_up"] = _dealt(rng, warm, "ready", count), rng.choice((0.1, 0.5, 2.0, 6.0))
    rng = Random(f"{seed}/neighbours")
    if rng.random() < 0.2:
        found["neighbours"] = True
    rng = Random(f"{seed}/unlike")
    if rng.random() < 0.25:
        found |= _unlike(rng, count, roles)
    rng = Random(f"{seed}/scale")
    if rng.random() < 0.2:
        found["scale"] = _scale(rng)
    rng = Random(f"{seed}/eager")
    if rng.random() < 0.2:  # so few members are a large group
        found["scale"] = {**found.get("scale", {}), "eager": rng.choice((0, 1, 2))}
    rng = Random(f"{seed}/begin")
    if rng.random() < 0.1:
        found["begin"] = 1000
    rng = Random(f"{seed}/releases")
    if rng.random() < 0.1:
        found["releases"] = rng.choice(ROLLS)
    rng = Random(f"{seed}/witnesses")
    if rng.random() < 0.15:
        found |= {"proof": True, "witnesses": rng.choice((1, 1, 2)), "machines": rng.choice((2, 2, 3))}
        found["shared"] = rng.random() < 0.3
    rng = Random(f"{seed}/stamps")
    if rng.random() < 0.5:
        found["stamps"] = True
        if rng.random() < 0.3:
            found["apart"] = tuple(rng.random() < 0.4 for _ in range(count))
    rng = Random(f"{seed}/arrivals")
    if rng.random() < 0.5:
        found["arrivals"] = True
    rng = Random(f"{seed}/admin")
    if rng.random() < 0.3:
        chosen = rng.sample(RARE_ACTS, rng.randint(1, 3))
        found["admin"], found["acts"] = True, {**acts, **dict.fromkeys(sorted(chosen), 1.0)}
    faults = dict(faults)
    for kind, chance in RARE.items():
        rng = Random(f"{seed}/{kind}")
        if rng.random() < chance:
            faults[kind] = rng.choice((1.0, 1.0, 3.0))
            if kind == "names":
                found["scale"] = {**found.get("scale", {}), "keep": rng.choice((2, 4))}
    if "trim" in faults:
        found["scale"] = {**found.get("scale", {}), "trim_every": unit}
    found["faults"] = faults
    return found


def _unlike(rng: Random, count: int, roles: int) -> dict[str, Any]:
    """Members, and roles, of which not all are alike."""
    found: dict[str, Any] = {}
    for kind in rng.sample(("ranks", "weights", "zones", "eligible"), rng.randint(1, 2)):
        if kind == "ranks":
            found[kind] = tuple(rng.randint(0, 2) for _ in range(count))
        elif kind == "weights":
            found[kind] = tuple(rng.choice((1.0, 1.0, 2.0)) for _ in range(count))
        elif kind == "zones":
            found[kind] = True
        else:  # the first one may hold all
            found[kind] = (roles, *(rng.randint(1, roles) for _ in range(count - 1)))
    return found


def _scale(rng: Random) -> dict[str, int]:
    choices = {"forget": (60, 150, 400), "window": (8, 40), "text": (300, 1000), "batch": (1, 3), "place": (4, 8)}
    chosen = rng.sample(sorted(choices), rng.randint(1, 3))
    return {name: rng.choice(choices[name]) for name in sorted(chosen)}


def _dealt(rng: Random, some: list[Any], others: Any, count: int) -> tuple[Any, ...]:
    dealt = [*some, *[others] * (count - len(some))]
    rng.shuffle(dealt)
    return tuple(dealt)
