"""The workers of one run: starts them, hears how far they have come, and kills them in the end."""

from __future__ import annotations

import queue
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from bench.consume.plan import Plan, Way
from bench.consume.timeline import Line
from bench.on_kafka import url as fresh
from bench.processes import Player, Troupe
from pares.core.errors import CapabilityError
from pares.dev import Kafka
from pares.runtime.clock import stopwatch

PATIENCE: Final = 300.0
CALM: Final = 1.5
"""Seconds without a change of who has what, after which a group counts as settled."""
_PYRALLEL: Final = Path(__file__).with_name("by_pyrallel.py")


class Led(NamedTuple):
    """A worker begins with a partition."""

    worker: str
    partition: int
    at: int


class Crew(Troupe):
    """`kafka`: where log and topic are; None if the plan says where. `peer`: the interpreter that has pyrallel-consumer."""

    peer: str | None = None

    def __init__(self, kafka: Kafka | None, topic: str, way: Way, **plan: Any) -> None:
        super().__init__()
        self.way: Way = way
        if kafka is not None:
            plan |= {"log": fresh(kafka), "bootstrap": kafka.bootstrap, "source": f"kafka://{kafka.bootstrap}"}
        group = f"{way}-{uuid.uuid4().hex[:8]}"
        self._plan = Plan(way=way, name="", group=group, topic=topic, **plan)
        self.done: dict[str, Line] = defaultdict(list)
        """How far each worker has come, and when."""
        self.holds: dict[str, int] = {}
        self.led: list[Led] = []
        self._ready: set[str] = set()
        self._leaving: list[Player] = []

    @property
    def group(self) -> str:
        return self._plan.group

    @property
    def log(self) -> str:
        return self._plan.log

    def add(self, name: str) -> Player:
        plan = replace(self._plan, name=name, trace=f"{self._folder.name}/{name}.rows" if self._plan.trace else "")
        if self.way != "pyrallel":
            return self.cast(name, [sys.executable, "-m", "bench.consume.worker", plan.encode()])
        if self.peer is None:
            raise CapabilityError("pyrallel-consumer needs an interpreter that has it: name one by --pyrallel")
        return self.cast(name, [self.peer, str(_PYRALLEL), plan.encode()])

    def traces(self) -> list[Path]:
        return sorted(Path(self._folder.name).glob("*.rows"))

    def next(self, timeout: float) -> bool:
        """Hears the next line; False if there is none in that time."""
        try:
            name, word, about, at, *rest = self.lines.get(timeout=max(0.0, timeout))
        except queue.Empty:
            for name, player in self.players.items():
                if player.process.poll() is not None:
                    raise ChildProcessError(f"{self.way}: {name} ended by itself") from None
            return False
        if word == "did":
            self.done[name].append((int(at), int(rest[0])))
        elif word == "holds":
            self.holds[name] = int(rest[0])
        elif word == "lead":
            self.led.append(Led(name, int(about), int(at)))
        elif word == "ready":
            self._ready.add(name)
        return True

    def listen(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.next(left)

    def until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Listens until it is so. Raises `TimeoutError`."""
        end = time.monotonic() + PATIENCE
        while not is_so():
            self.next(1.0)
            if time.monotonic() > end:
                raise TimeoutError(f"{self.way}: not {what} after {PATIENCE:g} s; they hold {self.holds}")

    def ready(self) -> None:
        self.until("all ready", lambda: self._ready >= self.players.keys())

    def settled(self, seats: int | None = None) -> None:
        """Until all are ready, so many seats are held, if that is said, and nothing has changed for a while."""
        self.ready()
        while True:
            if seats is not None:
                self.until(f"{seats} held", lambda: sum(self.holds.values()) == seats)
            before, end = dict(self.holds), time.monotonic() + CALM
            while (left := end - time.monotonic()) > 0:
                self.next(left)
            if before == self.holds:
                return

    def go(self) -> int:
        """All may ask for records from now on; when that is."""
        now = stopwatch()
        for player in self.players.values():
            player.say("go")
        return now

    def total(self) -> int:
        return sum(line[-1][1] for line in self.done.values() if line)

    def lose(self, name: str) -> int:
        """Kills one; the moment before it."""
        player = self.players.pop(name)
        now = stopwatch()
        player.kill()
        player.process.wait()
        self.holds.pop(name, None)
        self._ready.discard(name)
        return now

    def dismiss(self, name: str) -> int:
        """One leaves by itself; when it was told to."""
        player = self.players.pop(name)
        now = stopwatch()
        player.say("leave")
        player.hang_up()
        self._leaving.append(player)
        self.holds.pop(name, None)
        self._ready.discard(name)
        return now

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for player in [*self.players.values(), *self._leaving]:
            player.kill()
            player.process.wait()
        super().__exit__(kind, error, trace)
