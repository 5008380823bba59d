"""What goes into a protocol over shared-out partitions (NELI, Fast NELI) and what comes out of it; see `pares.core.events`.

    effects = protocol.step(event, now)

A `Group` gives each of the partitions 0 to M-1 to one member; the protocol makes leadership of that, with the log of each
partition to tell who else believes what. Each partition has its own position, its own appends and its own lease.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from pares.core.events import Barrier, Close, Closed, Follow, Lapsed, Lead, Live, Report, Restart, Stop, Tick, Wake
from pares.core.neli.budget import BUDGET
from pares.core.wire.reader import EntryLike
from pares.core.wire.records import Seat


class Config(Struct, frozen=True):
    """One incarnation of a member. All of it is fixed for the incarnation's life. Times in milliseconds."""

    group: str
    id: str
    name: str
    host: str = ""
    partitions: int = 1
    """M."""
    roles: tuple[str, ...] = ()
    threshold_ms: int = 1000
    """Fast NELI: the deadline within which a beat of one's own must come back. NELI: T."""
    interval_ms: int = 100
    """Between two beats, or two beacons on a partition."""
    session_ms: int = 3000
    """The silence after which the group may give partitions to others, at the earliest: set by the group, not by the member."""
    drift: float = 0.1
    barrier_ms: int = 30_000
    seen: int = 0
    """The largest token that earlier incarnations of this process have seen."""
    exclusive: bool = True
    """NELI: at most one leader; else at least one."""
    error_ms: int = 0
    """NELI, exclusive: e, how far the broker's clock and any member's may be apart."""
    seats: int = 1
    """By how many members each role is led."""
    budget: int = BUDGET
    """Beats a second that all members of all groups on the topic stay within, where their beliefs bear that (`budget`)."""
    numbered: bool = True
    """Names get their numbers from the log, unless somebody in the group knows their hash only."""
    restate_ms: int = 0
    """How often who leads a partition writes its roles down again, in a log that forgets; 0: never."""


# Events ----------------------------------------------------------------------------------------------------------------


class Entered(Struct, frozen=True, gc=False):
    """The log of this partition is in reach (again, after `Broke`); it has the entries from `start` to before `end`."""

    partition: int
    start: int
    end: int


class Heard(Struct, frozen=True):
    """The entries that follow `protocol.position(partition)`; none, when there was nothing to read. `wall_us` is what the wall
    clock shows at this step's `now`, or more, never less: exclusive NELI compares it with the broker's, within its error
    bound, and counts what is left of a belief from `now`. [read before, a pause in between made beliefs longer by it]"""

    partition: int
    entries: list[EntryLike]
    wall_us: int = 0


class Broke(Struct, frozen=True, gc=False):
    """The log of this partition is not the one that was read so far (R12)."""

    partition: int
    why: str


class Assigned(Struct, frozen=True, gc=False):
    """The group gives this member these partitions."""

    partitions: tuple[int, ...]


class Revoked(Struct, frozen=True, gc=False):
    """The group wants them back, and waits for `Yielded`."""

    partitions: tuple[int, ...]


class Lost(Struct, frozen=True, gc=False):
    """The group has taken them: others may have them already."""

    partitions: tuple[int, ...]


class Landed(Struct, frozen=True, gc=False):
    """The record of a `Put` stands in the log, at `offset`."""

    ticket: int
    offset: int


class Missed(Struct, frozen=True, gc=False):
    """A `Put` failed. Its record may land at any later time all the same, unless `unknown` is False."""

    ticket: int
    unknown: bool = True


class WorkOver(Struct, frozen=True, gc=False):
    """The barrier, and the bodies, of this term have come to their end. (A token alone does not name a term here: the roles of
    one partition share theirs.)"""

    seat: Seat
    token: int


class Roles(Struct, frozen=True, gc=False):
    """The group is to have these roles, or to have them no more: a `work` record says so in their partitions, and each member
    acts when it reads that."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


Event: TypeAlias = (
    Entered | Heard | Broke | Assigned | Revoked | Lost | Landed | Missed | Lapsed | WorkOver | Roles | Tick | Close
)


# Effects ---------------------------------------------------------------------------------------------------------------


class Put(Struct, frozen=True, gc=False):
    """Append this record to a partition; answer with `Landed` or `Missed`. One is under way at a time in each partition."""

    ticket: int
    partition: int
    payload: bytes


class Extend(Struct, frozen=True, gc=False):
    """The beliefs in these seats now last until `until`."""

    seats: tuple[Seat, ...]
    until: int


class Yielded(Struct, frozen=True, gc=False):
    """What `Revoked` asked for: the group may give this partition to another now."""

    partition: int


Effect: TypeAlias = Put | Lead | Extend | Follow | Barrier | Yielded | Live | Report | Restart | Stop | Closed | Wake
