"""A thousand partitions and twenty workers: how long until each has its share, beside consumer groups; and what one more moves.

Interpreters and consumers' clients are started first, and workers join when all of those are there, so it is the group that is
measured. A share is 50 partitions; within one of it counts, by what workers say of themselves every 50 ms.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pares
from bench.cases import Row
from bench.consume.crew import Crew
from bench.consume.plan import NAMES, Way
from bench.consume.stage import broker, topic
from pares.dev import Kafka
from pares.ledger import open_topic
from pares.runtime.clock import stopwatch

BAR: Final = 10.0
WAYS: Final[tuple[Way, ...]] = ("partitions", "eager", "cooperative", "next")


def even(shares: Counter[str], partitions: int, workers: int) -> bool:
    """Whether so many workers share them all within one."""
    there = [count for count in shares.values() if count]
    return sum(there) == partitions and len(there) == workers and max(there) - min(there) <= 1


def run(kafka: Kafka | None, name: str, way: Way, partitions: int, workers: int, **plan: str) -> tuple[float, float]:
    """Seconds until all is shared evenly, and until it is again when another worker has come."""
    with Crew(kafka, name, way, waits=True, **plan) as crew:
        for number in range(workers):
            crew.add(f"w{number}")
        crew.ready()
        began = stopwatch()
        for player in crew.players.values():
            player.say("join")
        crew.until("shared evenly", lambda: even(Counter(crew.holds), partitions, workers))
        first = (stopwatch() - began) / 1e9
        crew.listen(2.0)
        began = stopwatch()
        crew.add(f"w{workers}").say("join")
        crew.until("shared evenly again", lambda: even(Counter(crew.holds), partitions, workers + 1))
        return first, (stopwatch() - began) / 1e9


def cases(quick: bool) -> Iterator[Row]:
    partitions, workers = (100, 5) if quick else (1000, 20)
    with broker(quick) as kafka:
        name = topic(kafka, partitions)
        for way in WAYS:
            held = way == "partitions"
            try:
                found = run(kafka, name, way, partitions, workers)
            except TimeoutError as error:  # the others are measured all the same
                yield Row(
                    f"{partitions} partitions, {workers} workers: {NAMES[way]}",
                    str(error)[:80],
                    met=False if held else None,
                )
            else:
                yield from rows(NAMES[way], partitions, workers, found, held=held)
    with tempfile.TemporaryDirectory(prefix="pares-bench-") as folder:
        url = f"file://{folder}/ledger"
        ledger = pares.open(url)
        open_topic(ledger, "work", partitions)
        ledger.close()
        found = run(None, "work", "partitions", partitions, workers, log=url, source=url)
        yield from rows(f"{NAMES['partitions']}, file", partitions, workers, found, held=True)


def rows(way: str, partitions: int, workers: int, found: tuple[float, float], *, held: bool) -> Iterator[Row]:
    what, (first, again) = f"{partitions} partitions, {workers} workers: {way}", found
    target, met = (f"<= {BAR:g} s", first <= BAR) if held else ("", None)
    yield Row(f"{what}: shared evenly after", f"{first:.2f} s", target, met)
    yield Row(f"{what}: again, one more worker (with its start)", f"{again:.2f} s")
