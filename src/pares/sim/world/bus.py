"""The bus of a world, for ALLCALL: broadcast to whoever listens, late, or not at all, and only within one side of a split.

Messages of one publisher reach one listener in the order in which they were sent, at most once each (`pares.ledger.Bus`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pares.core.errors import ClosedError, LedgerUnavailable
from pares.ledger.base import Capabilities
from pares.sim.engine import MS
from pares.sim.world.process import Process
from pares.sim.world.scheduler import Task

if TYPE_CHECKING:
    from pares.sim.world.simulation import World

Span = tuple[int, int]


class Air(Struct, frozen=True):
    """How messages fare on their way to one process. Times in nanoseconds."""

    delay: Span = (MS // 10, MS)
    dropped: float = 0.0
    slow: float = 0.0
    slow_by: Span = (0, 0)


FAIR: Final = Air()


class SharedBus:
    """What all handles of one world publish to."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.handles: list[SimBus] = []
        self.sides: dict[str, int] = {}
        """While it is split: the side of each process that is not on side 0, by its name."""
        self.sent: list[Callable[[Process, str, bytes], object]] = []
        """Told of each message that is published."""
        self._rng: Random = world.random(f"bus {name}")

    def split(self, *sides: set[str]) -> None:
        """Messages pass within a side only; those that no side names are on one of their own. Without sides all are healed."""
        self.sides = {name: place + 1 for place, side in enumerate(sides) for name in sorted(side)}

    def publish(self, process: Process, subject: str, payload: bytes) -> None:
        for tell in self.sent:
            tell(process, subject, payload)
        for handle in self.handles:
            same = self.sides.get(process.name, 0) == self.sides.get(handle.process.name, 0)
            if same and not (handle.cut and handle.process is not process):
                self._carry(process, handle, subject, payload)

    def _carry(self, process: Process, handle: SimBus, subject: str, payload: bytes) -> None:
        air, rng, world = handle.air, self._rng, self.world
        if air.dropped and rng.random() < air.dropped:
            return
        delay = rng.randint(*air.delay)
        if air.slow and rng.random() < air.slow:
            delay += rng.randint(*air.slow_by)
        at = max(world.now + delay, handle.last_from.get(process.pid, 0) + 1)
        handle.last_from[process.pid] = at
        world.at(at, handle.arrives, subject, payload)


class SimBus:
    """One process' handle. Callbacks run on a task of that process."""

    kind = "simbus"
    capabilities = Capabilities()

    def __init__(self, process: Process, bus: SharedBus, air: Air = FAIR) -> None:
        self.process = process
        self.bus = bus
        self.air = air
        self.url = f"simbus://{bus.name}"
        self.cut = False
        """Nothing passes to it or from it."""
        self.last_from: dict[int, int] = {}
        """By publisher: when its last message arrives here."""
        self._listeners: dict[int, tuple[str, Callable[[bytes], None]]] = {}
        self._arrived: deque[tuple[str, bytes]] = deque()
        self._numbers = 0
        self._task: Task | None = None
        self._waiting: int | None = None
        self._closed = False
        bus.handles.append(self)
        process.at_kill.append(self._drop)

    def publish(self, subject: str, payload: bytes) -> None:
        self.process.cross("publish")
        if self._closed:
            raise ClosedError(f"{self.url} was closed: open it again")
        if self.cut:
            raise LedgerUnavailable(f"{self.url}: no connection")
        self.bus.publish(self.process, subject, payload)

    def listen(self, subject: str, on_message: Callable[[bytes], None]) -> Callable[[], None]:
        self.process.cross("listen")
        if self._closed:
            raise ClosedError(f"{self.url} was closed: open it again")
        self._numbers += 1
        number = self._numbers
        self._listeners[number] = (subject, on_message)
        if self._task is None:
            self._task = self.process.spawn(self._run, f"bus {self.url}")
        return lambda: self._stop(number)

    def close(self) -> None:
        self.process.cross("close")
        self._drop()

    def arrives(self, subject: str, payload: bytes) -> None:
        """A message comes to the process. By the hub."""
        if not self._closed and self.process.alive and not self.cut:
            self._arrived.append((subject, payload))
            self._wake()

    def _stop(self, number: int) -> None:
        self.process.cross("listen")
        self._listeners.pop(number, None)

    def _drop(self) -> None:
        self._closed = True
        self._listeners.clear()
        if self in self.bus.handles:
            self.bus.handles.remove(self)
        self._wake()

    def _wake(self) -> None:
        if self._task is not None and self._waiting is not None:
            ticket, self._waiting = self._waiting, None
            self.process.wake(self._task, ticket)

    def _run(self) -> None:
        process = self.process
        while not self._closed:
            while self._arrived:
                subject, payload = self._arrived.popleft()
                process.cross("message")
                for number, (wanted, on_message) in list(self._listeners.items()):
                    if wanted == subject and number in self._listeners:
                        try:
                            on_message(payload)
                        except Exception as error:
                            process.world.told(process, f"a listener raised {error!r}")
            if not self._closed:
                self._waiting = process.world.task().ticket
                process.block("bus")
