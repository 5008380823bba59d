"""What the world consists of: one value for each member, seat, role and pause; and what no world is. `world` holds them, and
`fold` changes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Final, Protocol, TypeAlias, cast

from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import force_setattr

from pares.core.wire.records import (
    MAX_SEATS,
    MAX_SESSION_MS,
    MIN_SESSION_MS,
    Base,
    Due,
    Index,
    Int,
    Join,
    Lock,
    Seat,
    Text,
    Weight,
    names,
)

Run: TypeAlias = tuple[Int, Int]
"""From the first offset to before the second."""


class MemberState(Struct, forbid_unknown_fields=True):
    """One incarnation in the group: what its `join` said, and what it last wrote."""

    id: str
    name: str
    host: str
    zone: str
    labels: dict[str, str]
    rank: Int
    weight: Weight
    if TYPE_CHECKING:
        eligible: tuple[str, ...] | None
    else:
        eligible: Raw  # as in a join: a snapshot states the list of hundreds for each of them
    session_ms: Annotated[int, Meta(ge=MIN_SESSION_MS, le=MAX_SESSION_MS)]
    drift: Annotated[float, Meta(ge=0, le=0.5)]
    overlap_ms: Int
    protocol: str
    reads: Int
    lock: Lock | None
    joined: Int
    draining: bool
    offset: Int
    """Where its last counted record stands; with `n`, `due_ms` and `count` the only fields that a beat changes."""
    n: Int
    due_ms: Due
    count: Int

    def __post_init__(self) -> None:
        """See `Join`. [all of a large group load each snapshot: a hundred thousand names, if a hundred declare a thousand]"""
        stated = cast("object", self.eligible)
        if isinstance(stated, Raw):
            force_setattr(self, "eligible", names(bytes(stated)))

    @property
    def administrator(self) -> bool:
        """Eligible for nothing: it may ask, pause and rewind, and never holds a seat."""
        return self.eligible == ()


class SeatState(Struct, forbid_unknown_fields=True):
    """One seat. `token` is the last term's when nobody holds it."""

    role: str
    index: Index
    holder: str | None
    token: Int
    mark: Int
    taken: Int
    pinned: bool
    avoid: str | None
    """The member that stepped down from it, until somebody else has held it (R13)."""
    asked: tuple[str | None, Int] | None
    """A hand-over asked for: to whom (None: anybody else), and the offset of the `ask`."""
    last: str | None
    """The name of the holder that lost it by dying or by silence, until somebody holds it again (R8)."""

    @property
    def seat(self) -> Seat:
        return (self.role, self.index)


def new_seat(role: str, index: int) -> SeatState:
    """A seat that nobody has held yet."""
    return SeatState(role, index, None, 0, 0, 0, False, None, None, None)


class AheadState(Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a seat's source above the position (C9, C10)."""

    done: tuple[Run, ...] = ()
    """Runs that are done, in order, and none touches the next."""
    tries: tuple[tuple[Int, Int], ...] = ()
    """(offset, how often it was given out) of records that are not done, in order."""

    @property
    def upto(self) -> int:
        """Nothing is known of what is there from this offset on."""
        return max(self.done[-1][1] if self.done else 0, self.tries[-1][0] + 1 if self.tries else 0)


NOTHING_AHEAD: Final = AheadState()


class RoleState(Struct, forbid_unknown_fields=True):
    name: str
    seats: Annotated[int, Meta(ge=1, le=MAX_SEATS)]
    weight: Weight
    spread: str
    removed: bool


class PauseState(Struct, forbid_unknown_fields=True):
    offset: Int
    scope: str | None
    ms: Int
    by: str


class Two(Struct, forbid_unknown_fields=True):
    """What version 2 adds to a world."""

    unready: dict[str, Text]
    stride: Int
    elders: Int
    noted: tuple[Int, Int]
    followed: dict[str, tuple[Int, Int]]
    ahead: list[tuple[str, Index, AheadState]]
    ranges: list[tuple[str, Index, tuple[Run, ...]]]


class Frozen(Struct, forbid_unknown_fields=True):
    """A world as a snapshot carries it. A field of its version that is missing makes the snapshot unusable."""

    base: Base
    last: Int
    count: Int
    placed: Int
    highest: Int
    members: list[MemberState]
    seats: list[SeatState]
    roles: list[RoleState]
    pauses: list[PauseState]
    gone: dict[str, Int]
    two: Two | UnsetType = UNSET
    """Where version 2 is in force, and nowhere else: release 0.1 begins with snapshots that don't have it."""


def member_state(join: Join, offset: int, count: int) -> MemberState:
    """The member that a `join` makes known."""
    return MemberState(
        id=join.m,
        name=join.name,
        host=join.host,
        zone=join.zone,
        labels=dict(join.labels),
        rank=join.rank,
        weight=join.weight,
        eligible=join.eligible,
        session_ms=join.session,
        drift=join.drift,
        overlap_ms=join.overlap,
        protocol=join.protocol,
        reads=join.reads,
        lock=join.lock,
        joined=offset,
        draining=False,
        offset=offset,
        n=join.n,
        due_ms=join.s,
        count=count,
    )


class Loaded(Protocol):
    """A world that came out of a snapshot, as far as it is looked at here."""

    members: dict[str, MemberState]
    seats: dict[Seat, SeatState]

    @property
    def roles(self) -> Collection[str]: ...
    @property
    def gone(self) -> Mapping[str, int]: ...
    @property
    def unready(self) -> Mapping[str, str]: ...
    @property
    def followed(self) -> Mapping[str, object]: ...
    @property
    def ahead(self) -> Mapping[Seat, object]: ...
    @property
    def ranges(self) -> Mapping[Seat, object]: ...


def cross_check(world: Loaded) -> None:
    """Raises ValueError for a world that no fold leads to: it is nobody's to begin with (R10)."""
    held = set[tuple[str, str]]()
    for seat in world.seats.values():
        if seat.role not in world.roles or (seat.holder is not None and seat.holder not in world.members):
            raise ValueError(f"not a world: seat {seat.seat} names a role or a holder that is not in it")
        if seat.holder is not None and (seat.holder, seat.role) in held:
            raise ValueError(f"not a world: {seat.holder} holds two seats of {seat.role!r}")
        if seat.holder is not None:
            held.add((seat.holder, seat.role))
    if (world.unready.keys() | world.followed.keys()) - world.members.keys():
        raise ValueError("not a world: somebody is not ready, or has a successor, who is not in it")
    if world.ahead.keys() - world.seats.keys():
        raise ValueError("not a world: something is done of a seat that is not in it")
    if world.ranges.keys() - world.seats.keys():
        raise ValueError("not a world: a seat that is not in it has ranges")
    if world.members.keys() & world.gone.keys():
        raise ValueError("not a world: a member is in it and gone at once")
