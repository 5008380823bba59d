"""What a member tells about the group and about itself: values, made when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from pares.core.consume.freshness import Freshness
from pares.core.wire.world import World

State: TypeAlias = Literal["joining", "live", "closing", "closed", "failed"]
"""What a member is in."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a seat, as far as the member that says so has read. Not promised: that the holder still believes.

    `member`: its id; `name`, `host`: as it was made with; `seat`: the index within `role`; `token`: of its term.
    """

    member: str
    name: str
    host: str
    role: str
    seat: int
    token: int
    since: float | None
    """Wall-clock seconds at which this process read that it became the holder; None if that was before it began to read."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A member of the group, as far as the one who says so has read: it may be overdue, or dead without anybody's proof.

    `id`: name and incarnation, another one after each restart. `rank`, `weight`, `host`, `zone`, `labels`: as it was made with;
    `session`: seconds. `draining`: it hands over, and takes nothing more.
    """

    id: str
    name: str
    host: str
    zone: str
    labels: dict[str, str]
    rank: int
    weight: float
    session: float
    draining: bool
    roles: tuple[str, ...]
    """What it holds."""
    views: dict[str, str] = field(default_factory=dict[str, str])
    """ALLCALL: whom it takes for the leader of each role. (Elsewhere the log says that, and the same for all.)"""


class Claim(NamedTuple):
    """A partition, as a consumer sees it.

    `position`: the next offset that is not done; `end`, `lag`: where its partition ended when this consumer last looked (of its
    own claims; None for others'). `slot`: with ranges and keys, which slot of the partition it is, else None. With ranges its
    position and lag are those of its own ranges. With keys its position says of its own records alone that they are done, and
    its lag counts the offsets behind that, of all keys: whose a record is shows when it is read. `slots`: with keys, over how
    many slots they are shared out, else None. `holder`: the id of the consumer that holds it, None if it is free. `state`:
    "fresh", "unknown" or "stale", by how long ago something was read of the holder (stale: others may claim it); "free"; or
    "paused".
    """

    topic: str
    partition: int
    holder: str | None
    state: Freshness | Literal["free", "paused"]
    token: int
    position: int
    end: int | None
    lag: int | None
    slot: int | None = None
    slots: int | None = None


class Rewound(NamedTuple):
    """A seat of which `Admin.rewind` has moved the mark, and a token above those of all terms that it had before: a fence that
    has seen it lets none of them in, and all later ones."""

    role: str
    seat: int
    token: int


@dataclass(frozen=True, slots=True)
class Consumption:
    """What a consumer has to do, as far as it has looked: no request is made for it. It looks where partitions end when it
    fetches from them, and every ten sessions, ten seconds at least; `Consumer.lag` asks at once."""

    delivery: str
    load: int
    """Partitions (with ranges, slots) that it holds, and may believe that it holds."""
    lag: int
    """Offsets of these that are not done, in all, as `Consumer.lag` counts them."""
    claims: tuple[Claim, ...]
    """Each of them."""
    group_offsets: str | None = None
    """The consumer group of the broker that positions are committed for, too; None: for none."""
    commits_failed: int = 0
    """How often that has failed so far."""
    commit_trouble: str | None = None
    """Why it failed the last time; None if it did not."""


@dataclass(frozen=True, slots=True)
class Health:
    """For probes and metrics. `ok` is what a liveness probe should look at, `ready` what a readiness probe may."""

    ok: bool
    """The loop runs, and has read the ledger within a session or knows why not; no work is stuck; what it holds it leads."""
    ready: bool
    """It is in its group, and the ledger is in reach."""
    state: State
    name: str
    group: str
    leads: tuple[str, ...]
    """The roles that it leads now."""
    thread_alive: bool
    read_age: float
    """Seconds since the ledger was last read."""
    read_back_age: float | None
    """Seconds since the newest of its own records that it has read back was sent: what its lease is counted from (claims; with
    the NELI family, the oldest among the partitions in which it beats). None: nothing yet, or ALLCALL, which has no log."""
    lease_left: float
    """Seconds for which this member may go on believing; 0.0 if it holds nothing."""
    stuck: tuple[str, ...]
    """Roles whose work takes longer than its `stuck_after`: nothing but a new start of the process may help."""
    unled: tuple[str, ...]
    """Roles that it holds in the log and has not led for a session (a second at least), with the ledger in reach: its own
    records come back too late to believe by, so that nobody leads them. (Claims.) A planned end whose barrier runs is none of
    these."""
    why: str
    """Why `ok` is False, for people; "" while it is True."""
    unreachable: str | None
    failure: str | None
    no_proof: str | None
    """Why this member's death could not be proven, if so: then others wait a session for it (R7)."""
    terms: int
    """Terms begun so far."""
    takeovers: int
    """Of these, how many because the holder before was silent or is proven dead."""
    fences: int
    """Terms that ended otherwise than by plan."""
    lapses: int
    """Of these, how many because the lease ran out."""
    restarts: int
    """How often it began anew in this process: another log, or a group that no longer knew it."""
    records: int
    """Records written; most are beats."""
    beats: int
    """Of these, the beats (NELI: beacons; ALLCALL: pings)."""
    failed_appends: int
    bad_records: int
    """Records read that could not be understood."""
    uncounted_records: int
    """Records read that were understood and changed nothing: late or doubled copies, senders that are gone."""
    problems: tuple[str, ...]
    """The last things that a person should know."""
    consumption: Consumption | None = None
    """Of a consumer; None of a member that consumes nothing."""


def holders(world: World, role: str, since: Mapping[tuple[str, int], float] | None = None) -> list[Holder]:
    """The holders of the seats of `role` in this world, in the order of the seats."""
    found: list[Holder] = []
    seats = sorted((s for s in list(world.seats.values()) if s.role == role), key=lambda s: s.index)
    for seat in seats:
        holder = world.members.get(seat.holder or "")
        if holder is not None:
            at = None if since is None else since.get(seat.seat)
            found.append(Holder(holder.id, holder.name, holder.host, role, seat.index, seat.token, at))
    return found


def peers(world: World, me: str = "") -> list[Peer]:
    """The members of this world, administrators aside (but for `me`)."""
    found: list[Peer] = []
    for m in sorted(world.members.values(), key=lambda m: m.id):
        if not m.administrator or m.id == me:
            roles = tuple(sorted(role for role, _ in list(world.held.get(m.id, ()))))
            session = m.session_ms / 1000
            found.append(Peer(m.id, m.name, m.host, m.zone, m.labels, m.rank, m.weight, session, m.draining, roles))
    return found
