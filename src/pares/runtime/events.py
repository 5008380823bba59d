"""What a member tells its user. `why` is for people; `at` is wall-clock seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Acquired:
    """This member leads the seat from now on, under `token`."""

    role: str
    seat: int
    token: int
    why: str
    at: float


@dataclass(frozen=True, slots=True)
class Revoked:
    """The term ends by plan. This member believes no more; the seat goes on when the barrier has returned."""

    role: str
    seat: int
    token: int
    why: str
    at: float


@dataclass(frozen=True, slots=True)
class Fenced:
    """The term is over already: the lease ran out, or the seat is lost. Stop at once; nothing waits for it."""

    role: str
    seat: int
    token: int
    why: str
    at: float


@dataclass(frozen=True, slots=True)
class Joined:
    """Another member is in the group. (Of roles and seats it says nothing: those fields are for the other events.)"""

    member: str
    name: str
    host: str
    at: float


@dataclass(frozen=True, slots=True)
class Left:
    """Another member is gone: `why` is left, died, forgotten or reset."""

    member: str
    name: str
    why: str
    at: float


Event = Acquired | Revoked | Fenced | Joined | Left
