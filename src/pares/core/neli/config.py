"""What a member of the NELI family is made with.

A `Group` gives each of the partitions 0 to M-1 to one member; the protocol derives leadership from that, and from the log of
each partition, which tells who else may believe. Each partition has its own position, its own appends and its own lease.
"""

from __future__ import annotations

from msgspec import Struct

from pares.core.neli.budget import BUDGET


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
    """Fast NELI: the deadline within which an owner's own beat must come back. NELI: T."""
    interval_ms: int = 100
    """Between two beats, or two beacons on a partition."""
    session_ms: int = 3000
    """The silence after which the group may give partitions to others, at the earliest: set by the group, not by the member."""
    drift: float = 0.1
    barrier_ms: int = 30_000
    seen: int = 0
    """The largest token that earlier incarnations of this process have seen."""
    exclusive: bool = True
    """NELI: at most one leader. NELE (False): rather two for a while than none."""
    error_ms: int = 0
    """NELI, exclusive: e, how far the broker's clock and any member's may be apart."""
    seats: int = 1
    """By how many members each role is led."""
    budget: int = BUDGET
    """Beats a second that all members of all groups on the topic stay within, where their beliefs bear that (`budget`)."""
    numbered: bool = True
    """Names get their numbers from the log, unless a member of the group knows their hashes only."""
    restate_ms: int = 0
    """How often the leader of a partition writes its roles down again, in a log with retention; 0: never."""
