"""Mutants of how a log is entered, what is taken of the work, and who is forgotten: R10, R12, R13, R15."""

from __future__ import annotations

from typing import Any, Final

from pares.core.claims import protocol
from pares.core.wire import fold
from pares.core.wire.reader import Reader
from pares.core.wire.records import Done, Take
from pares.sim.engine import MS
from pares.sim.mutant import Mutant, Patch


def _adrift_begins_at_once() -> list[Patch]:
    def no_time(session_ms: int, holder_drift: float, own_drift: float) -> int:
        return 0

    return [(protocol, "challenge_ns", no_time)]


def _adrift_waits_its_own_session() -> list[Patch]:
    drift = protocol.Claims._drift  # pyright: ignore[reportPrivateUsage]

    def own(self: protocol.Claims, wall_us: int, now: int, effects: Any, wakes: Any) -> None:
        self.reader.longest_ms = 0
        drift(self, wall_us, now, effects, wakes)

    return [(protocol.Claims, "_drift", own)]


def _any_snapshot_will_do() -> list[Patch]:
    """A joiner that begins with a snapshot does not look whether its records count in the world that they carry."""
    return [(Reader, "_check_entry", lambda self: setattr(self, "_entered", None))]


def _take_twice() -> list[Patch]:
    def again(world: Any, offset: int, member: Any, record: Take, changes: Any) -> None:
        seat = fold._held_by(world, member, record.seat, record.token)  # pyright: ignore[reportPrivateUsage]
        if seat is not None and record.first <= record.last:
            seat.taken = record.last + 1
            world.marked(seat.seat)

    return [(fold.EFFECTS, Take, again)]  # type: ignore[list-item]


def _done_by_anybody() -> list[Patch]:
    def anybody(world: Any, offset: int, member: Any, record: Done, changes: Any) -> None:
        seat = world.seats.get(record.seat)
        if seat is not None and record.first <= record.last:
            fold._raise_mark(world, seat, record.last + 1)  # pyright: ignore[reportPrivateUsage]

    return [(fold.EFFECTS, Done, anybody)]  # type: ignore[list-item]


def _nobody_forgotten() -> list[Patch]:
    return [(fold, "forget", lambda world, offset, changes: None)]


ADRIFT: Final[dict[str, Any]] = {
    "faults": {"crash": 1.0, "freeze": 2.0, "forgetful": 3.0},
    "acts": {},
    "overlap_ms": 0,
    "pace": 2.5,
    "members": 2,
    "roles": 1,
    "session_ms": 1000,
    "proof": False,
    "admin": False,
    "weather": {"send": (MS, 2 * MS), "ack": (MS, 2 * MS), "read": (MS, 2 * MS), "lag": 0},
}
"""A log that has lost its beginning, so that who comes needs a snapshot, or begins it anew."""

WORKING: Final[dict[str, Any]] = {"faults": {"consume": 3.0, "freeze": 1.0}, "acts": {"hand_over": 1.0}, "pace": 1.5}

ENTRY: Final = (
    Mutant(
        "adrift-begins-at-once",
        "R12",
        "a joiner that finds no way into a log begins it anew at once",
        _adrift_begins_at_once,
        ADRIFT,
    ),
    Mutant(
        "adrift-waits-its-own-session",
        "R12",
        "a joiner that finds no way into a log waits its own session, however long those of others are",
        _adrift_waits_its_own_session,
        {**ADRIFT, "members": 3, "sessions": (2000, 100, 100), "ranks": (0, 1, 1), "storm": 20.0},
    ),
    Mutant(
        "any-snapshot-will-do",
        "R10",
        "a snapshot is begun with, though its records do not count in its world",
        _any_snapshot_will_do,
        {
            "faults": {"false_snapshot": 2.0, "crash": 2.0},
            "scale": {"window": 8},
            "pace": 1.5,
        },
    ),
    Mutant("take-issued-twice", "R15", "what was taken can be taken again", _take_twice, WORKING),
    Mutant("done-by-anybody", "R15", "anybody's word that work is done moves the mark", _done_by_anybody, WORKING),
    Mutant(
        "nobody-forgotten",
        "R13",
        "members that are silent or gone are remembered for ever",
        _nobody_forgotten,
        {"faults": {"crash": 2.0, "close": 1.0}, "scale": {"forget": 60}, "pace": 1.5},
    ),
)
