"""What goes into a protocol and what comes out of it: values, never callbacks. All protocols speak this one vocabulary.

    effects = protocol.step(event, now)

`now` is an integer of nanoseconds on a stopwatch that runs while the machine sleeps. It is read anew for every step: after a
fetch has returned, and before an append is handed over (R4). So a `Read` never makes appends; a `Tick` does.

| protocol | events of its own | effects of its own |
|---|---|---|
| claims | `Died`, and the requests to its group | `Watch`, `Moved`, `Trim` |
| consumption, on claims | `Took`, `Wants`, `Flush`, `Willing`, `Unhealthy` | `Begins`, `Taken`, `Untaken`, `Owns` |
| NELI, Fast NELI | `Assigned`, `Revoked`, `Lost`, `ChangeRoles` | `Yielded` |
| ALLCALL | `Received`, `Reconnected` | `Publish`, `LeaderChanged`, `PeerJoined`, `PeerLost` |

Over a log, each partition has its own position and its own appends. Claims use one partition of it and know no other, whatever
its number in the ledger: theirs is always 0 here. NELI counts the partitions that its group shares out, from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from pares.core.consumption import Begins as Begins
from pares.core.consumption import FromConsumers as FromConsumers
from pares.core.consumption import Owns as Owns
from pares.core.consumption import Taken as Taken
from pares.core.consumption import ToConsumers as ToConsumers
from pares.core.consumption import Took as Took
from pares.core.consumption import Unhealthy as Unhealthy
from pares.core.consumption import Untaken as Untaken
from pares.core.consumption import Wants as Wants
from pares.core.consumption import Willing as Willing
from pares.core.wire.changes import Change
from pares.core.wire.reader import EntryLike
from pares.core.wire.records import Lock, Seat
from pares.core.wire.states import AheadState

# Events ----------------------------------------------------------------------------------------------------------------


class Attached(Struct, frozen=True, gc=False):
    """The log of this partition is in reach (again, after `Jumped`); it has the entries from `start` to before `end`."""

    start: int
    end: int
    partition: int = 0


class Read(Struct, frozen=True):
    """The entries that follow the protocol's position in this partition; none, when there was nothing to read.

    `wall_us` is what the wall clock shows at this step's `now`, or more, never less: exclusive NELI compares it with the
    broker's, within its error bound, and counts what is left of a belief from `now`. [read before, a pause in between made
    beliefs longer by it]
    """

    entries: list[EntryLike]
    partition: int = 0
    wall_us: int = 0
    began: int = 0
    """What the stopwatch showed when this fetch began; 0: nobody knows. A read without entries that began later than a silence
    ran out is what a claim by silence needs (R21)."""
    stamps: Sequence[int | None] = ()
    """For each entry the reading of the stopwatch, which its writer shares, when its append began (R21); None, or nothing at
    all, where the writer's stopwatch is another one."""
    arrivals: Sequence[int | None] = ()
    """For each entry the reading of this process's stopwatch when it had come to the process, in whatever thread (R21): after
    its append had begun, and no later than this fetch returned. None, or nothing at all: nobody has noted it."""


class Received(Struct, frozen=True, gc=False):
    """A message came over the bus, one's own too. `wall_us`: the wall clock."""

    payload: bytes
    wall_us: int


class Reconnected(Struct, frozen=True, gc=False):
    """The connection to the bus is another one: messages may have been missed."""


class Tick(Struct, frozen=True, gc=False):
    """Time has passed: act. `wall_us` is the wall clock, which is written down and never decided by."""

    wall_us: int
    heard: int | None = None
    """All messages that came before this, by the stopwatch, have been given as `Received`; None: all that came before now."""


class Acked(Struct, frozen=True, gc=False):
    """All records of an `Append` stand in the log, the last one at `offset`."""

    ticket: int
    offset: int


class Failed(Struct, frozen=True, gc=False):
    """An `Append` failed. Its records may land at any later time all the same, unless `unknown` is False: the ledger says
    that they are not in the log and never will be."""

    ticket: int
    unknown: bool = True


class Jumped(Struct, frozen=True, gc=False):
    """The log of this partition is not the one that was read so far (R12)."""

    why: str
    partition: int = 0


class Assigned(Struct, frozen=True, gc=False):
    """The group gives this member these partitions."""

    partitions: tuple[int, ...]


class Revoked(Struct, frozen=True, gc=False):
    """The group wants them back, and waits for `Yielded`."""

    partitions: tuple[int, ...]


class Lost(Struct, frozen=True, gc=False):
    """The group has taken them: others may have them already."""

    partitions: tuple[int, ...]


class Died(Struct, frozen=True, gc=False):
    """This process has proof that the member is dead (R7)."""

    member: str


class WorkOver(Struct, frozen=True, gc=False):
    """The barrier, and the bodies, of this term have come to their end (R5). (A token alone does not name a term: with NELI the
    roles of one partition share theirs.)"""

    seat: Seat
    token: int


class Lapsed(Struct, frozen=True, gc=False):
    """The belief in this term had run out when its `Extend` was to be carried out: it is over, and stays so."""

    seat: Seat
    token: int


class HandOver(Struct, frozen=True, gc=False):
    """The user wants a seat of this member to go, to `to` (a member id) or to whom placement names."""

    role: str
    to: str | None = None
    why: str = ""


class StepDown(Struct, frozen=True, gc=False):
    role: str | None = None
    why: str = ""


