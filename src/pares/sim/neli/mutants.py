"""Rules of NELI and Fast NELI broken on purpose, one at a time, to see that the simulation would notice.

Each says in which modes it must be noticed. A mutant patches the real core for as long as a simulation runs; what is the rule
of the loop around it, it patches in the simulated process, which does as that does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from pares.core.events import Yielded
from pares.core.neli import classic
from pares.core.neli.budget import Share
from pares.core.neli.classic import Neli
from pares.core.neli.fast import Fast
from pares.core.neli.induced import Induced
from pares.core.neli.partition import Partition
from pares.core.neli.partition_log import Track, Writer
from pares.core.neli.phases import EXCLUSIVE, GIVEN, NON_EXCLUSIVE, STANDING, Act, On, Phase, Row, Table
from pares.sim.engine import MS
from pares.sim.mutant import Mutant, Patch
from pares.sim.neli.process import NeliProcess


class NeliMutant(Struct, frozen=True):
    """A mutant, and the mode in which it shows."""

    mutant: Mutant
    mode: str


def _any_beat_fast() -> list[Patch]:
    def rests_until(self: Fast, part: Any, record: Any, entry: Any, now: int, wall_us: int) -> int:
        return now + self.lease_ns if part.phase in STANDING else 0

    # As in goNELI: no announcement is looked at either, so that the successor's beats keep the old owner alive.
    return [(Fast, "rests_until", rests_until), *_no_announcement()]


def _from_reading() -> list[Patch]:
    def rests_until(self: Fast, part: Any, record: Any, entry: Any, now: int, wall_us: int) -> int:
        return now + self.lease_ns if record.m == self.config.id and part.phase in STANDING else 0

    return [(Fast, "rests_until", rests_until)]


def _no_announcement() -> list[Patch]:
    """The old owner does not look at its successor's announcement."""
    deaf = dict.fromkeys((On.RIVAL, On.RIVAL_LEADS))
    return [(EXCLUSIVE, phase, rows | deaf) for phase, rows in EXCLUSIVE.items()]


def _no_grace() -> list[Patch]:
    def ready_at(self: Any, tenure: Any, stamp_ms: int, now: int) -> int:
        return now

    return [(Fast, "ready_at", ready_at), (Neli, "ready_at", ready_at)]


def _resume() -> list[Patch]:
    """After a fence the old term goes on, with its old token."""
    return _otherwise(EXCLUSIVE, {On.RAN_OUT: (Phase.GRACE, Act.FENCE)})


def _otherwise(table: Table, rows: dict[On, Row | None]) -> list[Patch]:
    """A leader does something else when that happens."""
    return [(table, Phase.LEADING, table[Phase.LEADING] | rows)]


def _local_time() -> list[Patch]:
    def rests_until(self: Neli, part: Any, record: Any, entry: Any, now: int, wall_us: int) -> int:
        own = record.m == self.config.id and part.phase in STANDING
        return now + int(self.config.threshold_ms * MS * (1 - self.config.drift)) if own else 0

    return [(Neli, "rests_until", rests_until)]


def _wall_first() -> list[Patch]:
    return [(NeliProcess, "CLOCKS", ("wall", "stopwatch"))]


def _any_beat_neli() -> list[Patch]:
    def rests_until(self: Neli, part: Any, record: Any, entry: Any, now: int, wall_us: int) -> int:
        left_us = self.config.threshold_ms * 1000 - (wall_us - entry[1] * 1000)
        return now + int(left_us * 1000 * (1 - self.config.drift)) if part.phase in STANDING else 0

    return [(Neli, "rests_until", rests_until)]


def _no_error_bound() -> list[Patch]:
    """The wait for a predecessor leaves out e."""

    def grace(self: Neli, within_ms: int) -> int:
        return int(max(0, within_ms - self.config.error_ms) * MS * (1 + self.config.drift)) + 1

    return [(Neli, "grace_ns", grace)]


def _long_threshold() -> list[Patch]:
    """T + e may be longer than the session: the check is off, and T is three sessions."""
    return [(classic, "check_threshold", lambda config: None)]


