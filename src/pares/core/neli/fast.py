"""Fast NELI (docs/neli.md): the group's rebalance callbacks induce leadership, and only the owner of a partition beats.

To the rules of `induced` it adds what a belief rests on (N8): an own beat of the present tenure that was read back, counted
from when it was *sent*. Let k be the newest such record. The owner believes until

    s + L,    L = deadline * (1 - drift) / (1 + drift) - margin

by its own stopwatch, where s is when it handed k over for its first append (`lease`). For each tenure that stands open before
its own announcement, a successor waits a deadline by its own stopwatch, since it *read* that tenure's last record before the
announcement. That record was sent before it was read. What the old owner writes later stands behind the announcement: the old
owner reads the announcement first, and stops. So no two believe at once, given the rates of clocks and the order of the log.
The argument uses neither the group's word nor a wall clock nor the length of the group's session.

The deadline should be shorter than the session for another reason: an owner that is cut off from everything then stops before
the group looks for another, so that a takeover waits for the group only. The difference has to cover what clocks, and the
owner's last word to the group, may be off.

What breaks without these rules: if any record prolongs the belief (W4 in docs/from-goneli.md), the beats of a successor keep a
stale owner leading; if a beat counts from when it was read, a belief outlives the successor's wait by the delay of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pares.core.errors import ConfigError
from pares.core.events import Report
from pares.core.lease import MS, challenge_ns, lease_ns
from pares.core.neli.budget import Share
from pares.core.neli.config import Config
from pares.core.neli.partition import Partition
from pares.core.neli.partition_log import Tenure
from pares.core.neli.phases import EXCLUSIVE, STANDING
from pares.core.wire.neli_records import Announce, InductionRecord, Pulse
from pares.core.wire.reader import EntryLike
from pares.core.wire.records import MAX_DUE_MS

BEATS: Final = 2
"""How many beats an owner sends in a lease, at least, whatever the budget says."""


class Fast:
    """What `induced` asks of Fast NELI. Methods do what those of `classic.Neli` do."""

    name = mode = "fast-neli"
    table = EXCLUSIVE
    everywhere = False

    def __init__(self, config: Config) -> None:
        self.config = config
        self.within_ms = config.threshold_ms
        self.lease_ns = lease_ns(config.threshold_ms, config.drift)
        check_interval(config, self.lease_ns)
        self.share = Share(config.budget, config.interval_ms, self.lease_ns // BEATS, config.session_ms * MS)

    def rests_until(self, part: Partition, record: InductionRecord, entry: EntryLike, now: int, wall_us: int) -> int:
        sent_at = part.outbox.sent.counted
        if isinstance(record, Announce):
            own = record.n == part.outbox.announced
        else:
            own = isinstance(record, Pulse) and record.term == part.token
        if not own or record.m != self.config.id or part.phase not in STANDING or sent_at is None:
            return 0
        return sent_at + self.lease_ns

    def fresh(self, until: int, now: int) -> bool:
        return now < until - self.lease_ns // 4

    def ready_at(self, tenure: Tenure, stamp_ms: int, now: int) -> int:
        return tenure.read_at + self.silence_ns(tenure)

    def is_silent(self, tenure: Tenure, now: int) -> bool:
        return True

    def silence_ns(self, tenure: Tenure) -> int:
        return challenge_ns(tenure.within_ms, tenure.drift, self.config.drift)

    def blind_ns(self) -> int:
        return challenge_ns(self.within_ms, 0.0, self.config.drift)

    def beat(self, part: Partition, now: int, at_ms: int) -> tuple[type[Any], dict[str, Any]] | None:
        """Only an owner beats."""
        return (Pulse, {"within": self.within_ms, **part.says(now, at_ms)}) if part.phase in STANDING else None

    def interval_ns(self, part: Partition) -> int:
        return self.share.interval_ns

    def due_ms(self, part: Partition, kind: type[Any]) -> int:
        return self.share.interval_ns // MS if kind in (Announce, Pulse) else MAX_DUE_MS

    def reports(self) -> Iterator[Report]:
        if self.share.exceeded:
            text = (
                f"more than {self.config.budget} beats a second go to this topic, because a deadline of {self.within_ms} ms "
                f"needs {BEATS} beats: use fewer groups or partitions, or a longer deadline"
            )
            yield Report("beacon-budget", text)


def check_interval(config: Config, lease: int) -> None:
    """Raises `ConfigError` unless two beats fit into a lease: else one late beat would fence the owner."""
    if BEATS * config.interval_ms * MS > lease:
        raise ConfigError(
            f"a beat every {config.interval_ms} ms does not fit a deadline of {config.threshold_ms} ms: of that, a drift of "
            f"{config.drift:g} leaves {lease / 1e6:.1f} ms, and two beats take {BEATS * config.interval_ms} ms; "
            "use a shorter interval or a longer deadline"
        )
