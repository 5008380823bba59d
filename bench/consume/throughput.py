"""Records of 1 KB that workers can look at in a second, beside a plain consumer group, a share group and pyrallel-consumer.

A topic with 8 partitions is filled first. Each run has workers in a new group, which is settled before they ask for
records; all ways come in turn, and the turns are repeated. A rate is that of `timeline.steady`. Workers do nothing with a
record but look at its offset, time, key and payload, so this is the most that each way lets through.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from bench.cases import Row, spread
from bench.consume.crew import Crew
from bench.consume.plan import AHEAD, GROUPS, NAMES, WHOLE, Way
from bench.consume.stage import broker, filled, share_from_the_start
from bench.consume.timeline import steady
from bench.consume.ways import there
from pares.dev import Kafka

PARTITIONS: Final = 8
KEYS: Final = 800
BAR: Final = 0.9
WORKERS: Final = (1, 2, 8)
BATCHES: Final = (10, 100, 1000, 5000)
SLOW: Final = 20
"""pyrallel-consumer hands records to tasks one by one: it gets one in so many of them."""
PLAIN: Final[Way] = "eager"
BY_BATCH: Final[tuple[Way, ...]] = ("partitions", *AHEAD, "ranges", "keys")
WAYS: Final[tuple[Way, ...]] = (
    PLAIN,
    "partitions",
    "once",
    "ranges",
    "keys",
    "cooperative",
    "next",
    "share",
    "pyrallel",
)


def of_batch(batch: int, way: Way) -> str:
    """What the row is called."""
    return f"batches of {batch}, 2 workers: {NAMES[way]}"


def run(kafka: Kafka, topic: str, count: int, way: Way, workers: int, batch: int = 500) -> float:
    """Thousands of records a second."""
    with Crew(kafka, topic, way, batch=batch, concurrency=1000 if way == "pyrallel" else 1) as crew:
        if way == "share":
            share_from_the_start(kafka, crew.group)
        for number in range(workers):
            crew.add(f"w{number}")
        crew.settled(PARTITIONS if way in GROUPS or way in WHOLE else None)
        crew.go()
        crew.until(f"all {count} records done", lambda: crew.total() >= count)
        return steady(crew.done) / 1000


def by_workers(kafka: Kafka, topic: str, count: int, workers: Sequence[int], turns: int) -> Iterator[Row]:
    ways = there(WAYS)
    some = filled(kafka, PARTITIONS, count // SLOW, KEYS)
    for many in workers:
        found: dict[Way, list[float]] = defaultdict(list)
        for _ in range(turns):
            for way in ways:
                which, records = (some, count // SLOW) if way == "pyrallel" else (topic, count)
                found[way].append(run(kafka, which, records, way, many))
        plain = statistics.median(found[PLAIN])
        what = f"{many} worker{'s' if many > 1 else ''}"
        for way in ways:
            yield Row(f"{what}: {NAMES[way]}", spread(found[way], "k records/s"))
        for way in ways:
            if way != PLAIN:
                ratio = statistics.median(found[way]) / plain
                held = way == "partitions"
                target, met = (f">= {BAR:g}", ratio >= BAR) if held else ("", None)
                yield Row(f"{what}: {NAMES[way]} / plain group", f"{ratio:.2f} x (of medians)", target, met)


def by_batch(kafka: Kafka, topic: str, count: int, batches: Sequence[int], turns: int) -> Iterator[Row]:
    """What ranges, keys, and taking before processing, at once or ahead, cost by the size of batches; two workers."""
    ways = there(BY_BATCH)
    for batch in batches:
        # A take is a round trip to the log: with small batches fewer records are enough.
        some = min(count, max(count // 20, batch * 400))
        found: dict[Way, list[float]] = defaultdict(list)
        with_some = filled(kafka, PARTITIONS, some, KEYS) if some < count else topic
        for _ in range(turns):
            for way in ways:
                found[way].append(run(kafka, with_some, some, way, 2, batch))
        for way in ways:
            yield Row(of_batch(batch, way), spread(found[way], "k records/s"))


def cases(quick: bool) -> Iterator[Row]:
    count, turns = (40_000, 1) if quick else (600_000, 3)
    with broker(quick) as kafka:
        topic = filled(kafka, PARTITIONS, count, KEYS)
        yield from by_workers(kafka, topic, count, WORKERS[1:2] if quick else WORKERS, turns)
        yield from by_batch(kafka, topic, count, (100,) if quick else BATCHES, turns)
