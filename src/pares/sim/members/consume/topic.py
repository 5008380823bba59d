"""The topic of a world, which consumers work on: true logs of records, and each process' source on them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from pares.core.errors import LedgerRewound, LedgerUnavailable
from pares.ledger.sources import Fetched, Record
from pares.runtime.consume.dead_letters import letter_of

if TYPE_CHECKING:
    from pares.sim.members.consume.plan import ConsumePlan
    from pares.sim.members.stage import Stage
    from pares.sim.world.process import Process

NAME: Final = "orders"
HOLES: Final = 0.1
"""How often offsets are left out before a record, as by an aborted transaction."""


class SimTopic:
    """Records come at random times until part of the calm is over, so that all of them can be worked off."""

    name = NAME
    identity = f"{NAME}:1"

    def __init__(self, stage: Stage, plan: ConsumePlan) -> None:
        self._stage, self._plan = stage, plan
        self._rng = stage.world.random("topic")
        self.offsets: list[list[int]] = [[] for _ in range(plan.partitions)]
        self.ends = [0] * plan.partitions
        self._keys = plan.keys
        self._until = int((plan.storm + plan.calm * 0.3) * plan.unit)
        for partition in range(plan.partitions):
            self._next(partition)

    def _next(self, partition: int) -> None:
        plan, world = self._plan, self._stage.world
        at = world.now + max(1, int(self._rng.expovariate(plan.records) * plan.unit))
        if at < self._until:
            world.at(at, self._append, partition)

    def _append(self, partition: int) -> None:
        self.ends[partition] += self._rng.randint(1, 5) if self._rng.random() < HOLES else 0
        self.offsets[partition].append(self.ends[partition])
        self.ends[partition] += 1
        self._next(partition)

    def key_of(self, offset: int) -> bytes | None:
        """Where partitions are divided by keys, some records have none (C12)."""
        return None if self._plan.divided and offset % 7 == 6 else b"%d" % (offset % self._keys)

    def between(self, partition: int, first: int, before: int) -> list[int]:
        """The offsets of the records that stand there."""
        offsets = self.offsets[partition]
        return offsets[bisect_left(offsets, first) : bisect_left(offsets, before)]


class SimLetters:
    """The dead-letter stream of a world, as one process reaches it."""

    def __init__(self, process: Process, parked: Callable[[int, int], None]) -> None:
        self._process = process
        self._parked = parked

    def append(self, payload: bytes, /) -> None:
        self._process.cross("letters")
        letter = letter_of(payload)
        self._parked(letter.partition, letter.offset)
        self._process.cross("letters:stand")


class SimSource:
    """See `pares.ledger.sources.Source`."""

    def __init__(self, topic: SimTopic, process: Process, unreadable: float) -> None:
        self._topic = topic
        self._process = process
        self._unreadable = unreadable
        self.name, self.identity = topic.name, topic.identity

    def _reach(self, call: str) -> None:
        self._process.cross(call)
        self._process.pause(self._process.rng.randint(10_000, 200_000))
        stage = self._topic._stage  # pyright: ignore[reportPrivateUsage]
        if not stage.calm and self._process.rng.random() < self._unreadable:
            raise LedgerUnavailable(f"the topic {self.name!r} does not answer")

    def partitions(self) -> int:
        self._process.cross("partitions")
        return len(self._topic.ends)

    def start(self, partition: int) -> int:
        self._reach("source:start")
        return 0

    def end(self, partition: int) -> int:
        self._reach("source:end")
        return self._topic.ends[partition]

    def ends(self, partitions: Collection[int]) -> dict[int, int]:
        self._reach("source:ends")
        return {partition: self._topic.ends[partition] for partition in partitions}

    def changed(self, places: Mapping[int, int]) -> Collection[int]:
        self._process.cross("source:changed")
        return [partition for partition, offset in places.items() if self._topic.ends[partition] != offset]

    def fetch(self, partition: int, offset: int, *, max_records: int, max_bytes: int, timeout: float) -> Fetched:
        self._reach("fetch")
        end = self._topic.ends[partition]
        if offset > end:
            raise LedgerRewound(f"{self.name}/{partition} ends at {end}, and {offset} was asked for")
        found = self._topic.between(partition, offset, end)[:max_records]
        self._process.cross("fetch:fetched")
        records = tuple(Record(at, 0, self._topic.key_of(at), b"%d" % at) for at in found)
        return Fetched(records, found[-1] + 1 if found else offset)

    def close(self) -> None:
        """There is nothing to give back."""
