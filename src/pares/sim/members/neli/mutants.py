"""Rules of NELI, Fast NELI and NELE broken on purpose, one at a time, in the code that ships: see `members.mutants`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from pares.sim.engine import MS
from pares.sim.members.neli import broken_rules as rules
from pares.sim.mutant import Mutant, Patch
from pares.sim.world.logs.link import Weather

SHORT: Final[dict[str, Any]] = {
    "acts": {},
    "starts": (False,) * 4,
    "starving": 0.0,
    "barrier": -1.0,
    "barrier_raises": 0.0,
    "next_door": 0,
    "seats": 1,
    "pace": 1.5,
    "members": 3,
    "storm": 16.0,
    "calm": 2.0,
}
"""A storm, and little else."""
BROKEN_OFF: Final[dict[str, Any]] = {
    **SHORT,
    "native": True,
    "faults": {"oblivious": 3.0, "freeze_at": 1.0, "cut": 1.0},
    "partitions": 1,
    "roles": 1,
}
"""Owners that the group has lost, and that don't notice."""
QUICK: Final = Weather(send=(MS, 2 * MS), ack=(MS, 2 * MS), read=(0, MS), timeout=200 * MS)
LATE: Final[dict[str, Any]] = {
    **SHORT,
    "native": True,
    "faults": {"lie": 3.0, "deaf": 3.0, "freeze": 1.0},
    "session_ms": 1000,
    "threshold_ms": 500,
    "interval_ms": 50,
    "error_ms": 0,
    "wall_spread": 0.0,
    "drift": 0.0,
    "rates": (1.0, 1.0),
    "partitions": 1,
    "roles": 1,
    "members": 2,
    "pace": 3.0,
    "storm": 30.0,
    "weathers": (msgspec.structs.replace(QUICK, lag=250 * MS), QUICK),
}
"""One member reads the log much later than the other."""
LONG: Final[dict[str, Any]] = {
    **SHORT,
    "native": True,
    "session_ms": 300,
    "threshold_ms": 600,
    "interval_ms": 60,
    "partitions": 1,
    "roles": 1,
    "pace": 2.5,
    "storm": 25.0,
}
"""Beliefs that last for longer than the group waits for a member."""
CROWDED: Final[dict[str, Any]] = {
    **SHORT,
    "faults": {"crash": 1.0},
    "next_door": 2,
    "session_ms": 200,
    "drift": 0.1,
    "storm": 4.0,
    "calm": 18.0,
    "members": 2,
}
"""Groups that share a log."""
FORGETFUL: Final[dict[str, Any]] = {
    "native": True,
    "faults": {"forget": 2.0},
    "acts": {"roles": 2.0},
    "partitions": 2,
    "roles": 4,
    "numbers": False,
}
"""Logs that forget everything that stands in them, again and again."""


def _made(name: str, rule: str, what: str, patches: Callable[[], list[Patch]], **bias: Any) -> Mutant:
    return Mutant(name, rule, what, patches, bias)


