"""Whether a worker's memory stays what it is under traffic: beside a worker of a plain consumer group, at the same time.

Both read the same topic, to which 2,000 records of 1 KB a second are written; the broker keeps the last 64 MB of a partition.
Memory is what no file backs (RssAnon), looked at 120 times. The first tenth is warming up. *Growth* is the slope of the line
with the least squares through the rest, for an hour.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from bench.cases import Row, spread
from bench.consume.crew import Crew
from bench.consume.plan import NAMES, Way
from bench.consume.stage import Writer, broker, configure, topic
from bench.consume.timeline import slope

PARTITIONS: Final = 4
RATE: Final = 2000
KEYS: Final = 400
LOOKS: Final = 120
WARM: Final = 0.1
FLAT_MB: Final = 5.0
"""An hour."""
WAYS: Final[tuple[Way, ...]] = ("partitions", "ranges", "keys", "once", "eager")


def anonymous(pid: int) -> float:
    """Megabytes of memory that no file backs."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("RssAnon"))


def growth(looks: list[tuple[float, float]]) -> float:
    """MB an hour, from (seconds, MB); without the beginning."""
    warm = looks[int(len(looks) * WARM) :]
    return slope(warm) * 3600


def cases(quick: bool, minutes: float = 60.0) -> Iterator[Row]:
    looks: dict[Way, list[tuple[float, float]]] = {way: [] for way in WAYS}
    seconds = minutes * 60
    with broker(quick) as kafka, ExitStack() as stack:
        name = topic(kafka, PARTITIONS)
        # So that the broker's disk does not grow with the time of a run.
        configure(kafka, "TOPIC", name, {"retention.bytes": str(64 << 20), "segment.bytes": str(16 << 20)})
        crews: dict[Way, Crew] = {way: stack.enter_context(Crew(kafka, name, way)) for way in WAYS}
        for crew in crews.values():
            crew.add("w0")
            crew.settled()
            crew.go()
        writer, began = Writer(kafka, name, PARTITIONS, KEYS), time.monotonic()
        while (past := time.monotonic() - began) < seconds:
            if missing := int(past * RATE) - writer.count:
                writer.write(missing)
            for way, crew in crews.items():
                while not crew.lines.empty():
                    crew.next(0.0)
                if len(looks[way]) < past / seconds * LOOKS:
                    looks[way].append((past, anonymous(crew.players["w0"].process.pid)))
            time.sleep(0.05)
        writer.flush()
        for way, crew in crews.items():
            crew.until(f"all {writer.count} records done", lambda crew=crew: crew.total() >= writer.count)
            what = f"{NAMES[way]}, {minutes:g} minutes of {RATE} records/s"
            yield Row(f"{what}: memory of a worker", spread([mb for _, mb in looks[way]], "MB"))
            more = growth(looks[way])
            held = way != "eager" and minutes >= 10
            target, met = (f"<= {FLAT_MB:g} MB", more <= FLAT_MB) if held else ("", None)
            yield Row(f"{what}: growth an hour", f"{more:+.1f} MB", target, met)
