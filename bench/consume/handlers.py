"""More workers than partitions, where the work on a record takes its time: records a second, and whether keys stay in order.

Sixteen workers, four partitions, 5 ms a record: a consumer group keeps twelve of them idle, at 800 records a second at most.
The others can do 3,200. Two have their sixteen handlers in one process: pares' consumer with `concurrency=16` and
`order="key"`, and pyrallel-consumer. What each handler did, and when, is written down, and judged as `bench.consume.order`
says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from bench.cases import Row, spread
from bench.consume.crew import Crew
from bench.consume.order import Order, judged, read
from bench.consume.plan import GROUPS, NAMES, Way
from bench.consume.stage import broker, filled, share_from_the_start
from bench.consume.timeline import steady
from bench.consume.ways import why_not
from pares.dev import Kafka

PARTITIONS: Final = 4
WORKERS: Final = 16
KEYS: Final = 400
HANDLER_MS: Final = 5.0


class Setting(NamedTuple):
    """`in_order`: whether order by key is promised, or follows from what is."""

    way: Way
    workers: int
    concurrency: int
    in_order: bool

    @property
    def what(self) -> str:
        if self.workers == 1:
            return f"{NAMES[self.way]}, one process, {self.concurrency} handlers"
        return f"{NAMES[self.way]}, {self.workers} workers"


SETTINGS: Final = (
    Setting("eager", WORKERS, 1, True),
    Setting("partitions", WORKERS, 1, True),
    Setting("keys", WORKERS, 1, True),
    Setting("ranges", WORKERS, 1, False),
    Setting("share", WORKERS, 1, False),
    Setting("partitions", 1, WORKERS, True),
    Setting("pyrallel", 1, WORKERS, True),
)


def run(kafka: Kafka, topic: str, count: int, setting: Setting) -> tuple[float, Order, int]:
    """Records a second, how the order was, and how many workers had any to do."""
    plan = {"handler_ms": HANDLER_MS, "concurrency": setting.concurrency, "trace": "yes"}
    with Crew(kafka, topic, setting.way, **plan) as crew:
        if setting.way == "share":
            share_from_the_start(kafka, crew.group)
        for number in range(setting.workers):
            crew.add(f"w{number}")
        crew.settled(PARTITIONS if setting.way in GROUPS or setting.way == "partitions" else None)
        crew.go()
        crew.until(f"all {count} records done", lambda: crew.total() >= count)
        return steady(crew.done), judged(read(crew.traces())), sum(bool(line) for line in crew.done.values())


def cases(quick: bool) -> Iterator[Row]:
    count, turns = (4_000, 1) if quick else (40_000, 3)
    with broker(quick) as kafka:
        topic = filled(kafka, PARTITIONS, count, KEYS)
        for setting in SETTINGS:
            if why_not(setting.way):
                continue
            found = [run(kafka, topic, count, setting) for _ in range(turns)]
            yield Row(f"{setting.what}", spread([rate for rate, _, _ in found], "records/s", 0))
            yield Row(f"{setting.what}: had work", spread([float(busy) for _, _, busy in found], "workers", 0))
            overtaken = sum(order.overtaken for _, order, _ in found)
            lost = sum(count - order.distinct for _, order, _ in found)
            repeated = sum(order.repeated for _, order, _ in found)
            figures = f"{overtaken} of {count * turns} ({repeated} repeated, {lost} missing)"
            target, met = ("0", not overtaken and not lost) if setting.in_order else ("", None)
            yield Row(f"{setting.what}: overtaken within their keys", figures, target, met)
