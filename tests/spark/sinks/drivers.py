"""Kills and freezes of real Spark drivers that run a guarded query, or claimed work: what a reader of their target finds.

    python tests/spark/sinks/drivers.py --what guard --to postgres --kills 40 --freezes 40 [--naive]

Three drivers share a group's log on a Kafka, and publish to a PostgreSQL or to a topic of that Kafka. In each round the one
that publishes is hit at a random moment, its JVM and its workers with it: killed, and another driver is started; or frozen
until another one has published, and woken up. Rows that are there twice are counted, and those that are not there though later
ones are. A naive driver leads, and claims, by the same group; it writes a batch in one transaction of its own, without a fence
and without a word of which batch it was.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

HERE: Final = Path(__file__).parent
sys.path.append(str(HERE.parents[1]))

from confluent_kafka import Producer  # noqa: E402
from targets import STALL, TARGETS, Target  # noqa: E402

import pares  # noqa: E402
from kafka_tools import new_topic  # noqa: E402
from pares.core.errors import LeadershipLost, Stale  # noqa: E402
from pares.dev import Kafka, Postgres  # noqa: E402
from pares.dev.process import parents  # noqa: E402
from pares.fence import SqlFence  # noqa: E402
from pares.spark.sinks.base import Staged  # noqa: E402
from pares.spark.sinks.kafka import KafkaSink  # noqa: E402
from pares.spark.sinks.postgres import PostgresSink  # noqa: E402

PATIENCE: Final = 180.0
CREW: Final = 3
SESSION: Final = 2.0
ROWS: Final = 100
"""Of a batch."""
A_SECOND: Final = 400
"""Records of the topic that is claimed."""
MOMENT: Final = 0.5
"""Seconds within which a driver is hit, or woken up: one to two batches."""
NUMBER: Final = "CAST(CAST(payload AS string) AS bigint) AS id"
COLUMN: Final = {"postgres": "id", "kafka": "CAST(id AS string) AS value"}


# A driver -------------------------------------------------------------------------------------------------------------------


def say(word: str) -> None:
    print(word, flush=True)


class _Telling:
    """What is put before a sink: a word for each batch that is published, and for each that is refused."""

    def publish(self, staged: Staged) -> bool:
        above: Any = super()
        try:
            published = above.publish(staged)
        except Stale:
            say("refused")
            raise
        say("published")
        return published


class _Table(_Telling, PostgresSink):
    pass


class _Topic(_Telling, KafkaSink):
    pass


def sink_of(to: str, place: str) -> Any:
    if to == "kafka":
        return _Topic(place, timeout=5.0, transaction_timeout=5.0)
    return _Table(place, "rows", fence=SqlFence(stall=STALL))


def stream(spark: Any, column: str, folder: str) -> Any:
    """Numbers from 0 on, the same of each batch again, with the checkpoint in `folder`."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load().selectExpr("value AS id")
    writer = rows.selectExpr(column).writeStream.option("checkpointLocation", folder)
    return writer.trigger(processingTime="200 milliseconds")


def guarded(spark: Any, url: str, to: str, place: str, folder: str, name: str) -> None:
    from pares.spark.driving.guard import guard

    with pares.Member(url, group="g", roles=["r"], name=name, session=SESSION) as me, guard(me, "r") as query:
        say("ready")
        query.start(lambda: stream(spark, COLUMN[to], folder), sink_of(to, place))


def insert(target: Target, df: Any) -> None:
    ids = [row.id for row in df.collect()]
    target.insert(min(ids), max(ids) + 1)


def naive_query(spark: Any, url: str, target: Target, folder: str, name: str) -> None:
    def write(df: Any, batch: int) -> None:
        insert(target, df)
        say("published")

    with pares.Member(url, group="g", roles=["r"], name=name, session=SESSION) as me:
        say("ready")
        for term in me.terms("r"):
            started = stream(spark, "id", folder).foreachBatch(write).start()
            term.wait_lost()
            with contextlib.suppress(Exception):
                started.stop()


