"""One term of one partition, as its consumer works on it: what to fetch next, what was given out, what is done.

    fetched   records are here, and not given out
    taking    at most once: a take of them is asked for, and was not read back (C4)
    ready     they wait for the user's next step
    out       they are with the user

Everything here is done by the feeder, but for `done`, which any thread of the user's may call.
"""

from __future__ import annotations

from typing import Final

from pares.core.consume.names import Partition
from pares.core.consume.progress import Progress
from pares.core.consume.velocity import Velocity
from pares.ledger.sources import Fetched, Source
from pares.runtime.consume.batch import Batch
from pares.runtime.term import Term

AHEAD: Final = 16
"""Batches of one partition that may be with the user, and not done, before no more of it are given out."""
WAITING: Final = 1
"""Batches of one partition that wait for the user."""
FIRST_PAUSE: Final = 0.05
"""Seconds after a fetch that failed."""
LONGEST_PAUSE: Final = 2.0


class Tenancy:
    """`end`: where its partition was last seen to end."""

    def __init__(self, source: Source, partition: Partition, term: Term, position: int) -> None:
        self.source = source
        self.partition = partition
        self.term = term
        self.progress = Progress(position)
        self.velocity = Velocity()
        self.fetched: Fetched | None = None
        self.taking: Batch | None = None
        self.waiting = 0
        """Batches that wait for the user."""
        self.end = position
        self.looked = False
        self.not_before = 0
        """After a failure: when to fetch again, by the stopwatch."""
        self.released = False
        """The log no longer says that the seat is held in this term."""
        self.broken = False
        """Its position is beyond its partition's end: there is nothing to fetch."""
        self._pause = FIRST_PAUSE

    @property
    def role(self) -> str:
        return self.partition.role

    @property
    def lag(self) -> int:
        """Records, holes included, that are not done."""
        return max(0, self.end - self.progress.position)

    @property
    def full(self) -> bool:
        """Whether the user has enough of it for now."""
        return self.waiting >= WAITING or self.taking is not None or self.progress.unfinished >= AHEAD

    def failed(self, now: int) -> None:
        """A fetch failed: the next one a while later."""
        self.not_before = now + int(self._pause * 1e9)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def came(self, fetched: Fetched) -> None:
        """A fetch has come back."""
        self._pause = FIRST_PAUSE
        self.end = max(self.end, fetched.next)
        self.fetched = fetched if fetched.records else None