def _stop_at_once() -> list[Patch]:
    """NELE: who loses a partition stops before anybody else leads."""
    lingering = NON_EXCLUSIVE[Phase.LINGERING] | {On.RIVAL: (Phase.IDLE, Act.FENCE, Act.OWE)}
    return [
        *_otherwise(NON_EXCLUSIVE, {On.RIVAL: (Phase.SUPERSEDED, Act.FENCE, Act.OWE)}),
        (NON_EXCLUSIVE, Phase.LINGERING, lingering),
    ]


def _revoked_is_lost() -> list[Patch]:
    """The group is let go on before the barrier has returned, and the log is told that the work is over."""

    def answer(self: Partition, effects: list[Any]) -> None:
        if self.revoked and self.owed is None:
            self.revoked = False
            effects.append(Yielded(self.number))

    return [
        *_otherwise(EXCLUSIVE, {On.REVOKED: (Phase.STOPPING, Act.STOP, Act.OWE)}),
        (Partition, "answer", answer),
    ]


def _no_budget() -> list[Patch]:
    """Everybody beats as often as it was told to, whoever else is on the topic."""
    return [(Share, "reckon", lambda *_: None)]


def _budget_wins() -> list[Patch]:
    """However seldom that is."""
    reckon = Share.__dict__["reckon"]

    def unbound(self: Any, *words: Any) -> None:
        self._slowest = None
        reckon(self, *words)

    return [(Share, "reckon", unbound)]


def _any_rival() -> list[Patch]:
    """NELE: whoever goes on reading goes on leading, until it reads that another does."""

    def rests_until(self: Neli, part: Any, record: Any, entry: Any, now: int, wall_us: int) -> int:
        return now + self.threshold_ns if part.phase in GIVEN else 0

    return [(Neli, "rests_until", rests_until)]


def _history_counts() -> list[Patch]:
    """A member that has ever written to the log counts as if it were there when somebody comes."""

    def date(self: Any, now: int) -> None:
        self.around |= {who: Writer(now, writer.due_ms, writer.owns) for who, writer in (self._before or {}).items()}
        self._before = None

    return [(Track, "_date", date)]


def _width_ignored() -> list[Patch]:
    """Members that share out different numbers of partitions do not look at that."""
    fold = Track.__dict__["_fold"]

    def without(self: Track, record: Any, offset: int, stamp_ms: int, now: int) -> None:
        fold(self, record, offset, stamp_ms, now)
        self.width = 0

    return [(Track, "_fold", without)]


def _old_log_not_awaited() -> list[Patch]:
    """Of another log, nobody asks who may still believe by the one before it."""
    jumped = Induced.__dict__["_jumped"]

    def at_once(self: Induced, event: Any, now: int, effects: list[Any]) -> None:
        jumped(self, event, now, effects)
        self.parts[event.partition].broke_until = now

    return [(Induced, "_jumped", at_once)]


def _blindness_not_awaited() -> list[Patch]:
    return [(Track, "blind", lambda self, me: False)]


def _made(name: str, rule: str, what: str, mode: str, patches: Callable[[], list[Patch]], **bias: Any) -> NeliMutant:
    return NeliMutant(Mutant(name, rule, what, patches, bias), mode)


_CUTS = {"oblivious": 3.0, "freeze_buffered": 1.0, "cut_log": 1.0}
_LATE: dict[str, Any] = {
    "faults": {"lie": 3.0, "cut_log": 3.0, "freeze": 1.0},
    "weather": {"lag": (MS, 200 * MS)},
    "session_ms": 1000,
    "threshold_ms": 500,
    "interval_ms": 50,
    "error_ms": 0,
    "drift": 0.0,
    "pace": 1.5,
    "members": 3,
    "partitions": 1,
    "roles": 1,
    "storm": 40.0,
}
"""Some read the log much later than others."""

