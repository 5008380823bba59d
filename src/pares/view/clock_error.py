"""How far the log's clock is from this host's: what exclusive NELI's bound e has to cover, measured by appending.

A record is appended; the wall clock of this host is w0 just before and w1 when it is acknowledged; the log says that it was
appended at B, in whole milliseconds, rounded down. The append happened in between, so

    B - w1  <=  (log's clock - own clock)  <=  B + 1 ms - w0

whatever the way there and the way back took; the middle is known to within half of the round trip, and half a millisecond.
Several appends narrow it: both bounds hold for each. Where they contradict each other a clock was set meanwhile, and what is
told is the widest that was seen.

What it does not say: how far the clocks of *other* hosts are from the log's (run it on each), what the clock of a broker shows
that does not lead a partition now, and what any of them will show later.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Final

from pares.core.errors import LedgerUnavailable
from pares.core.wire.records import VERSION, Beat, encode
from pares.ledger import Log

GROUP: Final = "pares-doctor"
"""The group in whose name the records are written: no other group's members look at them."""
APPENDS: Final = 32
"""How many are appended in all, but `LEAST` to a partition."""
LEAST: Final = 3
MOST_PARTITIONS: Final = 64
"""Partitions that are looked at: all leaders of a topic lead one of the first few."""
MS_US: Final = 1000


@dataclass(frozen=True, slots=True)
class ClockError:
    """The log's clock less this host's, in microseconds: between `low_us` and `high_us`, for all partitions' leaders."""

    low_us: int
    high_us: int
    round_trip_us: int
    """The shortest one."""
    appends: int
    partitions: int
    moved: bool
    """A clock was set, or ran off, while it was measured."""

    @property
    def bound_us(self) -> int:
        """Neither clock is further from the other than this."""
        return max(abs(self.low_us), abs(self.high_us))

    def above(self, error_ms: int) -> bool:
        """Whether the clocks are surely further apart than `error_ms`."""
        return self.low_us > error_ms * MS_US or self.high_us < -error_ms * MS_US

    def within(self, error_ms: int) -> bool:
        """Whether they are surely no further apart than that."""
        return self.bound_us <= error_ms * MS_US

    def __str__(self) -> str:
        middle, half = (self.low_us + self.high_us) / 2 / MS_US, (self.high_us - self.low_us) / 2 / MS_US
        return f"{middle:+.2f} ms, give or take {half:.2f} ms"


def measure(log: Log) -> ClockError:
    """Appends some small records to each partition of `log` (in a group of their own) and reads their times back.

    Raises what appending and reading raise.
    """
    me, n = f"doctor~{os.urandom(4).hex()}", 0
    partitions = min(log.partitions, MOST_PARTITIONS)
    count = max(LEAST, APPENDS // partitions)
    found: list[ClockError] = []
    for partition in range(partitions):
        samples: list[tuple[int, int, int]] = []
        for _ in range(count):
            n += 1
            payload = encode(Beat(v=VERSION, g=GROUP, m=me, n=n, b=0, s=0))
            before = time.time_ns() // MS_US
            offset = log.append(payload, partition)
            after = -(-time.time_ns() // MS_US)
            entries = log.read(offset, partition, 1, timeout=5.0)
            if not entries or entries[0].offset != offset:
                raise LedgerUnavailable(
                    f"{log.url}: offset {offset} of partition {partition} can't be read back: try again"
                )
            samples.append((before, after, entries[0].timestamp_ms * MS_US))
        found.append(narrowed(samples))
    low, high = min(f.low_us for f in found), max(f.high_us for f in found)
    appends, least = sum(f.appends for f in found), min(f.round_trip_us for f in found)
    return ClockError(low, high, least, appends, partitions, any(f.moved for f in found))


def narrowed(samples: list[tuple[int, int, int]]) -> ClockError:
    """What (before, after, the log's time) of each of some appends to one partition say together. Microseconds."""
    lows = [stamp - after for _, after, stamp in samples]
    highs = [stamp + MS_US - before for before, _, stamp in samples]
    low, high = max(lows), min(highs)
    moved = low > high
    if moved:
        low, high = min(lows), max(highs)
    return ClockError(low, high, min(after - before for before, after, _ in samples), len(samples), 1, moved)