def claimed_work(spark: Any, url: str, to: str, place: str, topic: str, name: str, *, naive: bool) -> None:
    from pares.spark.driving.work import work

    target, sink = TARGETS[to](place), sink_of(to, place)
    settings: dict[str, Any] = {"batch": ROWS, "release_if_behind": False, "barrier_timeout": 10.0}
    with pares.Consumer(url, group="g", topics=[topic], name=name, session=SESSION, **settings) as me:
        say("ready")
        for claimed in work(me, spark=spark, tasks=2):
            try:
                if naive:
                    insert(target, claimed.df.selectExpr(NUMBER))
                    claimed.done()
                    say("published")
                else:
                    claimed.publish(sink, lambda df: df.selectExpr(NUMBER).selectExpr(COLUMN[to]))
            except (Stale, LeadershipLost):
                say("refused")


def drive(what: str, url: str, to: str, place: str, source: str, name: str, kind: str) -> None:
    """`source`: the checkpoint's folder, or the topic that is claimed."""
    from pares.spark.session import session

    spark, naive = session("driver", master="local[2]"), kind == "naive"
    if what == "work":
        claimed_work(spark, url, to, place, source, name, naive=naive)
    elif naive:
        naive_query(spark, url, TARGETS[to](place), source, name)
    else:
        guarded(spark, url, to, place, source, name)


# Rounds ---------------------------------------------------------------------------------------------------------------------


class Event(NamedTuple):
    at: float
    """By the clock of who listens."""
    driver: Driver
    word: str


