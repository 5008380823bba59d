"""NELI and NELE (docs/neli.md): everybody beacons on every partition, and whoever goes on reading the beacons of a
partition that the group gave it leads that partition.

V, the paper's vector, is here each partition's `until`: the time of the last beacon, plus the threshold T.

**Non-exclusive** (N10, NELE; T above the group's session): V takes the reader's own time, of anybody's beacon. An owner that
loses a partition goes on believing, until T has passed without a beacon or until it reads that another *leads* there. So there
is no instant without a leader when partitions move, and after a crash somebody leads within the group's session and a read; of
an owner that is cut off from everything the overlap is at most T less the session and a heartbeat, as the session begins with
the last one that the group had of it. Once another's announcement stands after its own, nothing re-arms it: two lead for T at
the most, and for as long again as the earlier one stands still with records that it had fetched before. [an owner that the
group forgot to tell, and a successor whose word that it leads does not come, led both for as long as anybody sent beacons]

**Exclusive** (N9; T + e below the session): V takes the *broker's* time of this member's own beacon. Let stamp be that time;
the owner believes while its wall clock shows less than stamp + T. With every clock within e of the broker's, the belief is over
by the broker's stamp + T + e, however late the beacon was read and however long the process stood still before, or between its
looks at its two clocks (`Heard`). [a local time would let a process that was frozen with a full buffer believe for T more] A
successor reads, with its own announcement, how long its predecessor had been silent before it by the broker's times, and waits
for what is left of T + e: the paper's grace period, worst case 2T for a takeover. It waits for nothing when the predecessor's
`yield` stands before it. And for nothing after a crash: then the predecessor has been silent for the group's session, and T + e
is below that. Hence the sum is checked when a member is made: it does not make leaders exclusive (the wait does), it makes
takeovers as fast as the group.

Why one's own beacon, where the paper takes any: whoever can read but not write would be kept leading by others' beacons for as
long as they come, also by those of its successor, and its own silence, which the successor sees, would say nothing.
"""

from __future__ import annotations

from typing import Any, Final

from pares.core.errors import ConfigError
from pares.core.events import Effect
from pares.core.lease import MS
from pares.core.neli.budget import Share
from pares.core.neli.config import Config
from pares.core.neli.induced import Induced
from pares.core.neli.partition import Part
from pares.core.neli.partition_log import Tenure
from pares.core.neli.phases import EXCLUSIVE, NON_EXCLUSIVE, STANDING, Phase
from pares.core.wire.neli_records import Announce, Beacon, InductionRecord
from pares.core.wire.reader import EntryLike

BEACONS: Final = 4
"""Beacons of its own that a member gets into a threshold, at the least, when it is alone on its topic."""
SHARED: Final = 2
"""The same whatever shares the topic with it."""


