"""The consumer of each partition, and how far behind it is: of a group of consumers, as its log has it.

Positions are those that stand in the log, so they are a beat old; where partitions end their source says, if it can be asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pares.core.consume.names import WHOLE, Partition, Terms, tag_of
from pares.core.errors import CapabilityError, ConfigError, ParesError
from pares.core.wire.divided.keys import parts as parts_of
from pares.core.wire.divided.keys import reached
from pares.core.wire.divided.ranges import frontier, position, undone
from pares.core.wire.states import Run, SeatState
from pares.core.wire.world import World
from pares.ledger.sources import Source, open_source
from pares.view.state import health
from pares.view.story import Story


class Ends:
    """Where partitions end. `where`: the URL of the ledger with the topics. Close it, or use it in a `with`."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._sources: dict[str, Source | None] = {}

    def of(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Where these end, by one look at each of their topics. Without those of which nobody can say: there is no such topic,
        or it is another one of its name, or it is out of reach."""
        topics: dict[tuple[str, str], list[Partition]] = {}
        for partition in partitions:
            topics.setdefault((partition.topic, partition.tag), []).append(partition)
        return {partition: end for topic, of in topics.items() for partition, end in self._of_topic(*topic, of).items()}

    def _of_topic(self, topic: str, tag: str, partitions: list[Partition]) -> dict[Partition, int]:
        try:
            source = self._source(topic)
            if source is None or tag_of(source.identity) != tag:
                return {}
            ends = source.ends({partition.number for partition in partitions})
        except ParesError:
            return {}
        return {partition: ends[partition.number] for partition in partitions if partition.number in ends}

    def _source(self, topic: str) -> Source | None:
        if topic not in self._sources:
            try:
                self._sources[topic] = open_source(self._where, topic)
            except (ConfigError, CapabilityError):
                self._sources[topic] = None
        return self._sources[topic]

    def close(self) -> None:
        for source in self._sources.values():
            if source is not None:
                source.close()

    def __enter__(self) -> Ends:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def consumption(story: Story, now_ms: int, ends: Ends | None = None) -> list[dict[str, Any]]:
    """One row a partition, and behind that of one which several consumers work on, one for each of its slots."""
    world = story.world
    whole = [(p, seat) for seat in world.seats.values() if (p := Partition.of(seat.role)) and p.slot == WHOLE]
    rows: list[dict[str, Any]] = []
    known = {} if ends is None else ends.of(partition for partition, _ in whole)
    for partition, seat in sorted(whole, key=lambda each: each[0]):
        end = known.get(partition)
        parts = _parts(world, seat.role)
        left = None if end is None else _left(world, seat, parts, end)
        shared = seat.holder is None and any(slot.holder is not None for _, slot in parts)
        rows.append(_row(story, now_ms, partition, seat, position(world, seat), end, left))
        if not shared:
            continue
        rows[-1]["state"] = "shared"
        for place, slot in parts:
            runs = undone(world, slot) if not place.keys else []
            if slot.holder is not None or runs:
                at = runs[0][0] if runs else reached(slot)
                own = None if end is None else max(0, end - at) if place.keys else _within(runs, end)
                rows.append(_row(story, now_ms, place, slot, at, end, own))
    return rows


def _parts(world: World, role: str) -> list[tuple[Partition, SeatState]]:
    """Its slots, in order."""
    found = [(place, seat) for seat in parts_of(world, role) if (place := Partition.of(seat.role)) is not None]
    return sorted(found, key=lambda each: each[0])


def _row(
    story: Story, now_ms: int, partition: Partition, seat: SeatState, at: int, end: int | None, lag: int | None
) -> dict[str, Any]:
    world = story.world
    holder = world.members.get(seat.holder or "")
    terms = None if holder is None else Terms.of(holder.labels)
    free = "paused" if world.paused(seat.role) else "free"
    return {
        "topic": partition.topic,
        "partition": partition.number,
        "slot": None if partition.slot == WHOLE else partition.slot,
        "role": seat.role,
        "consumer": None if holder is None else holder.name,
        "member": seat.holder,
        "host": None if holder is None else holder.host,
        "state": free if holder is None else health(story, holder, now_ms),
        "delivery": None if terms is None else terms.delivery,
        "token": seat.token if holder is not None else None,
        "position": at,
        "end": end,
        "lag": lag,
    }


def _left(world: World, seat: SeatState, parts: list[tuple[Partition, SeatState]], end: int) -> int:
    """Offsets below the end that are not done: of what ranges cover, and behind them. Where keys are shared out, all behind
    the position: whose a record is shows when it is read."""
    if any(place.keys and slot.holder is not None for place, slot in parts):
        return max(0, end - position(world, seat))
    at = frontier(world, seat)
    known = world.ahead.get(seat.seat)
    done = 0 if known is None else sum(max(0, min(upto, end) - max(first, at)) for first, upto in known.done)
    return max(0, end - at) - done + sum(_within(undone(world, slot), end) for place, slot in parts if not place.keys)


def _within(runs: list[Run], end: int) -> int:
    return sum(max(0, min(upto, end) - first) for first, upto in runs)
