"""The run: a topic that orders come into, workers as processes, and what is done to them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import pares
from examples.consume.worker import GROUP, SCHEMA, TOPIC, connected
from pares.core.consume.names import Partition
from pares.ledger import open_topic

PATIENCE: Final = 60.0
"""Seconds for which the end of the work is waited for."""
CUSTOMERS: Final = 50


@dataclass(frozen=True)
class Plan:
    """One run. `seconds` of orders and faults, `rate` orders a second, a fault every `pace` seconds."""

    seconds: float = 30.0
    workers: int = 4
    partitions: int = 8
    rate: int = 400
    session: float = 1.0
    pace: float = 3.0
    seed: int = 1
    fenced: bool = True


class Counts(NamedTuple):
    """What stands in the database, of what stands in the topic."""

    orders: int
    booked: int
    twice: int
    missing: int


class Held(NamedTuple):
    """A partition, as the group's log has it."""

    number: int
    worker: str
    """Empty: nobody's."""
    token: int
    position: int
    lag: int


@dataclass
class Worker:
    name: str
    process: subprocess.Popen[bytes]
    state: str = "runs"
    until: float = 0.0
    """When it goes on, or is started again."""


@dataclass
class Stage:
    plan: Plan
    folder: Path
    workers: list[Worker] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    kills: int = 0
    freezes: int = 0

    def __post_init__(self) -> None:
        self.url = f"file:{self.folder / 'work'}"
        self.sink = str(self.folder / "sink.db")
        self.ledger = pares.open(self.url)
        self.topic = open_topic(self.ledger, TOPIC, self.plan.partitions)
        self.observer = pares.Observer(self.url, group=GROUP)
        self.database = connected(self.sink)
        with self.database:
            self.database.execute(SCHEMA)
        self._rng = Random(self.plan.seed)
        self._over = threading.Event()
        self.began = time.monotonic()

    # Orders --------------------------------------------------------------------------------------------------------------

    def _produce(self) -> None:
        """Orders, a few at a time, until the storm is over."""
        number, rng = 0, Random(self.plan.seed)
        while not self._over.wait(0.05):
            for _ in range(max(1, self.plan.rate // 20)):
                number += 1
                self.topic.append(b"order %d" % number, key=b"customer %d" % rng.randrange(CUSTOMERS))

    # Workers -------------------------------------------------------------------------------------------------------------

    def start(self, name: str) -> Worker:
        how = "fence" if self.plan.fenced else "plain"
        arguments = [name, self.url, self.sink, str(self.plan.session), how]
        worker = Worker(name, subprocess.Popen([sys.executable, "-m", "examples.consume.worker", *arguments]))
        self.workers = sorted([*(w for w in self.workers if w.name != name), worker], key=lambda w: w.name)
        return worker

    def step(self, now: float) -> None:
        """What is due: workers come back."""
        for worker in list(self.workers):
            if worker.state == "frozen" and now >= worker.until:
                worker.process.send_signal(signal.SIGCONT)
                worker.state = "runs"
                self._told(f"{worker.name} goes on")
            elif worker.state == "killed" and now >= worker.until:
                self.start(worker.name)
                self._told(f"{worker.name} is started again")

    def fault(self, now: float) -> None:
        """Kills or freezes one that runs, for longer than its session."""
        able = [worker for worker in self.workers if worker.state == "runs"]
        if len(able) < 2:
            return
        worker = self._rng.choice(able)
        worker.until = now + self.plan.session * (1.5 + 2 * self._rng.random())
        if self._rng.random() < 0.5:
            worker.state, self.kills = "killed", self.kills + 1
            worker.process.kill()
            worker.process.wait()
        else:
            worker.state, self.freezes = "frozen", self.freezes + 1
            worker.process.send_signal(signal.SIGSTOP)
        self._told(f"{worker.name} is {worker.state}")

    def _told(self, text: str) -> None:
        self.faults.append(f"{time.monotonic() - self.began:5.1f} s  {text}")

    def _harm(self) -> None:
        """Faults at the plan's pace, and what comes after each, until the storm is over; then all run again."""
        fault_at = self.plan.pace
        while not self._over.wait(0.05):
            now = time.monotonic() - self.began
            self.step(now)
            if now >= fault_at:
                self.fault(now)
                fault_at += self.plan.pace
        self.step(float("inf"))

    @contextlib.contextmanager
    def storm(self) -> Iterator[None]:
        """Orders and faults, each on a thread of its own: a worker that is frozen may have a lock of the database that all
        wait for who read it, so none of them must be what lets it go on."""
        threads = [threading.Thread(target=does, daemon=True) for does in (self._produce, self._harm)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    # What came of it -----------------------------------------------------------------------------------------------------

    def held(self) -> list[Held]:
        self.observer.read()
        world = self.observer.world
        found: list[Held] = []
        for seat in world.seats.values():
            partition = Partition.of(seat.role)
            if partition is not None:
                holder = world.members.get(seat.holder or "")
                lag = max(0, self.topic.end(partition.number) - seat.mark)
                found.append(Held(partition.number, holder.name if holder else "", seat.token, seat.mark, lag))
        return sorted(found)

    def booked(self) -> int:
        return int(self.database.execute("SELECT count(*) FROM booked").fetchone()[0])

    def twice(self) -> int:
        return self.booked() - int(
            self.database.execute("SELECT count(*) FROM (SELECT DISTINCT part, place FROM booked)").fetchone()[0]
        )

    def counts(self) -> Counts:
        orders = {(number, entry.offset) for number in range(self.plan.partitions) for entry in self._entries(number)}
        booked = set(self.database.execute("SELECT DISTINCT part, place FROM booked").fetchall())
        return Counts(len(orders), self.booked(), self.twice(), len(orders - booked))

    def _entries(self, number: int) -> Iterator[pares.Entry]:
        at = self.topic.start(number)
        while found := self.topic.read(at, number):
            yield from found
            at = found[-1].offset + 1

    def worked_off(self) -> bool:
        found = self.held()
        return len(found) == self.plan.partitions and all(each.lag == 0 for each in found)

    def close(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGCONT)
                worker.process.terminate()
        for worker in self.workers:
            try:
                worker.process.wait(10)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
        self.observer.close()
        self.topic.close()
        self.ledger.close()
        self.database.close()


def run(stage: Stage, shown: list[float]) -> Iterator[float]:
    """Plays it, and yields now and then, so that it can be shown; the time since it began. `shown` gets the velocity."""
    plan = stage.plan
    for number in range(plan.workers):
        stage.start(f"worker-{number}")
    before = (0.0, 0)
    with stage.storm():
        while (now := time.monotonic() - stage.began) < plan.seconds:
            booked = stage.booked()
            if now - before[0] >= 1:
                shown[:], before = [(booked - before[1]) / (now - before[0])], (now, booked)
            yield now
            time.sleep(0.1)
    end = time.monotonic() + PATIENCE
    while not stage.worked_off() and time.monotonic() < end:
        yield time.monotonic() - stage.began
        time.sleep(0.1)
