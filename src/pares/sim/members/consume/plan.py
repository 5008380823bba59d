"""What a seed stands for when consumers are played: see `members.plan`."""

from __future__ import annotations

from random import Random
from typing import Any, Final, Literal

from pares.sim.members import plan as claims
from pares.sim.members.plan import Plan

FAULTS: Final = (
    *claims.ALIKE,
    "nothing_back",
    "outage",
    "half",
    "close",
    "replay",
    "trim",
    "rate",
    "wall",
)
"""All but those after which the log is not what it was: positions go with it."""
ACTS: Final = ("hand_over", "step_down", "pause", "resume", "ask", "rewind", "move")


class ConsumePlan(Plan, frozen=True, kw_only=True):
    """One play. `protocol`: consume. Its members are consumers."""

    delivery: Literal["at-least-once", "at-most-once"]
    partitions: int
    records: float
    """How many come in each partition, in a session."""
    batch: int
    ahead: int
    """Batches that are taken before anybody asks for them, at most once."""
    workers: int
    """Tasks of each consumer's user that iterate over batches."""
    out: int
    """Batches that each of them has in its hands before it is done with one of them, in any order."""
    most: tuple[int, ...] = ()
    """Partitions that each consumer takes at most; 0: any number. Empty: all 0."""
    greedy: tuple[bool, ...] = ()
    whole: bool = False
    ranges: bool = False
    slots: int = 4
    """Of each partition, with ranges."""
    divided: tuple[int, ...] = ()
    """By keys, into so many slots by each consumer; 0: it takes whole partitions. Empty: all of them do."""
    unreadable: float = 0.0
    """How often the topic does not answer, or the database of those who work can not commit."""
    flushes: float = 0.0
    """How often a worker flushes after a batch."""
    transactions: bool = False
    """What handlers write stands in a database, in one transaction with which records it is of."""
    one_by_one: bool = False
    """Records are given out one by one, and not as batches."""
    order: Literal["partition", "key", "none"] = "partition"
    concurrency: int = 1
    keys: int = 3
    """How many there are."""
    fails: float = 0.0
    """How often a handler asks for a retry."""
    rejects: float = 0.0
    """How often it gives a record up."""
    retries: int = 2

    @property
    def mixed(self) -> bool:
        """Whether consumers divide partitions in several ways (C12)."""
        return len(set(self.divided)) > 1


def draw(seed: int, bias: dict[str, Any] | None = None) -> ConsumePlan:
    """The plan of a seed. `bias` replaces some of it, to make a trouble likely."""
    rng, bias = Random(f"{seed}/consume"), dict(bias or {})
    mine = set(ConsumePlan.__struct_fields__) - set(Plan.__struct_fields__)
    own = {name: bias.pop(name) for name in list(bias) if name in mine}
    plain = {"faults": claims._some(rng, FAULTS, 4)}  # pyright: ignore[reportPrivateUsage]
    plain["acts"] = claims._some(rng, ACTS, 3) if rng.random() < 0.6 else {}  # pyright: ignore[reportPrivateUsage]
    usual: dict[str, Any] = {"seats": 1, "overlap_ms": 0, "barrier": -1.0, "barrier_raises": 0.0}
    base = claims.draw(seed, {**usual, **plain, **bias})
    members = base.members
    fields: dict[str, Any] = {name: getattr(base, name) for name in Plan.__struct_fields__}
    drawn: dict[str, Any] = {
        "delivery": rng.choice(("at-least-once", "at-most-once")),
        "partitions": rng.choice((1, 2, 3, 4, 6)),
        "records": rng.choice((1.0, 5.0, 20.0)),
        "batch": rng.choice((1, 3, 10)),
        "workers": rng.choice((1, 1, 2)),
        "out": rng.choice((1, 1, 3)),
        "most": tuple(rng.choice((0, 1, 2)) for _ in range(members)) if rng.random() < 0.2 else (),
        "greedy": tuple(rng.random() < 0.5 for _ in range(members)) if rng.random() < 0.15 else (),
        "whole": rng.random() < 0.15,
        "unreadable": rng.choice((0.0, 0.0, 0.05)),
        "flushes": rng.choice((0.0, 0.0, 0.3)),
    }
    drawn["ahead"] = Random(f"{seed}/ahead").choice((0, 1, 4))
    ranges = Random(f"{seed}/ranges")
    drawn |= {"ranges": not drawn["whole"] and ranges.random() < 0.3, "slots": ranges.choice((1, 2, 4, 7))}
    keyed = Random(f"{seed}/keys")
    slots, others = keyed.choice((1, 2, 3, 5)), keyed.choice(((0,), (0, 4), (7,)))
    mixed = keyed.random() < 0.6
    drawn["divided"] = ()
    if keyed.random() < 0.4 and not drawn["whole"] and not drawn["ranges"]:
        drawn["divided"] = tuple(keyed.choice(others) if mixed and place % 2 else slots for place in range(members))
    items = Random(f"{seed}/records")
    drawn |= {
        "one_by_one": items.random() < 0.5,
        "order": items.choice(("partition", "key", "none")),
        "concurrency": items.choice((1, 2, 5)),
        "keys": items.choice((1, 3, 10)),
        "fails": items.choice((0.0, 0.1, 0.3)),
        "rejects": items.choice((0.0, 0.05)),
        "retries": items.choice((0, 1, 3)),
    }
    if drawn["divided"] and drawn["order"] == "none":
        drawn["order"] = "key"
    told = {**drawn, **own}
    fit = told["delivery"] == "at-least-once" and not told["one_by_one"] and len(set(told["divided"])) < 2
    drawn["transactions"] = fit and Random(f"{seed}/transactions").random() < 0.5
    if drawn["divided"] or ({**drawn, **own}["delivery"] != "at-most-once"):
        drawn["ahead"] = 0
    fields |= {"protocol": "consume", "admin": True, "starts": (False,) * members, "connect": ("now",) * members}
    fields |= {"roles": 0, "styles": ("terms",) * members, "warm": (), "releases": ()}
    steps = {"step_ms": base.session_ms * rng.choice((0.01, 0.05, 0.3)) if "step_ms" not in bias else base.step_ms}
    return ConsumePlan(**{**fields, **drawn, **steps, **own})
