"""Members that run the other protocol under this group's name: claims beside NELI or Fast NELI. A group must run a single
protocol.

Of the two the one that stands in the log first stays, and each side keeps to it by what it reads:

* Nobody begins beside the other. A member of NELI announces itself nowhere, and one of claims doesn't join, while somebody of
  the other protocol may still believe: has neither left (a `yield` on closing, a `leave`, an obituary) nor been silent for as
  long as a belief of its may last, by this reader's stopwatch since it read the last record. A member that is seen to live is a
  reason to stop; of what stood in the log before, nobody knows how old it is. [a group that died in the middle would keep the
  other out for ever]
* Both at once: the order of the log decides. A join that comes back with an announcement before it is taken back by a `leave`.
  An announcement that comes back with a join before it is taken back by a `yield`; its member waits for the `leave`, or for
  what shows that the other goes on.
* A member that has been silent for so long that the other has begun, and lives after all, begins anew, and is then refused: a
  member of claims that reads an announcement after its lease has run out, one of NELI that reads anything of a member of claims
  but its join.

So two never believe at once where both read one log, for the reason of R3 and R4: of a belief that is alive, all that it rests
on stands before the other's join or announcement, and has been waited out. With several partitions NELI has more logs than that
one, and claims reads only its own: there an owner of another partition stops when it reads in this one that claims goes on.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pares.core.lease import challenge_ns
from pares.core.reasons import CLOSED
from pares.core.wire.neli_records import NUMBERED, Announce, Beacon, InductionRecord, Pulse, Yield
from pares.core.wire.records import MAX_SESSION_MS, AnyRecord, Genesis, Join, Leave, Obituary, Unknown

KEPT: Final = 10_000
"""Members that are remembered, the last ones heard."""


class Other(Struct):
    """A member of this group that runs the other protocol."""

    member: str
    runs: str
    n: int
    within_ms: int
    """For how long it may believe after its last record."""
    drift: float
    read_at: int
    """When its last record was read."""
    due_ms: int = 0
    """How long it may be silent, as its own records say: a standby for longer than its session."""
    lives: bool = False
    """It wrote after this reader had come, and more than that it would like to begin."""
    gone: bool = False
    harmless: bool = False
    """It is eligible for nothing."""

    def until(self, drift: float) -> int:
        """When it can't be in anybody's way any more, unless it is heard again, by a stopwatch as bad as `drift`."""
        return self.read_at + challenge_ns(max(self.within_ms, self.due_ms), self.drift, drift)

    def __str__(self) -> str:
        return f"{self.runs!r} ({self.member})"


class Others:
    """Follows those of the other protocol in one log, for a reader of its own protocol."""

    def __init__(self) -> None:
        self._by_id: dict[str, Other] = {}

    def present(self, now: int, drift: float) -> Other | None:
        """A member that may still believe: of several one that is known to live, or else the one to wait for longest."""
        if not self._by_id:
            return None
        there = [o for o in self._by_id.values() if not (o.gone or o.harmless) and now < o.until(drift)]
        return max(there, key=lambda o: (o.lives, o.until(drift)), default=None)

    def known(self) -> Other | None:
        """Somebody who has not left, however long ago it was heard."""
        return next((o for o in list(self._by_id.values()) if not (o.gone or o.harmless)), None)

    def induction(self, record: InductionRecord, now: int, *, new: bool) -> None:
        """A record of NELI or Fast NELI; `new`: it was written since this reader came. Of a member that owns nothing a beacon
        says all the same that its group lives; roles and widths say nothing of who believes."""
        if record.v != 1 or not isinstance(record, Announce | Pulse | Beacon | Yield):
            return
        runs = "neli" if isinstance(record, Beacon) else "fast-neli"
        other = self._heard(record.m, record.n, runs, now)
        if other is None:
            return
        other.lives = new
        other.gone = (
            isinstance(record, Yield) and record.why == CLOSED
        )  # else its group goes on, and will give it to another
        if not isinstance(record, Yield):
            other.within_ms = record.within
        if isinstance(record, Announce):
            other.drift, other.runs = record.drift, record.protocol.removesuffix(NUMBERED) or runs

    def claims(self, record: AnyRecord | Unknown, now: int, *, new: bool) -> None:
        """A record of the claims protocol; `new` as above. A member that has left never returns."""
        if isinstance(record, Unknown | Genesis):
            return  # a genesis needs no member, and an unknown kind may be anybody's
        if isinstance(record, Obituary) and record.of in self._by_id:
            self._by_id[record.of].gone = True
        other = self._heard(record.m, record.n, "claims", now)
        if other is None or other.gone:
            return
        if isinstance(record, Join):
            other.within_ms, other.drift = record.session + record.overlap, record.drift
            other.harmless = record.eligible == ()
        else:
            other.gone, other.lives, other.due_ms = isinstance(record, Leave), new, record.s

    def _heard(self, member: str, n: int, runs: str, now: int) -> Other | None:
        """The sender; None for a late copy. Of one whose beginning was trimmed the longest session is assumed."""
        other = self._by_id.pop(member, None) or Other(member, runs, -1, MAX_SESSION_MS, 0.0, now)
        self._by_id[member] = other
        if len(self._by_id) > KEPT:
            del self._by_id[next(iter(self._by_id))]
        if n <= other.n:
            return None
        other.n, other.read_at = n, now
        return other


def refusal(group: str, other: str, runs: str) -> str:
    """What to tell a member that runs `runs`, and whose group runs `other`."""
    return (
        f"group {group!r} runs {other}, and this member {runs}: give it a group of its own, or begin when the members of the "
        "other have closed"
    )
