"""What goes into a protocol and what comes out of it: values, never callbacks.

    effects = protocol.step(event, now)

`now` is an integer of nanoseconds on a stopwatch that runs while the machine sleeps. It is read anew for every step: after a
fetch has returned, and before an append is handed over (R4). So a `Read` never makes appends; a `Tick` does.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from pares.core.wire.changes import Change
from pares.core.wire.reader import EntryLike
from pares.core.wire.records import Lock, Seat

# Events ----------------------------------------------------------------------------------------------------------------


class Attached(Struct, frozen=True, gc=False):
    """The ledger is in reach; the log has the entries from `start` to before `end`."""

    start: int
    end: int


class Read(Struct, frozen=True):
    """The entries that follow `protocol.position`; none, when there was nothing to read."""

    entries: list[EntryLike]


class Tick(Struct, frozen=True, gc=False):
    """Time has passed: act. `wall_us` is the wall clock, which is written down and never decided by."""

    wall_us: int


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
    """The log is not the one that was read so far (R12)."""

    why: str


class Died(Struct, frozen=True, gc=False):
    """This process has proof that the member is dead (R7)."""

    member: str


class BarrierReturned(Struct, frozen=True, gc=False):
    """The barrier, and the bodies, of this term have come to their end (R5)."""

    token: int


class Lapsed(Struct, frozen=True, gc=False):
    """The belief in this term had run out when its `Renew` was to be carried out: it is over, and stays so."""

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
    """The holder of the term `token` has come so far: the next offset to consume (R15)."""

    seat: Seat
    token: int
    mark: int


class Ready(Struct, frozen=True, gc=False):
    """Whether the user's own check lets this member lead."""

    ready: bool


class Close(Struct, frozen=True, gc=False):
    """Hand everything over, then leave."""


Request: TypeAlias = (
    HandOver | StepDown | Declare | Ask | PauseFor | ResumeNow | RewindTo | Marked | Ready | Close | BarrierReturned
)
Event: TypeAlias = Attached | Read | Tick | Acked | Failed | Jumped | Lapsed | Died | Request


# Effects ---------------------------------------------------------------------------------------------------------------


class Append(Struct, frozen=True, gc=False):
    """Append these records, all or none; answer with `Acked` or `Failed`. One is under way at a time."""

    ticket: int
    payloads: tuple[bytes, ...]


class Lead(Struct, frozen=True, gc=False):
    """This member may believe that it holds the seat, until `until` (and as long as no `Follow` says otherwise)."""

    seat: Seat
    token: int
    until: int
    why: str = ""


class Renew(Struct, frozen=True, gc=False):
    """All beliefs in force now last until `until`."""

    until: int


class Follow(Struct, frozen=True, gc=False):
    """The belief in this term is over, as of `at`. `fenced`: it was not given up by plan, nothing waits for anybody."""

    seat: Seat
    token: int
    why: str
    fenced: bool
    at: int


class Barrier(Struct, frozen=True, gc=False):
    """The term is given up by plan: let the user's barrier return, then answer `BarrierReturned`."""

    seat: Seat
    token: int
    why: str


class Watch(Struct, frozen=True):
    """Watch the locks of these members, and of no others, for proof of death."""

    locks: dict[str, Lock]


class Moved(Struct, frozen=True):
    """What the records just read have changed in the world: for events and observers."""

    changes: list[Change]


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
    Append | Lead | Renew | Follow | Barrier | Watch | Moved | Live | Report | Trim | Restart | Stop | Closed | Wake
)
