"""What a member tells its user. `why` is for people; `at` is wall-clock seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Acquired:
    """This member leads the seat (`role` and `seat`, its index) from now on, under `token`.

    `why` says how it came to: "nobody held it", "silent, from NAME", the reason of a handover. `at`: wall-clock seconds, here
    and below.
    """

    role: str
    seat: int
    token: int
    why: str
    at: float


@dataclass(frozen=True, slots=True)
class Revoked:
    """The term ends by plan. This member believes no more; the seat goes on when the barrier has returned.

    So this is the moment to finish and flush. `why`: "balance", "drained", "closed" and so on (docs/operating.md).
    """

    role: str
    seat: int
    token: int
    why: str
    at: float


@dataclass(frozen=True, slots=True)
class Fenced:
    """The term is over already: the lease ran out, or the seat is lost. Stop at once, and write nothing more.

    Somebody else may lead already, and nothing waits for the barrier.
    """

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
    """Another member is gone: `why` is left, died (and that was proven), forgotten (silent for long), reset (a new log) or
    not heard (ALLCALL, for 2.5 beats)."""

    member: str
    name: str
    why: str
    at: float


Event = Acquired | Revoked | Fenced | Joined | Left
