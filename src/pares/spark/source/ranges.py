"""Which offsets a task reads, and what is said of those that can't be read any more.

Rules, each with what breaks without it:

* A range is fixed when a read is planned. [a task that runs twice would read twice as much]
* What was expected and is gone is never passed over: a beginning that was trimmed, or another log under the same URL, is an
  error that names what is lost, or with `onLoss=mark` a row in its place. [years later nobody knows that records are missing]
* Which log it is stands beside each offset. [offset 500 of a log that was begun anew is another record]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyspark.sql.datasource import InputPartition

from pares.core.errors import LedgerGap, LedgerRewound
from pares.ledger.address import shown, without_readonly
from pares.ledger.base import Log
from pares.spark.logs import first_and_end

LOST_RANGE: Final = "lost_range"
"""The log begins after what was to be read next."""
ANOTHER_LOG: Final = "another_log"
"""The URL leads to another log than before, or the log has lost its tail."""


class Anomaly(NamedTuple):
    """What a read can't bring, in place of it."""

    kind: str
    partition: int
    low: int
    high: int | None
    """Before which offset it goes on; None: nobody can say how much there was."""
    detail: str

    @classmethod
    def gap(cls, url: str, partition: int, low: int, high: int) -> Anomaly:
        """Offsets `low` to before `high` have been deleted. `url`: as people may read it."""
        detail = f"offsets {low} to {high - 1} of partition {partition} are no longer in {url}"
        return cls(LOST_RANGE, partition, low, high, detail)


class OffsetRange(InputPartition):
    """Offsets `low` to before `high` of one log partition; `origin`: where that log partition began when this was planned."""

    def __init__(self, partition: int, low: int, high: int, origin: int = 0, identity: str = "") -> None:
        super().__init__((partition, low, high))
        self.partition, self.low, self.high, self.origin, self.identity = partition, low, high, origin, identity


class Missing(InputPartition):
    """What is lost, to be said by a row."""

    def __init__(self, identity: str, anomaly: Anomaly) -> None:
        super().__init__(anomaly)
        self.identity, self.anomaly = identity, anomaly


class Place(NamedTuple):
    """Where a partition of a log begins and ends, at one time."""

    first: int
    end: int


class Look(NamedTuple):
    """A log at one time: which it is, and where its partitions begin and end."""

    url: str
    """As people may read it."""
    identity: str
    places: Mapping[int, Place]


def look(log: Log, partitions: list[int]) -> Look:
    """The log now. Its identity is asked for last: a log that is replaced meanwhile is then another one at the next look."""
    places = {number: Place(*first_and_end(log, number)) for number in partitions}
    return Look(shown(without_readonly(log.url)), log.identity(), places)


def lost(seen: Look, partition: int, low: int) -> Anomaly | None:
    """What is missing of the log that is looked at, where `low` was to be read next."""
    first, end = seen.places[partition]
    if low < first:
        return Anomaly.gap(seen.url, partition, low, first)
    if low > end:
        detail = f"partition {partition} of {seen.url} ends at {end}, and was read up to {low}: it has lost its tail"
        return Anomaly(ANOTHER_LOG, partition, end, low, detail)
    return None


def replaced(seen: Look, identity: str, partition: int, low: int) -> Anomaly:
    """What is said of a partition of another log: `identity` was read up to `low`."""
    detail = (
        f"{seen.url} is another log now ({seen.identity}, before {identity}): what partition {partition} had from offset "
        f"{low} on is lost"
    )
    return Anomaly(ANOTHER_LOG, partition, low, None, detail)


def raise_for(anomaly: Anomaly) -> None:
    """Raises `LedgerGap` or `LedgerRewound`."""
    advice = "begin at the log's start, or mark what is lost (onLoss=mark)"
    if anomaly.kind == LOST_RANGE and anomaly.high is not None:
        raise LedgerGap(f"{anomaly.detail}: {advice}", lost=range(anomaly.low, anomaly.high))
    raise LedgerRewound(f"{anomaly.detail}: {advice}")


def share(begins: Mapping[str, int], ends: Mapping[str, int], most: int) -> dict[str, int]:
    """Where each partition's turn ends, of `most` offsets in all: as much as each has in proportion, and none is left out. If
    there are more partitions than that, those that have the most get one each: one that waits comes to be among them."""
    there = {number: max(0, ends[number] - begins[number]) for number in ends}
    left = sum(there.values())
    if left <= most:
        return {number: max(begins[number], ends[number]) for number in ends}
    turns = dict.fromkeys(ends, 0)
    waiting = sorted((number for number in there if there[number]), key=lambda number: there[number])
    for number in waiting[-most:]:
        turns[number] = 1
    if len(waiting) < most:
        # The smallest first: what the rounding gives them is taken from those that have the most.
        for number in waiting:
            has = there[number]
            turns[number] = min(has, most, max(1, has * most // left))
            most, left = most - turns[number], left - has
    return {number: begins[number] + turns[number] for number in ends}
