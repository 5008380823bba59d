"""What a member counts and times about itself: written by its threads, read by health, probes and metrics.

These are plain values; `pares.metrics` carries them to Prometheus and OpenTelemetry.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from pares.core import reasons
from pares.core.wire.changes import SeatChanged
from pares.core.wire.records import Seat
from pares.runtime.host import Host

log: Final = logging.getLogger("pares.member")

BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the histograms' buckets, in seconds. The last bucket has no upper bound."""
CAUSES: Final = ("unled", "transfer", "silent", "died", "assigned", "outbid")
"""How a term is gained: the seat was free; its holder handed it over, was silent for its session, or is proven dead; a group
gave out the partition, and no earlier owner was silent (NELI); the leader's own token had become too low (ALLCALL)."""
BEATS: Final = (b'"k":"beat"', b'"k":"beacon"', b'"k":"pulse"', b'"k":"ping"')
"""The kinds of beats, as they stand in records: of claims, NELI, Fast NELI, and ALLCALL."""
BEGINNING: Final = 24
"""A record's kind stands in its first so many bytes."""
TAKEOVERS: Final = ("silent", "died")
TAKEN: Final = "taken"
"""Why a term was lost: another member's claim or obituary was read."""
OTHER: Final = "other"
"""Why a term was lost: for a reason in the user's own words, by which nothing can be counted."""
_KNOWN: Final = reasons.REASONS | {
    reasons.REVOKED,
    reasons.LOST,
    reasons.SUPERSEDED,
    reasons.OUTRANKED,
    reasons.OUTBID,
    reasons.ISOLATED,
}


class Histogram:
    """How many times fell into each bucket, and the sum of all. Safe to use from several threads."""

    def __init__(self, host: Host, bounds: Sequence[float] = BOUNDS) -> None:
        self.bounds: Final = tuple(bounds)
        self.listeners: tuple[Callable[[float], object], ...] = ()
        """Called with every time that is noted, on the thread that notes it; errors that they raise are logged."""
        self._counts = [0] * (len(self.bounds) + 1)
        self._sum = 0.0
        self._lock = host.lock()

    def note(self, seconds: float) -> None:
        with self._lock:
            self._counts[bisect_left(self.bounds, seconds)] += 1
            self._sum += seconds
        for listener in self.listeners:
            try:
                listener(seconds)
            except Exception:
                log.exception("a listener to a member's measures raised")

    def read(self) -> tuple[list[int], float]:
        """How many times fell into each bucket (the last one has no upper bound), and their sum in seconds."""
        with self._lock:
            return list(self._counts), self._sum


class Measures:
    """The counters and times of one member. Counters never go down, also when the member begins anew within its process."""

    def __init__(self, host: Host) -> None:
        self._now = host.now
        self.gained: Counter[str] = Counter(dict.fromkeys(CAUSES, 0))
        """Terms begun, by cause."""
        self.lost: Counter[str] = Counter()
        """Terms ended, by reason: a word of `core.reasons`, `TAKEN` or `OTHER`."""
        self.records = 0
        """Records written: most of them are beats."""
        self.beats = 0
        """How many of these records are beats."""
        self.failed_appends = 0
        """Appends that failed, or whose outcome is unknown."""
        self.appends = Histogram(host)
        """Of each append: until it was acknowledged or had failed."""
        self.read_backs = Histogram(host)
        """Of each record: from handing it over to having read it back; with claims, of each record that renewed the lease."""
        self.reads_back = True
        """Whether there is a log to read back from."""
        self.slack = Histogram(host)
        """What was left of the lease when it was renewed. When this comes near 0, terms will be lost."""
        self.barriers = Histogram(host)
        """From the planned end of a term until the barrier and all bodies have returned."""
        self.waits = Histogram(host)
        """Of each takeover: from reading the last record of the silent or dead leader to the beginning of the term here."""
        self.last_append: float | None = None
        """Seconds that the last append took; None before the first."""
        self.lease_ns = 0
        """How long a lease is; 0 where the protocol has none of its own."""
        self._freed: dict[Seat, str] = {}
        self._causes: dict[Seat, str] = {}
        self._signs: dict[Seat, int] = {}

    @property
    def takeovers(self) -> int:
        """Terms gained from a holder that was silent or dead."""
        return sum(self.gained[cause] for cause in TAKEOVERS)

    # By the loop's thread ---------------------------------------------------------------------------------------------

    def appended(self, payloads: Sequence[bytes], seconds: float, done: bool) -> None:
        self.appends.note(seconds)
        self.last_append = seconds
        if done:
            self.records += len(payloads)
            self.beats += sum(any(kind in payload[:BEGINNING] for kind in BEATS) for payload in payloads)
        else:
            self.failed_appends += 1

    def changed(self, change: SeatChanged, me: str) -> None:
        """A seat has another holder. If that is this member (`me`), remembers how its next term was gained."""
        freed = self._freed.pop(change.seat, "")
        if change.holder is None:
            self._freed[change.seat] = change.cause
        elif change.holder == me:
            if change.cause == "transfer":
                cause = "transfer"
            elif change.before is not None:
                cause = "silent"
            else:
                cause = "died" if freed == "obituary" else "unled"
            self._causes[change.seat] = cause

    def gains(self, seat: Seat, cause: str) -> None:
        """Says how the next term of this seat is gained, for protocols whose records don't show it."""
        self._causes[seat] = "unled" if cause == "free" else cause

    def heard_before(self, seat: Seat, at: int | None) -> None:
        """Says when the last record of the holder before the next term of this seat was read, by the stopwatch."""
        if at is not None:
            self._signs[seat] = at

    def begins(self, seat: Seat) -> None:
        cause, sign = self._causes.pop(seat, "assigned"), self._signs.pop(seat, None)
        self.gained[cause] += 1
        if cause in TAKEOVERS and sign is not None:
            self.waits.note((self._now() - sign) / 1e9)

    def ends(self, why: str, fenced: bool) -> None:
        if why not in _KNOWN:
            known = [one for one in _KNOWN if why.startswith(one)]
            why = max(known, key=len) if known else TAKEN if fenced else OTHER
        self.lost[why] += 1

    def renews(self, before: int, until: int, now: int) -> None:
        """A lease that lasted until `before` now lasts until `until`."""
        self.slack.note(max(0, before - now) / 1e9)
        if self.lease_ns:
            self.read_backs.note(max(0, now - (until - self.lease_ns)) / 1e9)
