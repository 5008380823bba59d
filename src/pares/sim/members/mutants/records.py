"""Mutants of what records do to the world: R2, R3, R5, R6, R9, R11, R14, R15, R17, and of snapshots: R10."""

from __future__ import annotations

from typing import Any, Final

from pares.core.wire import fold, reader
from pares.core.wire.records import Did, Release, Resume, Role, Transfer
from pares.core.wire.world import World
from pares.sim.engine import MS
from pares.sim.members.mutants.troubles import CALMLY, FROZEN
from pares.sim.mutant import Mutant, Patch

MOVING: Final[dict[str, float]] = {"hand_over": 1.0, "step_down": 2.0}
"""Seats that go from hand to hand."""


def _no_compare() -> list[Patch]:
    return [(fold, "claim_stands", lambda world, seat, over: True)]


_quick_view = World.quick_view


def _no_quick_view(world: World, member: str) -> Any:
    """No version is old enough for the reader's short way with beats: all records go through `fold`, and so `sender`."""
    members, base, _, me, due = _quick_view(world, member)
    return members, base, -1, me, due


def _late_copies_count() -> list[Patch]:
    def sender(world: World, record: Any) -> Any:
        member = world.members.get(record.m)
        if member is not None and record.b == world.base and record.v <= world.reads:
            return member
        return None

    return [(fold, "sender", sender), (World, "quick_view", _no_quick_view)]


def _version_too_high_counts() -> list[Patch]:
    def sender(world: World, record: Any) -> Any:
        member = world.members.get(record.m)
        return member if member is not None and record.n > member.n and record.b == world.base else None

    return [(fold, "sender", sender), (World, "quick_view", _no_quick_view)]


def _release_without_token() -> list[Patch]:
    held_by = fold._held_by  # pyright: ignore[reportPrivateUsage]

    def any_term(world: World, member: Any, seat: Any, token: int) -> Any:
        state = world.seats.get(seat)
        return state if state is not None and state.holder == member.id else held_by(world, member, seat, token)

    return [(fold, "_held_by", any_term)]


def _transfer_to_anybody() -> list[Patch]:
    whole = fold._transfer  # pyright: ignore[reportPrivateUsage]

    def to_anybody(world: World, offset: int, member: Any, record: Transfer, changes: list[Any]) -> None:
        seat = fold._held_by(world, member, record.seat, record.token)  # pyright: ignore[reportPrivateUsage]
        to = world.members.get(record.to)
        if seat is None or to is None:
            whole(world, offset, member, record, changes)
        else:
            fold._seize(world, offset, seat, to, record, changes, record.why)  # pyright: ignore[reportPrivateUsage]

    return [(fold.EFFECTS, Transfer, to_anybody)]  # type: ignore[list-item]


def _removal_frees() -> list[Patch]:
    whole = fold._role  # pyright: ignore[reportPrivateUsage]

    def frees(world: World, offset: int, member: Any, record: Role, changes: list[Any]) -> None:
        if record.removed:
            for seat in [s for s in world.seats.values() if s.role == record.name and s.holder is not None]:
                world.held[seat.holder or ""].discard(seat.seat)
                seat.holder = None
                world.changed(("seats", seat.seat))
        whole(world, offset, member, record, changes)

    return [(fold.EFFECTS, Role, frees)]  # type: ignore[list-item]


def _mark_of_anybody() -> list[Patch]:
    def anybody(world: World, told: Any) -> None:
        for role, index, _, mark in [mark for record in told for mark in record.marks or ()]:
            seat = world.seats.get((role, index))
            if seat is not None and mark > seat.mark:
                seat.mark = mark
                world.marked(seat.seat)

    def released(world: World, offset: int, member: Any, record: Any, changes: list[Any]) -> None:
        seat = world.seats.get(record.seat)
        if seat is not None and record.mark is not None and record.mark > seat.mark:
            seat.mark = record.mark
            world.marked(seat.seat)
        effects[type(record)](world, offset, member, record, changes)

    effects = dict(fold.EFFECTS)
    return [
        (World, "raise_marks", anybody),
        (fold.EFFECTS, Release, released),  # type: ignore[list-item]
        (fold.EFFECTS, Transfer, released),  # type: ignore[list-item]
    ]


def _genesis_always_wins() -> list[Patch]:
    return [(fold, "genesis_counts", lambda world, offset, genesis: genesis.base > world.base)]


def _resume_of_another() -> list[Patch]:
    whole = fold._resume  # pyright: ignore[reportPrivateUsage]

    def any_pause(world: World, offset: int, member: Any, record: Resume, changes: list[Any]) -> None:
        for pause in list(world.pauses):
            other = Resume(record.v, record.g, record.m, record.n, record.b, record.s, pause=pause)
            whole(world, offset, member, other, changes)

    return [(fold.EFFECTS, Resume, any_pause)]  # type: ignore[list-item]


