"""What a member decides about seats, as values: `decisions` says when, `tick` writes the records."""

from __future__ import annotations

from msgspec import Struct

from pares.core.claims.tenure import Tenure
from pares.core.wire.records import Seat


class Take(Struct, frozen=True, gc=False):
    """Claim the seat: over nobody, or over a silent holder; `free`: only to free it, for nobody may hold it now."""

    seat: Seat
    over: tuple[str, int] | None
    free: bool = False


class Give(Struct, frozen=True):
    """Begin to give this term up."""

    tenure: Tenure
    why: str
    to: str | None = None
    pin: bool = False
    release_only: bool = False