class Neli(Induced):
    """One incarnation of a member that runs NELI. Feed it events, carry out its effects, in order."""

    name = "neli"

    def __init__(self, config: Config) -> None:
        self.exclusive = config.exclusive
        self.table = EXCLUSIVE if config.exclusive else NON_EXCLUSIVE
        self.within_ms = config.threshold_ms + (config.error_ms if config.exclusive else 0)
        check_threshold(config)
        # Where T + e must stay below the session T is given, and the budget yields; else T follows the beacons.
        slowest = (config.threshold_ms - config.error_ms) * MS // SHARED if config.exclusive else None
        session_ns = config.session_ms * MS
        apart = session_ns // 2 if config.exclusive else None
        self._share = Share(config.budget, config.interval_ms, slowest, session_ns, apart)
        super().__init__(config)

    @property
    def mode(self) -> str:
        return "neli" if self.exclusive else "nele"

    # What a belief rests on ----------------------------------------------------------------------------------------------

    def _rearm(self, part: Part, record: InductionRecord, entry: EntryLike, now: int, wall_us: int) -> None:
        if not self.exclusive:
            if part.assigned and not any(token > part.token for token in part.track.open):
                part.until = max(part.until, now + self.threshold_ns)
            return
        if record.m != self.me:
            return
        self._look_at_clock(record, entry[1])
        if part.phase not in STANDING:
            return
        if isinstance(record, Announce):
            own = record.n == part.announced
        else:
            own = isinstance(record, Beacon) and record.term == part.token
        if not own:
            return
        age_us = wall_us - entry[1] * 1000
        if age_us < -(self.config.error_ms + 1) * 1000:
            text = (
                f"the broker's clock is {-age_us / 1000:.0f} ms ahead of this member's, and clock_error is "
                f"{self.config.error_ms} ms: no leadership rests on that; synchronise the clocks, or state a larger error"
            )
            self._clock_is_wrong = text
            return
        left_us = self.config.threshold_ms * 1000 - age_us
        part.until = max(part.until, now + int(left_us * 1000 * (1 - self.config.drift)))

    def _look_at_clock(self, record: InductionRecord, stamp_ms: int) -> None:
        """A record of one's own is stamped after its time was written into it, however long it was on its way: what it is ahead
        of its stamp by, the clocks are apart. Nothing is wrong with a belief then, it only ends the earlier."""
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
        return max(self.config.threshold_ms * MS, BEACONS * self._share.interval_ns)

    def _good(self, part: Part, now: int) -> bool:
        """A quarter is left of what a member with the worst clock ever has."""
        sure_ms = self.config.threshold_ms - (self.config.error_ms if self.exclusive else 0)
        return now < part.until - sure_ms * MS // 4

    # What a successor waits for ------------------------------------------------------------------------------------------

    def _ready_at(self, part: Part, tenure: Tenure, stamp_ms: int, now: int) -> int:
        silent_ms = max(0, stamp_ms - tenure.stamp_ms)
        if not self.exclusive or silent_ms >= tenure.within_ms:
            return now
        return now + self._grace_ns(tenure.within_ms - silent_ms)

    def _grace_ns(self, within_ms: int) -> int:
        """T + e by the broker's clock take no longer than this by a fast stopwatch."""
        return int(within_ms * MS * (1 + self.config.drift)) + 1

    def _is_silent(self, tenure: Tenure, now: int) -> bool:
        """Non-exclusive: whoever lingers is open too, and beacons several times in a session."""
        return self.exclusive or now >= tenure.read_at + self.config.session_ms * MS // 2

    def _silence_ns(self, tenure: Tenure) -> int:
        return self._grace_ns(tenure.within_ms if self.exclusive else self.config.session_ms)

    def _blind_ns(self) -> int:
        return self._grace_ns(self.within_ms) if self.exclusive else 0

    # Beacons ---------------------------------------------------------------------------------------------------------------

    def _beat(self, part: Part, now: int, at_ms: int) -> tuple[type[Any], dict[str, Any]] | None:
        fields: dict[str, Any] = {"within": self.within_ms, "at": at_ms}
        if part.phase in STANDING:
            fields |= part.says(now, at_ms)
        return Beacon, fields

    @property
    def pace_ns(self) -> int:
        return self._share.interval_ns

    def _interval_ns(self, part: Part) -> int:
        """Owners renew a belief; of everybody else it is only to be known that they are there."""
        return self._share.interval_ns if part.phase is not Phase.IDLE else self._share.standby_ns

    def over_budget(self) -> bool:
        """Whether T keeps beacons more frequent than the budget would have them."""
        return self._share.exceeded

    _clock_is_wrong = ""

    def _look_around(self, part: Part, now: int, effects: list[Effect]) -> None:
        super()._look_around(part, now, effects)
        self._share.reckon([p.track for p in self.parts], (self.config.group, self.me), True, now)
        if self._share.exceeded:
            text = (
                f"more than {self.config.budget} beacons a second go to this topic, because "
                f"T = {self.config.threshold_ms} ms must stay below the group's session and needs {SHARED} beacons of an "
                "owner: use fewer groups or partitions, or a longer session"
            )
            self._report("beacon-budget", text, effects)
        if self._clock_is_wrong:
            self._report("clock-error", self._clock_is_wrong, effects)
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
