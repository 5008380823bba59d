"""One term of one partition, as its consumer works on it: what to fetch next, what was given out, what is done.

    fetched   records are here, and not given out
    taking    at most once: takes of them are asked for, and were not read back (C4)
    ready     they wait for the user's next step, as a batch or in lanes
    out       they are with the user

Everything here is done by the feeder, but for what becomes of records that are out, which any thread of the user's may say.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec import Struct

from pares.core import events as ev
from pares.core.consume.lanes import Lanes, Order
from pares.core.consume.names import WHOLE, Partition
from pares.core.consume.progress import Progress, Span
from pares.core.consume.ranging import Ranges
from pares.core.consume.velocity import Velocity
from pares.core.wire.records import MAX_RUNS
from pares.core.wire.states import AheadState
from pares.ledger.sources import Fetched, Record, Source
from pares.runtime.consume.batch import Batch
from pares.runtime.consume.kit import Seated
from pares.runtime.term import Term
from pares.runtime.work.barriers import Body

AHEAD: Final = 16
"""Batches of one partition that may be with the user, and not done, before no more of it are given out."""
WAITING: Final = 1
"""Batches of one partition that wait for the user."""
MOST_LEFT: Final = 10_000
"""Records of one partition that were fetched for lanes and are not done, before no more are fetched."""
MOST_BYTES: Final = 4
"""Fetches of `batch_bytes` each that they may fill."""
FIRST_PAUSE: Final = 0.05
"""Seconds after a fetch that failed."""
LONGEST_PAUSE: Final = 2.0


class Asked(Struct, eq=False):
    """A take of these was asked for, up to before `upto`. `body`: a planned handover waits for the word of it (C4)."""

    lot: Batch | Fetched
    upto: int
    body: Body


class Tenancy:
    """`end`: where its partition was last seen to end; 0 of a slot, whose position may lie behind that, before it was seen."""

    def __init__(self, source: Source, begins: ev.Begins, partition: Partition, term: Term, order: Order) -> None:
        position = begins.position
        self.ranges: Ranges | None = None if partition.slot == WHOLE or partition.keys else Ranges()
        """Of a slot of ranges (C11): what of the partition it may work on."""
        self.elsewhere = begins.elsewhere
        """What other divisions of the partition have done (C12)."""
        self.first = begins.first
        """Nobody has held the seat before this term."""
        self.source = source
        self.partition = partition
        self.role: Final = partition.role
        self.term = term
        self.progress = Progress(position, begins.ahead.done)
        self.lanes: Lanes[tuple[Record, Span]] = Lanes(order)
        self.bytes = 0
        """Of what is in the lanes."""
        self.tries = dict(begins.ahead.tries)
        """How often records that are not done were given out, by their offsets (C10)."""
        self.bodies: dict[int, Body] = {}
        """At most once: for which records a planned handover waits, though no task has them yet (C4)."""
        self.dirty = False
        """What is done above the position, or `tries`, is not what was last noted for the log."""
        self.noted_at = 0
        self.velocity = Velocity()
        self.fetched: Fetched | None = None
        self.taking: deque[Asked] = deque()
        """In order."""
        self.waiting = 0
        """Batches that wait for the user."""
        self.stored = 0
        """Records in those."""
        self.end = position if self.ranges is None else 0
        self.looked = False
        self.to = 0
        """Of a slot of ranges: the next one is to begin there, or behind it, as retention has overtaken the last one (C8)."""
        self.still = False
        """When the feeder has looked last, there was nothing new to fetch."""
        self.not_before = 0
        """After a failure: when to fetch again, by the stopwatch."""
        self.released = False
        """The log no longer says that the seat is held in this term."""
        self.released_at = 0
        self.broken = False
        """There is nothing to fetch: its position is beyond its partition's end, or before its start and to stay there (C8)."""
        self._pause = FIRST_PAUSE

    @property
    def lag(self) -> int:
        """Records, holes included, that are not done; of a slot of ranges, those of its ranges; of a slot of keys those of all
        keys, as it is known only when they are read whose they are."""
        return max(0, self.end - self.worked) if self.ranges is None else self.lag_of(self.ranges)

    def lag_of(self, ranges: Ranges) -> int:
        """Of a slot that has these."""
        left = ranges.within(
            self.progress.position, self.end
        )  # first: what is done meanwhile is rather counted than missed
        return left - sum(ranges.within(first, min(upto, self.end)) for first, upto in self.progress.ahead())

    @property
    def to_give(self) -> int:
        """Offsets of a slot's ranges that were not given out; those that wait for a retry were."""
        assert self.ranges is not None, "asked for slots only"
        here = self.stored + self.lanes.unstarted - self.lanes.asleep
        return self.ranges.within(self.progress.next, self.ranges.end) + here

    @property
    def worked(self) -> int:
        """The position, and as much as is done above it: how far the work has come, whatever a record in between is up to."""
        return self.progress.position + sum(upto - first for first, upto in self.progress.ahead())

    def may_be_read(self, now: int) -> bool:
        """Whether its source may be asked for something on its behalf."""
        return not self.broken and now >= self.not_before and bool(self.term)

    def full(self, ahead: int) -> bool:
        """Whether the user has enough of its batches for now. `ahead`: so many more than one may be on their way."""
        progress = self.progress
        busy = self.waiting + len(self.taking) >= WAITING + ahead
        # Of a slot of keys one batch is out at a time: so a key is in order whichever of the user's tasks takes the next (C12).
        busy = busy or (self.partition.keys > 0 and progress.unfinished > 0)
        return busy or progress.unfinished >= AHEAD or progress.runs + progress.unfinished >= MAX_RUNS

    def enough(self, wanted: int, most_bytes: int) -> bool:
        """Whether its lanes have enough for now, if so many records are wanted at once."""
        lanes = self.lanes
        much = lanes.left >= MOST_LEFT or self.bytes >= MOST_BYTES * most_bytes
        return much or bool(self.taking) or lanes.ready >= wanted

    def noted(self, now: int, member: Seated) -> None:
        """What is done above the position goes with the next beat, or with the record that gives the term up (C9). Under the
        lock of all progress."""
        if self.dirty:
            self.dirty, self.noted_at = False, now
            known = AheadState(self.progress.ahead(), tuple(sorted(self.tries.items())))
            member.note(ev.Marked((self.role, 0), self.term.token, self.progress.position, known))

    def failed(self, now: int) -> None:
        """A fetch failed: the next one a while later."""
        self.not_before = now + int(self._pause * 1e9)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def came(self, fetched: Fetched) -> None:
        """A fetch has come back."""
        self._pause = FIRST_PAUSE
        self.end = max(self.end, fetched.next)
        self.fetched = fetched if fetched.records else None
