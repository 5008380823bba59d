"""What follows from a log's next entries, partition by partition: read and folded by this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pares.core.errors import LedgerUnavailable
from pares.ledger.base import Entry, Log
from pares.ledger.bus import BUS_TOPIC
from pares.spark.facts.base import Fact
from pares.spark.facts.folding import Partition
from pares.spark.source.ranges import Look, raise_for, replaced

PORTION: Final = 5000
"""Entries of a partition that are folded at once."""
Shares = list[tuple[str | None, list[Fact]]]


class Portion(NamedTuple):
    """What followed from a partition's next entries, by group, and what its end says since."""

    partition: int
    upto: int
    entries: int
    shares: Shares
    ends: Shares
    stamp_ms: int
    """The newest entry's."""


class LogFeed:
    """Of an open log. `groups`: None for all; `claims_in`: the partition in which groups run claims.

    Raises `LedgerGap` and `LedgerRewound` for what is lost, `LedgerUnavailable` as the log does; asked again, it goes on.
    """

    def __init__(self, log: Log, claims_in: int, groups: frozenset[str] | None, error_ms: int) -> None:
        self._log, self._claims_in, self._groups, self._error_ms = log, claims_in, groups, error_ms
        self._bus = log.url.endswith(f"#{BUS_TOPIC}")
        self.identity = log.identity()
        """Which log it is."""
        self.positions: dict[int, int] = {}
        """Up to where each partition was read."""
        self._folds: dict[int, Partition] = {}

    def resume(self, identity: str, positions: Mapping[int, int], folds: Mapping[int, Partition]) -> None:
        """Goes on from there. Raises `LedgerRewound` if it is another log, or has lost its tail."""
        for number, position in positions.items():
            if identity != self.identity:
                raise_for(replaced(Look(self._log.url, self.identity, {}), identity, number, position))
        self.positions, self._folds = dict(positions), dict(folds)

    def states(self) -> dict[int, Partition]:
        """The state of the fold at the positions."""
        return self._folds

    def read(self, until: Mapping[int, int] | None = None) -> list[Portion]:
        """The next portions, none where nothing is new; `until`: no further than that."""
        found: list[Portion] = []
        for number in range(self._log.partitions) if until is None else until:
            if number not in self.positions:
                self.positions[number] = start = self._log.start(number)
                claims = number == self._claims_in
                made = Partition(self._groups, number, start, claims=claims, error_ms=self._error_ms, bus=self._bus)
                self._folds[number] = made
            low = self.positions[number]
            most = PORTION if until is None else min(PORTION, until[number] - low)
            try:
                entries = self._log.read(low, number, max_records=most) if most > 0 else []
            except LedgerUnavailable:
                if found:
                    return found  # what is folded is not to be lost; the next try says it again
                raise
            if until is not None:
                entries = [entry for entry in entries if entry.offset < until[number]]
            if entries:
                found.append(self._folded(number, entries))
            elif until is not None and low < until[number]:
                self.positions[number] = until[number]  # a hole up to there
        return found

    def check(self) -> None:
        """Raises `LedgerRewound` if the URL leads to another log now."""
        seen = self._log.identity()
        if seen != self.identity:
            number, position = next(iter(self.positions.items()), (0, 0))
            raise_for(replaced(Look(self._log.url, seen, {}), self.identity, number, position))

    def _folded(self, number: int, entries: Sequence[Entry]) -> Portion:
        fold = self._folds[number]
        shares = [(group, facts) for group, facts in fold.feed(entries)]
        self.positions[number] = entries[-1].offset + 1
        newest = max(entry.timestamp_ms for entry in entries)
        return Portion(number, self.positions[number], len(entries), shares, list(fold.ends()), newest)