MUTANTS: dict[str, NeliMutant] = {
    made.mutant.name: made
    for made in (
        _made("any-beat-re-arms", "fast", "any record keeps an owner alive", "fast-neli", _any_beat_fast, faults=_CUTS),
        _made(
            "beat-from-reading",
            "fast",
            "a beat counts from when it was read, not from when it was sent",
            "fast-neli",
            _from_reading,
            **_LATE,
        ),
        _made(
            "no-announcement",
            "fast",
            "a new owner does not show in the log",
            "fast-neli",
            _no_announcement,
            faults=_CUTS,
        ),
        _made("no-wait", "fast", "a new owner leads at once", "fast-neli", _no_grace, faults=_CUTS | {"lie": 2.0}),
        _made("same-term-resumes", "fast", "a fenced term goes on", "fast-neli", _resume, faults={"outage": 2.0}),
        _made(
            "width-ignored",
            "M",
            "who shares out fewer partitions goes on",
            "fast-neli",
            _width_ignored,
            partitions=4,
            roles=4,
            narrow=2,
        ),
        _made(
            "budget-ignored",
            "budget",
            "groups that share a topic do not divide its beats",
            "fast-neli",
            _no_budget,
            faults={"crash": 1.0},
            neighbours=4,
        ),
        _made(
            "budget-before-deadline",
            "budget",
            "the budget wins where beliefs need more",
            "fast-neli",
            _budget_wins,
            faults={"crash": 1.0},
            neighbours=4,
            budget=1,
        ),
        _made(
            "barrier-not-awaited",
            "fast",
            "a yield is written before the barrier has returned",
            "fast-neli",
            _revoked_is_lost,
            faults={"shuffle": 3.0},
            barrier=0.5,
        ),
        _made(
            "old-log-not-awaited",
            "R12",
            "in a new log nobody waits for who believes by the old one",
            "fast-neli",
            _old_log_not_awaited,
            faults={"broken": 3.0, "freeze": 3.0},
            pace=2.0,
        ),
        _made(
            "blindness-not-awaited",
            "R12",
            "who finds nothing in a log that has lost its beginning leads at once",
            "fast-neli",
            _blindness_not_awaited,
            faults={"forgetful": 3.0, "freeze": 2.0, "crash": 2.0, "oblivious": 1.0},
            pace=2.0,
        ),
        _made(
            "no-grace",
            "neli",
            "a new leader does not wait for T",
            "neli",
            _no_grace,
            faults={"lie": 3.0, "freeze": 1.0, "oblivious": 2.0},
        ),
        _made("local-time", "neli", "V takes the reader's time, not the broker's", "neli", _local_time, **_LATE),
        _made(
            "wall-clock-first",
            "neli",
            "the wall clock is read before the stopwatch, and a pause in between is added to a belief",
            "neli",
            _wall_first,
            faults={"freeze_clocks": 3.0, "cut_all": 2.0, "oblivious": 1.0},
            error_ms=0,
            session_ms=1000,
            threshold_ms=850,
            interval_ms=100,
            drift=0.0,
            pace=1.5,
            members=3,
            partitions=1,
            roles=1,
        ),
        _made(
            "any-beacon-re-arms",
            "neli",
            "exclusive V takes anybody's beacon",
            "neli",
            _any_beat_neli,
            faults={"lie": 2.0, "mute": 2.0, "crash": 1.0},
        ),
        _made(
            "no-clock-error",
            "neli",
            "the wait for a predecessor leaves out e",
            "neli",
            _no_error_bound,
            faults={"lie": 3.0, "freeze_ticked": 1.0, "deaf": 2.0},
            error_ms=300,
            session_ms=1000,
            threshold_ms=600,
            interval_ms=40,
            pace=1.5,
            partitions=1,
            roles=1,
            extreme=True,
        ),
        _made(
            "threshold-above-session",
            "neli",
            "T + e is not below the session",
            "neli",
            _long_threshold,
            faults={"crash": 1.0},
            session_ms=500,
            threshold_ms=1500,
            interval_ms=100,
        ),
        _made(
            "stop-at-once",
            "nele",
            "who loses a partition stops before anybody leads",
            "nele",
            _stop_at_once,
            faults={"shuffle": 3.0},
        ),
        _made(
            "rival-ignored",
            "nele",
            "who has read that another announced itself is kept alive by any beacon",
            "nele",
            _any_rival,
            faults={"lie": 3.0, "oblivious": 2.0},
            weather={"slow": 0.7, "slow_by": (MS, 3000 * MS), "timeout": 4000 * MS},
            session_ms=500,
            threshold_ms=700,
            interval_ms=70,
            members=3,
            partitions=1,
            roles=1,
            neighbours=0,
            pace=1.5,
        ),
        _made(
            "history-counts",
            "budget",
            "who has long gone shares the budget, for whoever comes",
            "nele",
            _history_counts,
            faults={"crash": 1.0},
            neighbours=1,
            pace=1.5,
        ),
    )
}
"""All of them, by name."""
