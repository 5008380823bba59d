"""Fast NELI (docs/neli.md): the group's rebalance callbacks induce leadership, and only the owner of a partition beats.

To the rules of `induced` it adds what a belief rests on (N8): a beat of one's own, of the present tenure, that was read back,
counted from when it was *sent*. Let k be the newest such record. The owner believes until

    s + L,    L = deadline * (1 - drift) / (1 + drift) - margin

by its own stopwatch, where s is when it handed k over for its first append (`lease`). A successor waits, for each tenure that
stands open before its own announcement, a deadline by its own stopwatch, since it *read* that tenure's last record before the
announcement. That record was sent before it was read, and whatever the old owner writes later stands behind the announcement:
it reads that first, and stops. So no two believe at once, given the rates of clocks and the order of the log; neither the
group's word nor anybody's wall clock is part of the argument, nor how long the group's session is.

What the deadline has to do with the session is another matter: below the session, by as much as clocks and the owner's last
word to the group may be off, an owner that is cut off from everything has stopped before the group even looks for another, so
that a takeover waits for the group only.

What breaks without these rules: if any record re-arms the deadline (W4 in docs/from-goneli.md), a stale owner is kept alive by
the beats of its successor; if a beat counts from when it was read, a belief outlives the wait of the successor by the delay of
the log.
"""

from __future__ import annotations

from typing import Any, Final

from pares.core.errors import ConfigError
from pares.core.events import Effect
from pares.core.lease import MS, challenge_ns, lease_ns
from pares.core.neli.budget import Share
from pares.core.neli.config import Config
from pares.core.neli.induced import Induced
from pares.core.neli.partition import Part
from pares.core.neli.partition_log import Tenure
from pares.core.neli.phases import EXCLUSIVE, STANDING
from pares.core.wire.neli_records import Announce, InductionRecord, Pulse
from pares.core.wire.reader import EntryLike
from pares.core.wire.records import MAX_DUE_MS

BEATS: Final = 2
"""Beats of its own that an owner gets into a lease, at the least, whatever the budget says."""


class Fast(Induced):
    """One incarnation of a member that runs Fast NELI. Feed it events, carry out its effects, in order."""

    name = "fast-neli"
    table = EXCLUSIVE

    def __init__(self, config: Config) -> None:
        self.within_ms = config.threshold_ms
        self.lease_ns = lease_ns(config.threshold_ms, config.drift)
        check_interval(config, self.lease_ns)
        self._share = Share(config.budget, config.interval_ms, self.lease_ns // BEATS, config.session_ms * MS)
        super().__init__(config)

    def _rearm(self, part: Part, record: InductionRecord, entry: EntryLike, now: int, wall_us: int) -> None:
        if record.m != self.me or part.phase not in STANDING or part.sent.counted is None:
            return
        if isinstance(record, Announce):
            own = record.n == part.announced
        else:
            own = isinstance(record, Pulse) and record.term == part.token
        if own:
            part.until = max(part.until, part.sent.counted + self.lease_ns)

    def _ready_at(self, part: Part, tenure: Tenure, stamp_ms: int, now: int) -> int:
        return tenure.read_at + self._silence_ns(tenure)

    def _silence_ns(self, tenure: Tenure) -> int:
        return challenge_ns(tenure.within_ms, tenure.drift, self.config.drift)

    def _blind_ns(self) -> int:
        return challenge_ns(self.within_ms, 0.0, self.config.drift)

    def _good(self, part: Part, now: int) -> bool:
        return now < part.until - self.lease_ns // 4

    @property
    def pace_ns(self) -> int:
        return self._share.interval_ns

    def over_budget(self) -> bool:
        """Whether the deadline keeps beats more frequent than the budget would have them."""
        return self._share.exceeded

    def _look_around(self, part: Part, now: int, effects: list[Effect]) -> None:
        super()._look_around(part, now, effects)
        self._share.reckon([p.track for p in self.parts], (self.config.group, self.me), False, now)
        if self._share.exceeded:
            text = (
                f"more than {self.config.budget} beats a second go to this topic, because a deadline of {self.within_ms} ms "
                f"needs {BEATS} beats: use fewer groups or partitions, or a longer deadline"
            )
            self._report("beacon-budget", text, effects)

    def _due_ms(self, part: Part, kind: type[Any]) -> int:
        """Only an owner beats."""
        return super()._due_ms(part, kind) if kind in (Announce, Pulse) else MAX_DUE_MS

    def _beat(self, part: Part, now: int, at_ms: int) -> tuple[type[Any], dict[str, Any]] | None:
        if part.phase not in STANDING:
            return None
        return Pulse, {"within": self.within_ms, **part.says(now, at_ms)}


def check_interval(config: Config, lease: int) -> None:
    """Raises `ConfigError` unless two beats fit into a lease: one that is late would be a fence."""
    if BEATS * config.interval_ms * MS > lease:
        raise ConfigError(
            f"a beat every {config.interval_ms} ms does not fit a deadline of {config.threshold_ms} ms: of that, a drift of "
            f"{config.drift:g} leaves {lease / 1e6:.1f} ms, and two beats take {BEATS * config.interval_ms} ms; "
            "use a shorter interval or a longer deadline"
        )