def _did_acts() -> list[Patch]:
    whole = fold._did  # pyright: ignore[reportPrivateUsage]

    def acts(world: World, offset: int, member: Any, record: Did, changes: list[Any]) -> None:
        seat = world.seats.get(record.seat)
        if record.what == "stop" and seat is not None and seat.holder == member.id and seat.token == record.token:
            fold._free(world, offset, seat, record, changes, record.why)  # pyright: ignore[reportPrivateUsage]
        whole(world, offset, member, record, changes)

    return [(fold.EFFECTS, Did, acts)]  # type: ignore[list-item]


def _snapshot_from_its_place() -> list[Patch]:
    return [(reader, "begin_at", lambda snapshot: snapshot.last)]


def _snapshot_loses_a_field() -> list[Patch]:
    dump = World.dump

    def without(self: World) -> str:
        """Members that are gone are not written down."""
        gone, self.gone = self.gone, {}
        try:
            return dump(self)
        finally:
            self.gone = gone

    return [(World, "dump", without)]


SNAPSHOTS: Final[dict[str, Any]] = {
    "faults": {"trim": 2.0, "crash": 2.0},
    "pace": 1.0,
}

RECORDS: Final = (
    Mutant(
        "no-compare",
        "R3",
        "a claim succeeds whatever happened since",
        _no_compare,
        FROZEN,
    ),
    Mutant(
        "late-copies-count",
        "R2",
        "a record counts again when it lands again",
        _late_copies_count,
        {"faults": {"replay": 1.0, "freeze": 1.0}, "pace": 1.0},
    ),
    Mutant(
        "release-without-token",
        "R5",
        "a release frees the seat, whichever term it is of",
        _release_without_token,
        {
            "faults": {"wall": 1.0},
            "acts": MOVING,
            "overlap_ms": 0,
            "settle": 0.02,
            "ranks": (0, 1, 2),
            "barrier": -1.0,
            "act_pace": 1.0,
            "pace": 0.1,
            "storm": 30.0,
            "members": 3,
            "roles": 1,
            "seats": 1,
            "session_ms": 300,
            "sessions": (300,) * 3,
            "weather": {
                **CALMLY,
                "slow": 0.3,
                "unknown": 0.3,
                "timeout": 90 * MS,
                "slow_by": (60 * MS, 300 * MS),
                "late_by": (60 * MS, 600 * MS),
            },
        },
    ),
    Mutant(
        "transfer-to-anybody",
        "R6",
        "a transfer makes a holder of whom it names, also one that drains, under a pause, or with a seat of that role",
        _transfer_to_anybody,
        {
            "faults": {"wall": 1.0},
            "acts": {"hand_over": 3.0, "drain": 1.0, "pause": 1.0, "resume": 1.0},
            "overlap_ms": 0,
            "act_pace": 4.0,
            "pace": 0.1,
            "members": 4,
            "roles": 1,
            "seats": 1,
            "barrier": -1.0,
            "settle": 0.02,
            "weather": {**CALMLY, "slow": 0.5},
        },
    ),
    Mutant(
        "removal-frees",
        "R3a",
        "removing a role takes it from its holders",
        _removal_frees,
        {"faults": {"freeze": 1.0}, "acts": {"remove_role": 1.0}, "admin": True},
    ),
    Mutant(
        "mark-of-anybody",
        "R15",
        "a mark rises by a record of a member that does not hold the seat",
        _mark_of_anybody,
        {**FROZEN, "acts": {"mark": 3.0, "hand_over": 1.0}, "act_pace": 4.0},
    ),
    Mutant(
        "genesis-always-wins",
        "R9",
        "a log begins anew over members that live",
        _genesis_always_wins,
        {"faults": {"garbage": 1.0, "freeze": 1.0}},
    ),
    Mutant(
        "resume-of-another",
        "R14",
        "a resume ends other pauses too",
        _resume_of_another,
        {"faults": {"freeze": 1.0}, "acts": {"pause": 1.0}},
    ),
    Mutant(
        "version-too-high-counts",
        "R11",
        "a record of a version that members can't read counts",
        _version_too_high_counts,
        {"faults": {"future": 1.0}},
    ),
    Mutant("did-acts", "R17", "history changes the world", _did_acts, {"faults": {"freeze": 1.0, "crash": 1.0}}),
    Mutant(
        "snapshot-from-its-place", "R10", "a snapshot is used from its own place", _snapshot_from_its_place, SNAPSHOTS
    ),
    Mutant(
        "snapshot-loses-a-field",
        "R10",
        "a snapshot does not carry everything",
        _snapshot_loses_a_field,
        {**SNAPSHOTS, "faults": {"close": 2.0, "trim": 2.0}},
    ),
)
