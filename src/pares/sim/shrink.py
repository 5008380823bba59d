"""A plan that breaks a promise, made smaller while it still breaks that one: so that people have less to read.

What happens has numbers and draws from streams of its own (`members.chance`), so leaving one fault out changes nothing else but
what follows from it. Everything is tried again after each success, until nothing more can be taken away or time is up.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any, Final

import msgspec

from pares.sim.members.plan import Plan
from pares.sim.members.play import Play
from pares.sim.outcome import Outcome

PLAIN: Final[dict[str, Any]] = {
    "neighbours": False,
    "starving": 0.0,
    "barrier_raises": 0.0,
    "barrier": -1.0,
    "overlap_ms": 0,
    "wall_spread": 0.0,
    "machines": 1,
    "seats": 1,
    "admin": False,
    "ranks": (),
    "weights": (),
    "eligible": (),
    "zones": False,
    "scale": {},
    "releases": (),
    "warm": (),
    "slow": (),
    "begin": 0,
}
"""What makes a plan plain; protocols that have none of it are left as they are."""
ROUTINE: Final = frozenset({"beat", "did"})
NOT_OF_MEMBERS: Final = frozenset({"releases", "group_delay"})
"""Of a plan, what may have as many parts as there are members, and is not one's own of each."""
CHUNKS: Final = 3
"""Into so many parts what happens is divided at first: each is left out as a whole."""


class Shrunk(msgspec.Struct, frozen=True):
    """The smallest plan that was found, and what came of it, told. `tried`: how many were played."""

    plan: Plan
    outcome: Outcome
    tried: int


def readable(trace: list[str]) -> list[str]:
    """Without what members write all the time: signs of life, and history for people."""
    return [line for line in trace if line[14:17] != "log" or not ROUTINE.intersection(line.split()[3:5])]


def shrink(plan: Plan, promise: str, seconds: float) -> Shrunk:
    """The smallest that is found in so many seconds of real time."""
    until, tried = perf_counter() + seconds, 1
    _, happened = _played(plan)
    again = True
    while again:
        again = False
        for smaller in _smaller(plan, happened):
            if perf_counter() >= until:
                break
            tried += 1
            outcome, count = _played(smaller)
            if outcome.broken == promise:
                plan, happened, again = smaller, count, True
                break
    return Shrunk(plan, _played(plan, told=True)[0], tried)


def _played(plan: Plan, *, told: bool = False) -> tuple[Outcome, dict[str, int]]:
    """What came of it, and how much happened of each sort until then."""
    played = Play(plan, told=told)
    outcome = played.play()
    return outcome, {chance.name: chance.happened for chance in played.stage.chances}


def _smaller(plan: Plan, happened: dict[str, int]) -> Iterator[Plan]:
    """Plans that have something less, those first that have much less."""
    yield from _changed(plan, faults={}, acts={})
    yield from _changed(plan, acts={})
    yield from _without_times(plan)
    yield from _without_members(plan)
    if plan.roles > 1:
        yield from _changed(plan, roles=plan.roles - 1)
    yield from _without_kinds(plan)
    yield from _fair_weather(plan)
    for name, value in PLAIN.items():
        if hasattr(plan, name):
            yield from _changed(plan, **{name: value})
    yield from _without_events(plan, happened)


def _changed(plan: Plan, **changes: Any) -> Iterator[Plan]:
    changed = msgspec.structs.replace(plan, **changes)
    if changed != plan:
        yield changed


def _without_times(plan: Plan) -> Iterator[Plan]:
    for part in (0.5, 0.8):
        if plan.calm > 1:
            yield from _changed(plan, calm=round(plan.calm * part, 3))
        if plan.storm > 1:
            yield from _changed(plan, storm=round(plan.storm * part, 3))


def _without_members(plan: Plan) -> Iterator[Plan]:
    """One less: whatever a plan has for each member has one less."""
    if plan.members <= 1:
        return
    for gone in reversed(range(plan.members)):
        changes: dict[str, Any] = {"members": plan.members - 1}
        for field in msgspec.structs.fields(plan):
            value = getattr(plan, field.name)
            if isinstance(value, tuple) and len(value) == plan.members and field.name not in NOT_OF_MEMBERS:
                changes[field.name] = value[:gone] + value[gone + 1 :]
        yield from _changed(plan, **changes)


def _without_kinds(plan: Plan) -> Iterator[Plan]:
    for name in ("faults", "acts"):
        kinds: dict[str, float] = getattr(plan, name)
        for gone in kinds:
            yield from _changed(plan, **{name: {kind: weight for kind, weight in kinds.items() if kind != gone}})


def _fair_weather(plan: Plan) -> Iterator[Plan]:
    """One trouble of the weather less, for all members."""
    chances = {
        field.name for weather in plan.weathers for field in msgspec.structs.fields(weather) if field.default == 0.0
    }
    for name in sorted(chances):
        if any(getattr(weather, name) for weather in plan.weathers):
            fairer = tuple(msgspec.structs.replace(weather, **{name: 0.0}) for weather in plan.weathers)
            yield from _changed(plan, weathers=fairer)


def _without_events(plan: Plan, happened: dict[str, int]) -> Iterator[Plan]:
    """Some of what still happens does not: first large parts of it, then one after the other."""
    for name, count in happened.items():
        skipped = plan.skip.get(name, ())
        left = [number for number in range(count) if number not in skipped]
        size = len(left)
        while size > 1:
            size = -(-size // CHUNKS) if size > CHUNKS else 1
            for first in range(0, len(left), size):
                gone = tuple(sorted((*skipped, *left[first : first + size])))
                yield from _changed(plan, skip={**plan.skip, name: gone})