class Driver:
    """A process, and all that it has started."""

    def __init__(self, arguments: list[str], to: queue.SimpleQueue[Event], errors: Path) -> None:
        with errors.open("a") as told:
            command = [sys.executable, __file__, "--driver", *arguments]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=told, text=True)
        self.ready = False
        self._thread = threading.Thread(target=self._listen, args=(to,), daemon=True)
        self._thread.start()

    def _listen(self, to: queue.SimpleQueue[Event]) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            for line in said:
                to.put(Event(time.monotonic(), self, line.strip()))
        to.put(Event(time.monotonic(), self, "ended"))

    def hit(self, how: signal.Signals) -> None:
        for pid in family(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        if how == signal.SIGKILL:
            self.process.wait(PATIENCE)
            self._thread.join(PATIENCE)


def family(pid: int) -> list[int]:
    """A process, and those that came of it, its JVM and Python's workers."""
    there = list(parents())
    found = [pid]
    for one in found:
        found.extend(child for child, parent in there if parent == one)
    return found


class Result(NamedTuple):
    rows: int
    doubled: int
    lost: int
    refused: int
    after_kills: list[float]
    after_freezes: list[float]


class Crew:
    """Drivers, of which one publishes."""

    def __init__(self, arguments: list[str], kind: str, errors: Path) -> None:
        self._arguments, self._kind, self._errors = arguments, kind, errors
        self._events = queue.SimpleQueue[Event]()
        self._drivers = list[Driver]()
        self._made = 0
        self.refused = 0

    def start(self) -> None:
        self._made += 1
        driver = Driver([*self._arguments, f"d{self._made}", self._kind], self._events, self._errors)
        self._drivers.append(driver)

    def next(self, word: str, *, but: Driver | None = None, after: float = 0.0) -> Event:
        end = time.monotonic() + PATIENCE
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                event = self._events.get(timeout=left)
                self._note(event)
                if event.word == word and event.driver is not but and event.at > after:
                    return event
        raise AssertionError(f"nobody says {word!r}: {self._errors.read_text()[-3000:]}")

    def _note(self, event: Event) -> None:
        self.refused += event.word == "refused"
        if event.word == "ready":
            event.driver.ready = True
        elif event.word == "ended" and event.driver in self._drivers:
            # After it was woken up: a driver may end when it is refused.
            self._drivers.remove(event.driver)
            event.driver.process.wait(PATIENCE)
            self.start()

    def complete(self) -> None:
        """Until two at least are ready."""
        while sum(driver.ready for driver in self._drivers) < CREW - 1:
            self.next("ready")

    def kill(self, driver: Driver) -> None:
        self._drivers.remove(driver)
        driver.hit(signal.SIGKILL)

    def close(self) -> None:
        for driver in [*self._drivers]:
            self.kill(driver)


def play(crew: Crew, kills: int, freezes: int, seed: int) -> tuple[list[float], list[float]]:
    chance, took = random.Random(seed), {"kill": list[float](), "freeze": list[float]()}
    rounds = ["kill"] * kills + ["freeze"] * freezes
    chance.shuffle(rounds)
    for _ in range(CREW):
        crew.start()
    for number, what in enumerate(rounds):
        crew.complete()
        leader = crew.next("published", after=time.monotonic()).driver
        time.sleep(chance.random() * MOMENT)
        began = time.monotonic()
        if what == "kill":
            crew.kill(leader)
            crew.start()
        else:
            leader.hit(signal.SIGSTOP)
        took[what].append(crew.next("published", but=leader, after=began).at - began)
        if what == "freeze":
            time.sleep(chance.random() * MOMENT)
            leader.hit(signal.SIGCONT)
            crew.next("published", after=time.monotonic() + MOMENT)
        print(f"{number + 1} of {len(rounds)}: {what}, {took[what][-1]:.2f} s", file=sys.stderr, flush=True)
    return took["kill"], took["freeze"]


@contextlib.contextmanager
def fed(kafka: Kafka, topic: str) -> Iterator[None]:
    """Numbers from 0 on come into the topic's first partition."""
    over = threading.Event()

    def feed() -> None:
        producer, began, done = Producer({"bootstrap.servers": kafka.bootstrap}), time.monotonic(), 0
        while not over.wait(0.05):
            while done < (time.monotonic() - began) * A_SECOND:
                producer.produce(topic, str(done).encode(), partition=0)
                done += 1
            producer.flush(PATIENCE)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def run(what: str, to: str, kills: int, freezes: int, *, naive: bool = False, seed: int = 1) -> Result:
    with contextlib.ExitStack() as stack:
        kafka, folder = stack.enter_context(Kafka()), Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place = kafka.topic_url(new_topic(kafka)) if to == "kafka" else stack.enter_context(Postgres()).url
        target = TARGETS[to](place)
        target.make()
        source = str(folder / "checkpoint")
        if what == "work":
            source = new_topic(kafka)
            stack.enter_context(fed(kafka, source))
        arguments = [what, kafka.topic_url(new_topic(kafka)), to, place, source]
        crew = Crew(arguments, "naive" if naive else "guarded", folder / "errors")
        stack.callback(crew.close)
        after_kills, after_freezes = play(crew, kills, freezes, seed)
        crew.close()
        found = target.rows()
    there = set(found)
    lost = max(there, default=-1) + 1 - len(there)
    return Result(len(found), len(found) - len(there), lost, crew.refused, after_kills, after_freezes)


def main() -> None:
    parser = argparse.ArgumentParser(description="Kills and freezes real Spark drivers, and counts rows.")
    parser.add_argument("--what", choices=("guard", "work"), default="guard")
    parser.add_argument("--to", choices=tuple(COLUMN), default="postgres")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--freezes", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--naive", action="store_true", help="without a fence")
    asked = parser.parse_args()
    found = run(asked.what, asked.to, asked.kills, asked.freezes, naive=asked.naive, seed=asked.seed)
    print(
        f"{'naive ' * asked.naive}{asked.what} to {asked.to}: {asked.kills} kills, {asked.freezes} freezes, {found.rows} rows: "
        f"{found.doubled} doubled, {found.lost} lost, {found.refused} batches refused; another driver has published after "
        + " and ".join(
            f"{statistics.median(took):.2f} s ({what}, median; {max(took):.2f} s at most)"
            for what, took in (("kill", found.after_kills), ("freeze", found.after_freezes))
            if took
        )
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--driver"]:
        drive(*sys.argv[2:])
    else:
        main()
