"""What the other workers notice while one joins, leaves or dies: their records a second, and how long they stand still.

Four workers, twelve partitions with more records than they will do, and 20 ms for a batch of 20: so workers that are not
hindered do the same all the time. *Untouched* are those that were there before and stay. Their rate in the eight seconds from
the event on is held against that in the four seconds before it; a standstill is the longest time in which one of them did
nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from bench.cases import Row, spread
from bench.consume.crew import Crew
from bench.consume.plan import NAMES, Way
from bench.consume.stage import broker, filled
from bench.consume.timeline import rate, standstill
from pares.dev import Kafka
from pares.runtime.clock import stopwatch

PARTITIONS: Final = 12
WORKERS: Final = 4
BATCH: Final = 20
BATCH_MS: Final = 20.0
BEFORE: Final = 4.0
AFTER: Final = 8.0
WAYS: Final[tuple[Way, ...]] = ("partitions", "eager", "cooperative", "next")


class Noticed:
    """Of one sort of event: rates of the untouched beside those before it, and their longest standstills in seconds."""

    def __init__(self) -> None:
        self.kept: list[float] = []
        self.stood: list[float] = []
        self.stood_before: list[float] = []


def observed(crew: Crew, event: Callable[[], int], noticed: Noticed, before: float, after: float) -> None:
    """Lets one thing happen, and looks at those that it does not happen to."""
    crew.listen(before)
    there = set(crew.players)
    at = event()
    crew.listen(after)
    untouched = [crew.done[name] for name in there & crew.players.keys()]
    begin, end = at - int(before * 1e9), at + int(after * 1e9)
    noticed.kept.append(rate(untouched, at, end) / rate(untouched, begin, at))
    noticed.stood.append(max(standstill(line, at, end) for line in untouched))
    noticed.stood_before.append(max(standstill(line, begin, at) for line in untouched))


def joins(crew: Crew, name: str) -> int:
    """Another worker comes; when it is about to join."""
    crew.add(name).say("go")
    crew.ready()
    return stopwatch()


def run(kafka: Kafka, topic: str, way: Way, rounds: int, before: float, after: float) -> dict[str, Noticed]:
    found: dict[str, Noticed] = defaultdict(Noticed)
    plan = {"batch": BATCH, "batch_ms": BATCH_MS, "tick": 0.02}
    with Crew(kafka, topic, way, **plan) as crew:
        for number in range(WORKERS):
            crew.add(f"w{number}")
        crew.settled(PARTITIONS)
        crew.go()
        crew.until("all at work", lambda: sum(bool(line) for line in crew.done.values()) == WORKERS)
        for number in range(rounds):
            leaver, victim = f"leaver{number}", f"victim{number}"
            observed(crew, partial(joins, crew, leaver), found["joins"], before, after)
            observed(crew, partial(crew.dismiss, leaver), found["leaves"], before, after)
            joins(crew, victim)
            crew.settled(PARTITIONS)
            observed(crew, partial(crew.lose, victim), found["dies"], before, after)
    return found


def cases(quick: bool) -> Iterator[Row]:
    rounds, before, after = (1, 2.0, 4.0) if quick else (5, BEFORE, AFTER)
    # All of them at their full pace, and some more time for starts.
    most = WORKERS + 1
    seconds = rounds * (3 * (before + after) + 10) + 20
    count = int(most * BATCH / BATCH_MS * 1000 * seconds)
    with broker(quick) as kafka:
        topic = filled(kafka, PARTITIONS, count, PARTITIONS * 100)
        for way in WAYS:
            for event, noticed in run(kafka, topic, way, rounds, before, after).items():
                what = f"{NAMES[way]}: one {event}"
                yield Row(f"{what}: rate of the others / before", spread(noticed.kept, "x", 2))
                yield Row(f"{what}: longest standstill of the others", spread(noticed.stood, "s", 2))
                yield Row(f"{what}: and before it", spread(noticed.stood_before, "s", 2))