FAST: Final = (
    _made("any-beat-re-arms", "N4", "any record keeps an owner alive", rules.any_beat_fast, **BROKEN_OFF),
    _made("beat-from-reading", "N8", "a beat counts from when it was read, not sent", rules.from_reading, **LATE),
    _made(
        "no-announcement",
        "N3",
        "an owner does not look at its successor's announcement",
        rules.no_announcement,
        **BROKEN_OFF,
    ),
    _made(
        "no-wait",
        "N2",
        "a new owner leads at once",
        rules.no_grace,
        **BROKEN_OFF | {"faults": {"oblivious": 3.0, "lie": 2.0}},
    ),
    _made("same-term-resumes", "N4", "a fenced term goes on", rules.resume, **SHORT | {"faults": {"outage": 2.0}}),
    _made(
        "late-announcement-counts",
        "N1",
        "a lost announcement that lands late is taken for the newest",
        rules.late_announcement_counts,
        **SHORT | {"native": True, "faults": {"late_announcement": 3.0, "lie": 2.0, "oblivious": 1.0}, "partitions": 1},
    ),
    _made(
        "width-ignored",
        "N7",
        "members that share out fewer partitions go on",
        rules.width_ignored,
        **SHORT | {"faults": {"grow": 3.0, "close": 1.0}, "partitions": 2, "roles": 4, "numbers": True},
    ),
    _made(
        "budget-ignored",
        "budget",
        "groups that share a topic do not divide its beats",
        rules.no_budget,
        **CROWDED | {"threshold_ms": 100, "interval_ms": 4, "partitions": 1, "roles": 1},
    ),
    _made(
        "budget-before-deadline",
        "budget",
        "the budget wins where beliefs need more",
        rules.budget_wins,
        **CROWDED | {"threshold_ms": 60, "interval_ms": 10, "partitions": 4, "roles": 4},
    ),
    _made(
        "barrier-not-awaited",
        "N5",
        "a yield is written before the barrier has returned",
        rules.revoked_is_lost,
        **SHORT | {"native": True, "faults": {"shuffle": 3.0}, "barrier": 0.5, "barrier_timeout": 4.0},
    ),
    _made(
        "old-log-not-awaited",
        "R12",
        "in a new log nobody waits for owners that believe by the old one",
        rules.old_log_not_awaited,
        **LONG | {"faults": {"replace_one": 2.0, "freeze": 3.0, "cut": 2.0, "lie": 3.0}},
    ),
    _made(
        "blindness-not-awaited",
        "R12",
        "a member that finds nothing in a log that has lost its beginning leads at once",
        rules.blindness_not_awaited,
        **LONG | {"faults": {"forget": 3.0, "freeze": 3.0, "crash": 3.0, "cut": 2.0}},
    ),
    _made(
        "beats-wait",
        "N8",
        "a beat waits for an interval after any record of its owner's",
        rules.beats_wait,
        **CROWDED
        | {
            "faults": {"trim": 1.0},
            "threshold_ms": 66,
            "interval_ms": 13,
            "partitions": 4,
            "native": True,
            "pace": 0.1,
        },
    ),
    _made(
        "own-records-are-a-clones",
        "R12",
        "its own records from before make a member stop when its log has lost its tail",
        rules.own_records_are_a_clones,
        **SHORT | {"faults": {"lose_tail": 1.0, "freeze": 1.0}},
    ),
)
NELI: Final = (
    _made(
        "no-grace",
        "N9",
        "a new leader does not wait for T",
        rules.no_grace,
        **BROKEN_OFF | {"faults": {"lie": 3.0, "freeze": 1.0, "oblivious": 2.0}},
    ),
    _made("local-time", "N9", "V takes the reader's time, not the broker's", rules.local_time, **LATE),
    _made(
        "looks-apart",
        "N9",
        "a pause between the looks at two clocks is added to a belief",
        rules.looks_apart,
        **LATE
        | {
            "threshold_ms": 850,
            "interval_ms": 100,
            "faults": {"freeze_at": 2.0, "cut_all": 1.0},
            "pace": 1.5,
            "storm": 60.0,
            "cut": 2.0,
            "at_clocks": True,
            "weathers": (QUICK, QUICK),
        },
    ),
    _made(
        "any-beacon-re-arms",
        "N9",
        "exclusive V takes anybody's beacon",
        rules.any_beat_neli,
        **BROKEN_OFF | {"faults": {"lie": 2.0, "mute": 2.0, "crash": 1.0}},
    ),
    _made(
        "no-clock-error",
        "N9",
        "the wait for a predecessor leaves out e",
        rules.no_error_bound,
        **LATE
        | {
            "faults": {"lie": 3.0, "freeze_at": 1.0, "deaf": 2.0},
            "error_ms": 300,
            "threshold_ms": 600,
            "interval_ms": 40,
            "wall_spread": 0.3,
            "weathers": (QUICK, QUICK),
        },
    ),
    _made(
        "threshold-above-session",
        "N9",
        "T + e is not below the session",
        rules.long_threshold,
        **SHORT
        | {"native": True, "session_ms": 500, "threshold_ms": 1500, "error_ms": 0, "interval_ms": 100}
        | {"faults": {"crash": 1.0}, "storm": 4.0, "calm": 24.0},
    ),
    _made(
        "settled-numbers-unseen",
        "N6",
        "roles that come to a number by the passing of time alone are not led",
        rules.settled_numbers_unseen,
        **FORGETFUL | {"faults": {"forget": 3.0, "crash": 2.0}, "acts": {}, "members": 2},
    ),
    _made(
        "leader-alone-answers",
        "N6",
        "the leader of the partition with the numbers tells them to newcomers, or nobody",
        rules.leader_alone_answers,
        **FORGETFUL,
    ),
)
NELE: Final = (
    _made(
        "stop-at-once",
        "N10",
        "an owner that loses a partition stops before anybody leads",
        rules.stop_at_once,
        **SHORT | {"native": True, "faults": {"shuffle": 3.0}, "partitions": 2},
    ),
    _made(
        "rival-ignored",
        "N10",
        "an owner that has read that another announced itself is kept alive by any beacon",
        rules.any_rival,
        **BROKEN_OFF
        | {
            "faults": {"lie": 4.0, "mute": 1.0},
            "weathers": (msgspec.structs.replace(QUICK, ack=(150 * MS, 250 * MS), timeout=300 * MS),) * 4,
            "session_ms": 500,
            "threshold_ms": 700,
            "interval_ms": 70,
            "members": 4,
            "pace": 2.5,
            "storm": 40.0,
            "cut": 6.0,
        },
    ),
    _made(
        "history-counts",
        "budget",
        "members that have long gone share the budget, in the eyes of a newcomer",
        rules.history_counts,
        **CROWDED
        | {"session_ms": 100, "threshold_ms": 130, "interval_ms": 20, "partitions": 4, "next_door": 0}
        | {"faults": {"crash_at": 3.0, "crash": 1.0}, "members": 4, "pace": 1.5, "storm": 60.0, "calm": 2.0},
    ),
)
MUTANTS: Final[dict[str, dict[str, Mutant]]] = {
    mode: {mutant.name: mutant for mutant in made}
    for mode, made in zip(("fast-neli", "neli", "nele"), (FAST, NELI, NELE), strict=True)
}
"""By the protocol in which they show, and by name."""
