"""What a record did to the world: values that observers, history and the audit read. The fold makes them, in order."""

from __future__ import annotations

from msgspec import Struct

from pares.core.wire.records import Seat


class SeatChanged(Struct, frozen=True, gc=False):
    """A seat got a holder (`holder`, `token`), lost it (`holder` None), or both at once."""

    offset: int
    seat: Seat
    holder: str | None
    token: int
    before: str | None
    before_token: int
    cause: str
    """The kind of the record: claim, release, transfer, leave, obituary, genesis."""
    why: str
    by: str
    """The sender of the record."""


class MemberJoined(Struct, frozen=True, gc=False):
    offset: int
    member: str
    name: str
    host: str


class MemberLeft(Struct, frozen=True, gc=False):
    offset: int
    member: str
    name: str
    cause: str
    """left, died, forgotten, or reset (by a genesis)."""


class RoleChanged(Struct, frozen=True, gc=False):
    offset: int
    role: str
    what: str
    """added, changed, removing (still held) or removed."""


class PauseChanged(Struct, frozen=True, gc=False):
    offset: int
    scope: str | None
    on: bool
    by: str


class Began(Struct, frozen=True, gc=False):
    """A genesis counted: the world is empty and has a new base."""

    offset: int
    base: int


class DidChanged(Struct, frozen=True, gc=False):
    """A member told when its belief began or ended (R17)."""

    offset: int
    member: str
    seat: Seat
    token: int
    what: str
    at: int
    why: str


Change = SeatChanged | MemberJoined | MemberLeft | RoleChanged | PauseChanged | Began | DidChanged
