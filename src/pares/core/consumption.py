"""Events and effects that only consumers have (docs/design.md, Consumption). `core.events` names them with all the others."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from pares.core.wire.divided.keys import Elsewhere
from pares.core.wire.records import Seat
from pares.core.wire.states import NOTHING_AHEAD, AheadState, Run

# Events ----------------------------------------------------------------------------------------------------------------


class Took(Struct, frozen=True, gc=False):
    """A consumer wants to give out `first` to `last` of this seat's partition, at most once (C4), in the term `token`."""

    seat: Seat
    token: int
    first: int
    last: int


class Wants(Struct, frozen=True, gc=False):
    """A consumer wants `count` more offsets for this slot, of which the last range that it knows ends at `after`, in the term
    `token` (C11). If its partition's ranges end at `over` they are to go on from `to`, if that is above: what lies between is
    gone, or is not wanted (C2)."""

    seat: Seat
    token: int
    after: int
    count: int
    over: int = 0
    to: int = 0


class Willing(Struct, frozen=True, gc=False):
    """The roles of which a consumer takes seats from now on (C6): partitions that its source has."""

    roles: tuple[str, ...]


class Unhealthy(Struct, frozen=True, gc=False):
    """The work of the term `token` falls behind, or stands still: another consumer is to try, if there is one (C7)."""

    seat: Seat
    token: int
    why: str


FromConsumers: TypeAlias = Took | Wants | Willing | Unhealthy

# Effects ---------------------------------------------------------------------------------------------------------------


class Begins(Struct, frozen=True, gc=False):
    """Where a consumer's term begins (C2). `first`: nobody has held the seat before, and nothing says where to begin. `ahead`:
    what is done above that position (C9). `elsewhere`: what other divisions of the partition say is done above it (C12)."""

    seat: Seat
    token: int
    position: int
    first: bool
    ahead: AheadState = NOTHING_AHEAD
    elsewhere: tuple[Elsewhere, ...] = ()


class Taken(Struct, frozen=True, gc=False):
    """A `Took` was read back and had its effect: what it takes, up to before `upto`, may be given out (C4)."""

    seat: Seat
    token: int
    upto: int


class Untaken(Struct, frozen=True, gc=False):
    """A `Took` has had no effect, and will have none (C4): what it takes, up to before `upto`, is not this consumer's."""

    seat: Seat
    token: int
    upto: int


class Owns(Struct, frozen=True, gc=False):
    """The ranges of a slot in this term, as far as they are not done (C11): what may be given out of its partition."""

    seat: Seat
    token: int
    runs: tuple[Run, ...]


ToConsumers: TypeAlias = Begins | Taken | Untaken | Owns
