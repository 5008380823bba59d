"""NELI and NELE (docs/neli.md): every member beacons on every partition, and an owner leads its partition while it goes on
reading beacons there.

V, the paper's vector, is here each partition's `until`: the time of the last beacon, plus the threshold T.

**Non-exclusive** (N10, NELE; T above the group's session): V takes the reader's own time of any member's beacon. An owner that
loses a partition goes on believing until T has passed without a beacon, or until it reads that another member *leads* there. So
there is no instant without a leader when partitions move, and after a crash another member leads within the group's session and
a read. The overlap of an owner that is cut off from everything is at most T less the session, plus a heartbeat: the session
begins with the last heartbeat that reached the group. Once another announcement stands after its own nothing prolongs its
belief: two lead for T at most, and for as long again as the earlier owner stands still with records that it had fetched before.
[the group forgets to tell an owner, and the successor's word that it leads is lost: both lead while any member sends beacons]

**Exclusive** (N9; T + e below the session): V takes the *broker's* time of this member's own beacon. Let stamp be that time;
the owner believes while its wall clock shows less than stamp + T. With every clock within e of the broker's, the belief is over
by the broker's stamp + T + e, however late the beacon was read, and however long the process stood still before that, or
between its looks at its two clocks (`Read`). [a local time would let a process that was frozen with a full buffer believe for T
more] A successor that reads its own announcement back sees how long its predecessor had been silent before it, by the broker's
times. It waits for what is left of T + e: the paper's grace period, and 2T for a takeover at worst. It waits for nothing when
the predecessor's `yield` stands before the announcement, and for nothing after a crash: then the predecessor has been silent
for the group's session, and T + e is below that. For this the sum is checked when a member is made. It does not make leaders
exclusive (the wait does); it makes takeovers as fast as the group.

The paper counts any beacon, this code only the owner's own: an owner that can read but not write would otherwise lead on by the
beacons of others, even those of its successor, and its own silence, which the successor sees, would say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pares.core.errors import ConfigError
from pares.core.events import Report
from pares.core.lease import MS
from pares.core.neli.budget import Share
from pares.core.neli.config import Config
from pares.core.neli.partition import Partition
from pares.core.neli.partition_log import Tenure
from pares.core.neli.phases import EXCLUSIVE, GIVEN, NON_EXCLUSIVE, STANDING, Phase
from pares.core.wire.neli_records import Announce, Beacon, InductionRecord
from pares.core.wire.reader import EntryLike

BEACONS: Final = 4
"""How many beacons of its own a member sends in a threshold, at least, when it is alone on its topic."""
SHARED: Final = 2
"""The same for an exclusive owner that shares its topic with other groups."""


class Neli:
    """What `induced` asks of NELI and NELE."""

    name = "neli"
    everywhere = True
    """It beats on all partitions, its own or not."""

    def __init__(self, config: Config) -> None:
        check_threshold(config)
        self.config = config
        self.exclusive = config.exclusive
        self.mode = "neli" if config.exclusive else "nele"
        """What this member says that it runs: all members of a group run the same."""
        self.table = EXCLUSIVE if config.exclusive else NON_EXCLUSIVE
        self.within_ms = config.threshold_ms + (config.error_ms if config.exclusive else 0)
        """What announcements say: for how many milliseconds after a record of its own an owner may believe."""
        # Where T + e must stay below the session T is fixed, and beats may exceed the budget; else T follows the beacons.
        slowest = (config.threshold_ms - config.error_ms) * MS // SHARED if config.exclusive else None
        session_ns = config.session_ms * MS
        apart = session_ns // 2 if config.exclusive else None
        self.share = Share(config.budget, config.interval_ms, slowest, session_ns, apart)
        self._clock_is_wrong = ""

    # What a belief rests on ----------------------------------------------------------------------------------------------

    def rests_until(self, part: Partition, record: InductionRecord, entry: EntryLike, now: int, wall_us: int) -> int:
        """Until when a belief of this member may rest on a record that counted; 0: none does."""
        if not self.exclusive:
            kept = part.phase in GIVEN and not any(token > part.token for token in part.track.open)
            return now + self.threshold_ns if kept else 0
        if record.m != self.config.id:
            return 0
        self._look_at_clock(record, entry[1])
        if isinstance(record, Announce):
            own = record.n == part.outbox.announced
        else:
            own = isinstance(record, Beacon) and record.term == part.token
        if not own or part.phase not in STANDING:
            return 0
        age_us = wall_us - entry[1] * 1000
        if age_us < -(self.config.error_ms + 1) * 1000:
            self._clock_is_wrong = (
                f"the broker's clock is {-age_us / 1000:.0f} ms ahead of this member's, and clock_error is "
                f"{self.config.error_ms} ms: no leadership rests on that; synchronise the clocks, or state a larger error"
            )
            return 0
        left_us = self.config.threshold_ms * 1000 - age_us
        return now + int(left_us * 1000 * (1 - self.config.drift))

    def _look_at_clock(self, record: InductionRecord, stamp_ms: int) -> None:
        """Compares the time that this member wrote into a record with the broker's stamp, which is always taken later. If the
        written time is ahead, the clocks are at least so far apart. The belief is still safe; it only ends earlier."""
        ahead_ms = record.at - stamp_ms
        if ahead_ms > self.config.error_ms + 1:
            self._clock_is_wrong = (
                f"this member's clock is {ahead_ms} ms or more ahead of the broker's, and clock_error is "
                f"{self.config.error_ms} ms: its leaderships are so much shorter, and there is none when that is T = "
                f"{self.config.threshold_ms} ms or more; synchronise the clocks, or state a larger error"
            )

    @property
    def threshold_ns(self) -> int:
        """T, as it is now: in non-exclusive mode it follows the beacons when the budget makes them seldom."""
        return max(self.config.threshold_ms * MS, BEACONS * self.share.interval_ns)

    def fresh(self, until: int, now: int) -> bool:
        """Whether enough of a lease is left to begin a term: a quarter of the lease that a member with the worst clock gets."""
        sure_ms = self.config.threshold_ms - (self.config.error_ms if self.exclusive else 0)
        return now < until - sure_ms * MS // 4

    # What a successor waits for ------------------------------------------------------------------------------------------

    def ready_at(self, tenure: Tenure, stamp_ms: int, now: int) -> int:
        """When a tenure that stands open before this member's own record, of `stamp_ms`, can't be believed in any more."""
        silent_ms = max(0, stamp_ms - tenure.stamp_ms)
        if not self.exclusive or silent_ms >= tenure.within_ms:
            return now
        return now + self.grace_ns(tenure.within_ms - silent_ms)

    def grace_ns(self, within_ms: int) -> int:
        """T + e by the broker's clock take no longer than this by a fast stopwatch."""
        return int(within_ms * MS * (1 + self.config.drift)) + 1

    def is_silent(self, tenure: Tenure, now: int) -> bool:
        """Whether the owner of a tenure that is open when this member begins to lead has gone silent. (In non-exclusive mode
        the owner may be lingering; then it beacons several times in a session.)"""
        return self.exclusive or now >= tenure.read_at + self.config.session_ms * MS // 2

    def silence_ns(self, tenure: Tenure) -> int:
        """How long after its last record a tenure must have ended."""
        return self.grace_ns(tenure.within_ms if self.exclusive else self.config.session_ms)

    def blind_ns(self) -> int:
        """How long to wait for owners that the log no longer shows."""
        return self.grace_ns(self.within_ms) if self.exclusive else 0

    # Beacons ---------------------------------------------------------------------------------------------------------------

    def beat(self, part: Partition, now: int, at_ms: int) -> tuple[type[Any], dict[str, Any]] | None:
        """What to write when a beat is due here; None: nothing is ever due."""
        said = part.says(now, at_ms) if part.phase in STANDING else {"at": at_ms}
        return Beacon, {"within": self.within_ms, **said}

    def interval_ns(self, part: Partition) -> int:
        """Owners beacon to renew a belief, others only to show that they are there."""
        return self.share.interval_ns if part.phase is not Phase.IDLE else self.share.standby_ns

    def due_ms(self, part: Partition, kind: type[Any]) -> int:
        """By when this member's next record in this partition is due (R16), after one of that kind."""
        return self.interval_ns(part) // MS

    def reports(self) -> Iterator[Report]:
        """What a person should know of the budget and of clocks."""
        if self.share.exceeded:
            text = (
                f"more than {self.config.budget} beacons a second go to this topic, because "
                f"T = {self.config.threshold_ms} ms must stay below the group's session and needs {SHARED} beacons of an "
                "owner: use fewer groups or partitions, or a longer session"
            )
            yield Report("beacon-budget", text)
        if self._clock_is_wrong:
            yield Report("clock-error", self._clock_is_wrong)
            self._clock_is_wrong = ""


def check_threshold(config: Config) -> None:
    """Raises `ConfigError` unless T suits the mode, and some beacons fit into it."""
    t, e, session = config.threshold_ms, config.error_ms, config.session_ms
    if config.exclusive and t + e >= session:
        raise ConfigError(
            f"exclusive NELI needs T + clock_error below the group's session: {t} ms + {e} ms = {t + e} ms, and the session is "
            f"{session} ms; use a smaller T, better clocks or a longer session"
        )
    if not config.exclusive and t <= session:
        raise ConfigError(
            f"non-exclusive NELI needs T above the group's session, or there are times without a leader: T is {t} ms and the "
            f"session {session} ms; use a larger T or a shorter session"
        )
    sure = t - e if config.exclusive else t
    if BEACONS * config.interval_ms > sure:
        less = f" less a clock_error of {e} ms" if config.exclusive else ""
        raise ConfigError(
            f"a beacon every {config.interval_ms} ms does not fit T = {t} ms{less}, which needs {BEACONS} of them: "
            f"use at most {max(0, sure // BEACONS)} ms, or a larger T"
        )
