"""The simulated ledger: one partition of one log, with the bytes that members really write.

It keeps what docs/guarantees.md calls A1: reads are in order, and what was acknowledged stays, until it is trimmed. Everything
else that a real log may do, it does when told to: holes between offsets, a start that moves, another log in the place of this
one (a new `generation`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable

from pares.sim.engine import Stopwatch

EntryTuple = tuple[int, int, bytes]
Stamp = tuple[Stopwatch, int]
"""Which stopwatch its writer has, and what that showed."""


class SimLog:
    """Entries with their offsets, and when (in true time) each of them came to stand in the log."""

    def __init__(self, begin: int = 0) -> None:
        self.generation = 0
        self.identity = "log-0"
        self.start = begin
        self.end = begin
        self._offsets: list[int] = []
        self._arrived: list[int] = []
        self._entries: list[EntryTuple] = []
        self.listeners: list[Callable[[list[EntryTuple]], None]] = []
        """Told of what has just landed; first those who judge, then those who wake."""
        self.urgent = True
        """Whether what has just landed wakes readers."""
        self.stamps: dict[int, Stamp] = {}
        """By the offsets of entries whose writers have stamped them."""

    def append(
        self, payloads: Iterable[bytes], now: int, *, hole: int = 0, stamp: Stamp | None = None, urgent: bool = True
    ) -> int:
        """All of them, next to each other; `hole` offsets stay unused before them. Returns the offset of the last."""
        landed: list[EntryTuple] = []
        self.urgent = urgent
        self.end += hole
        for payload in payloads:
            entry = (self.end, self.stamp_ms(now), payload)
            self._offsets.append(self.end)
            self._arrived.append(now)
            self._entries.append(entry)
            landed.append(entry)
            if stamp is not None:
                self.stamps[self.end] = stamp
            self.end += 1
        for listener in self.listeners:
            listener(landed)
        return self.end - 1

    def stamp_ms(self, now: int) -> int:
        """The time that an entry appended at the true time `now` carries."""
        return now // 1_000_000

    def read(self, position: int, horizon: int, most: int) -> list[EntryTuple]:
        """At most `most` entries from `position` on, of those that stood in the log at the true time `horizon`."""
        first = bisect_left(self._offsets, position)
        last = bisect_right(self._arrived, horizon)
        return self._entries[first : min(last, first + most)]

    def arrived(self, position: int) -> int | None:
        """When the first entry at or after `position` came to stand in the log; None if there is none yet."""
        first = bisect_left(self._offsets, position)
        return self._arrived[first] if first < len(self._arrived) else None

    def at(self, offset: int) -> EntryTuple | None:
        found = bisect_left(self._offsets, offset)
        if found < len(self._offsets) and self._offsets[found] == offset:
            return self._entries[found]
        return None

    def entries(self) -> list[EntryTuple]:
        return list(self._entries)

    def trim(self, before: int) -> None:
        """The entries before `before` are gone, as by retention."""
        before = min(before, self.end)
        if before <= self.start:
            return
        cut = bisect_left(self._offsets, before)
        del self._offsets[:cut], self._arrived[:cut], self._entries[:cut]
        self.start = before

    def older_than(self, at: int) -> int:
        """The offset of the first entry that landed after the true time `at`: what retention may trim to."""
        cut = bisect_right(self._arrived, at)
        return self._offsets[cut] if cut < len(self._offsets) else self.end

    def replace(self, *, same: bool = False) -> None:
        """Another log takes its place: topic or file deleted and made anew. Nothing of the old one is left."""
        self.generation += 1
        if not same:
            self.identity = f"log-{self.generation}"
        self.start = self.end = 0
        self._offsets, self._arrived, self._entries = [], [], []
        self.stamps = {}