class Declare(Struct, frozen=True, gc=False):
    """A role is to be added or changed, or with `removed` to go, for the whole group."""

    name: str
    seats: int = 1
    weight: float = 1.0
    spread: str = "host"
    removed: bool = False


class ChangeRoles(Struct, frozen=True, gc=False):
    """The group is to have these roles, or to have them no more: a record says so in their partitions, and each member acts
    when it reads that."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class Ask(Struct, frozen=True, gc=False):
    """An administrator's request to holders: a seat to go, or a member to drain."""

    seat: Seat | None = None
    to: str | None = None
    drain: str | None = None


class PauseFor(Struct, frozen=True, gc=False):
    ms: int
    scope: str | None = None


class ResumeNow(Struct, frozen=True, gc=False):
    scope: str | None = None


class RewindTo(Struct, frozen=True, gc=False):
    marks: tuple[tuple[str, int, int], ...]


class Marked(Struct, frozen=True, gc=False):
    """The holder of the term `token` has come so far: the next offset to consume (R15). `ahead`: what is done above it (C9);
    None: as was said before."""

    seat: Seat
    token: int
    mark: int
    ahead: AheadState | None = None


class Flush(Struct, frozen=True, gc=False):
    """The marks that the log does not show yet are to be written now, and not with the next beat."""


class Ready(Struct, frozen=True, gc=False):
    """Whether the user's own check lets this member lead."""

    ready: bool


class Close(Struct, frozen=True, gc=False):
    """Hand everything over, then leave."""


Request: TypeAlias = (
    HandOver
    | StepDown
    | Declare
    | ChangeRoles
    | Ask
    | PauseFor
    | ResumeNow
    | RewindTo
    | Marked
    | Flush
    | FromConsumers
    | Ready
    | Close
)
Event: TypeAlias = (
    Attached
    | Read
    | Received
    | Reconnected
    | Tick
    | Acked
    | Failed
    | Jumped
    | Assigned
    | Revoked
    | Lost
    | Lapsed
    | Died
    | WorkOver
    | Request
)


# Effects ---------------------------------------------------------------------------------------------------------------


class Append(Struct, frozen=True, gc=False):
    """Append these records to the partition, all or none; answer with `Acked` or `Failed`. One is under way at a time in each
    partition."""

    ticket: int
    payloads: tuple[bytes, ...]
    partition: int = 0
    urgent: bool = True
    """Whether one of them is, by its kind: all but beats and `did` are."""


class Publish(Struct, frozen=True, gc=False):
    """Send to everybody who listens now, oneself included. What can't be sent now is never to be sent (H16)."""

    payload: bytes


class Lead(Struct, frozen=True, gc=False):
    """This member may believe that it holds the seat, until `until` (and as long as no `Follow` says otherwise)."""

    seat: Seat
    token: int
    until: int
    why: str = ""


class Extend(Struct, frozen=True, gc=False):
    """The beliefs in these seats, or with None all that are in force, now last until `until`."""

    until: int
    seats: tuple[Seat, ...] | None = None


class Follow(Struct, frozen=True, gc=False):
    """The belief in this term is over, as of `at`. `fenced`: it was not given up by plan, nothing waits for anybody."""

    seat: Seat
    token: int
    why: str
    fenced: bool
    at: int


class Barrier(Struct, frozen=True, gc=False):
    """The term is given up by plan: let the user's barrier return, then answer `WorkOver`."""

    seat: Seat
    token: int
    why: str


class Yielded(Struct, frozen=True, gc=False):
    """What `Revoked` asked for: the group may give this partition to another now."""

    partition: int


class Watch(Struct, frozen=True):
    """Watch the locks of these members, and of no others, for proof of death."""

    locks: dict[str, Lock]


class Moved(Struct, frozen=True):
    """What the records just read have changed in the world: for events and observers."""

    changes: list[Change]


class LeaderChanged(Struct, frozen=True, gc=False):
    """The role is led by `holder` now, as far as this member knows; None: by no member."""

    role: str
    holder: str | None
    token: int


class PeerJoined(Struct, frozen=True, gc=False):
    """The member was heard for the first time, or again after `PeerLost`."""

    member: str


class PeerLost(Struct, frozen=True, gc=False):
    """The member was not heard for `WINDOW` beats, or has said goodbye."""

    member: str
    why: str


class Live(Struct, frozen=True, gc=False):
    """The member's join has counted: it is in the group."""


class Report(Struct, frozen=True, gc=False):
    """Something a person should know: `kind` is a fixed word."""

    kind: str
    text: str


class Trim(Struct, frozen=True, gc=False):
    """What stands before `before` is no longer needed by anybody who can read a snapshot."""

    before: int


class Restart(Struct, frozen=True, gc=False):
    """This incarnation is over, the process is well: begin again with a new one."""

    why: str


class Stop(Struct, frozen=True, gc=False):
    """This incarnation is over and a person must see to it. `kind`: newer-format, cloned, refused."""

    kind: str
    text: str


class Closed(Struct, frozen=True, gc=False):
    """The member has left."""


class Wake(Struct, frozen=True, gc=False):
    """Give a `Tick` at `at`, if nothing happens before."""

    at: int


Effect: TypeAlias = (
    Append
    | Publish
    | Lead
    | ToConsumers
    | Extend
    | Follow
    | Barrier
    | Yielded
    | Watch
    | Moved
    | LeaderChanged
    | PeerJoined
    | PeerLost
    | Live
    | Report
    | Trim
    | Restart
    | Stop
    | Closed
    | Wake
)
