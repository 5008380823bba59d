"""The bus of a world, for ALLCALL: broadcast to all listeners, late, or not at all, and only as far as nothing is cut.

Messages of one publisher reach one listener in the order in which they were sent, at most once each (`pares.ledger.Bus`),
unless the air says that this bus is worse than that. What is on its way to a process whose connection breaks is gone with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

from msgspec import Struct

from pares.core.errors import ClosedError, LedgerUnavailable
from pares.ledger.base import Capabilities
from pares.sim.engine import MS
from pares.sim.world.process import Process
from pares.sim.world.scheduler import Task
from pares.sim.world.seam import Ground

Span = tuple[int, int]
Cut = Callable[[str, str], bool]
"""Whether nothing passes from one process to another, by their names."""
LONG_AGO: Final = -(2**62)


class Air(Struct, frozen=True):
    """How messages fare on their way to one process. Times in nanoseconds, chances per message."""

    delay: Span = (MS // 10, MS)
    dropped: float = 0.0
    slow: float = 0.0
    slow_by: Span = (0, 0)
    doubled: float = 0.0
    """It comes a second time, `late_by` later, whatever came in between."""
    late: float = 0.0
    """It comes `late_by` later, and what was sent after it may overtake it."""
    late_by: Span = (0, 0)


FAIR: Final = Air()


class SharedBus:
    """What all handles of one world publish to."""

    def __init__(self, world: Ground, name: str) -> None:
        self.world = world
        self.name = name
        self.handles: list[SimBus] = []
        self.sides: dict[str, int] = {}
        """While it is split: the side of each process that is not on side 0, by its name."""
        self.cuts: list[Cut] = []
        self.sent: list[Callable[[Process, str, bytes], object]] = []
        """Told of each message that is published."""
        self.came: list[Callable[[Process, bytes], object]] = []
        """Told of each message that has come to a process, and waits there for its bus' task."""
        self.published = 0
        self.unsettled_until = 0
        """When the last message that is late, or comes again, does so."""
        self._hindered: dict[tuple[str, str], int] = {}
        self._rng: Random = world.random(f"bus {name}")

    def split(self, *sides: set[str]) -> None:
        """Messages pass within a side only; those that no side names are on one of their own. Without sides all are healed."""
        self.sides = {name: place + 1 for place, side in enumerate(sides) for name in sorted(side)}

    def passes(self, one: SimBus, other: SimBus) -> bool:
        """Whether what one publishes now reaches the other, if it is not lost."""
        source, target = one.process.name, other.process.name
        if one.cut or one.mute or other.cut or other.deaf or self.sides.get(source, 0) != self.sides.get(target, 0):
            return False
        return not any(cut(source, target) for cut in self.cuts)

    def hindered(self, source: str, target: str) -> int:
        """The true time up to which something that one process sent did not reach another in the usual time."""
        return self._hindered.get((source, target), LONG_AGO)

    def publish(self, handle: SimBus, subject: str, payload: bytes) -> None:
        self.published += 1
        for tell in self.sent:
            tell(handle.process, subject, payload)
        self.carry(handle, subject, payload)

    def carry(self, source: SimBus, subject: str, payload: bytes) -> None:
        """To everybody whom it reaches."""
        for target in self.handles:
            air, rng, now = target.air, self._rng, self.world.now
            if not self.passes(source, target) or (air.dropped and rng.random() < air.dropped):
                self._hinder(source, target, now)
                continue
            at = now + rng.randint(*air.delay)
            if air.slow and rng.random() < air.slow:
                at += rng.randint(*air.slow_by)
                self._hinder(source, target, at)
            if air.late and rng.random() < air.late:
                at += rng.randint(*air.late_by)
                self.unsettled_until = max(self.unsettled_until, at)
                self._hinder(source, target, at)
            else:
                at = max(at, target.last_from.get(source.process.pid, 0) + 1)
                target.last_from[source.process.pid] = at
            self.deliver(at, source, target, subject, payload)
            if air.doubled and rng.random() < air.doubled:
                at += rng.randint(*air.late_by)
                self.unsettled_until = max(self.unsettled_until, at)
                self.deliver(at, source, target, subject, payload)

    def deliver(self, at: int, source: SimBus | None, target: SimBus, subject: str, payload: bytes) -> None:
        """It comes at `at`, unless the target's connection is another one by then; perhaps a copy of something old."""
        self.world.at(at, self._arrives, source, target, target.connection, subject, payload)

    def _arrives(self, source: SimBus | None, target: SimBus, connection: int, subject: str, payload: bytes) -> None:
        if target.cut or target.deaf or target.connection != connection:
            if source is not None:
                self._hinder(source, target, self.world.now)
            return
        target.arrives(subject, payload)

    def _hinder(self, source: SimBus, target: SimBus, until: int) -> None:
        names = (source.process.name, target.process.name)
        self._hindered[names] = max(until, self._hindered.get(names, LONG_AGO))


class SimBus:
    """One process' handle. Callbacks run on a task of that process."""

    kind = "simbus"
    capabilities = Capabilities()

    def __init__(self, process: Process, bus: SharedBus, air: Air = FAIR) -> None:
        self.process = process
        self.bus = bus
        self.air = air
        self.url = f"simbus://{bus.name}"
        self.connection = 1
        self.deaf = False
        """Nothing reaches it, and nobody is told."""
        self.mute = False
        """Nothing that it publishes reaches anybody, itself included, and it is not told."""
        self.keeps = False
        """What can't be sent is kept, and sent when the connection is there again."""
        self.last_from: dict[int, int] = {}
        """By publisher: when its last message arrives here."""
        self._cut = False
        self._kept: list[tuple[str, bytes]] = []
        self._listeners: dict[int, tuple[str, Callable[[bytes], None]]] = {}
        self._arrived: deque[tuple[str, bytes]] = deque()
        self._numbers = 0
        self._task: Task | None = None
        self._waiting: int | None = None
        self._closed = False
        bus.handles.append(self)
        process.at_kill.append(self._drop)

    @property
    def cut(self) -> bool:
        """There is no connection: nothing passes to it or from it. Healed, it is another connection."""
        return self._cut

    @cut.setter
    def cut(self, cut: bool) -> None:
        healed, self._cut = self._cut and not cut, cut
        if healed:
            self.connection += 1
            kept, self._kept = self._kept, []
            for subject, payload in kept:
                self.bus.carry(self, subject, payload)

    @property
    def epoch(self) -> int:
        """See `pares.ledger.Reconnecting`."""
        return 0 if self._cut else self.connection

    @property
    def waiting(self) -> int:
        """How many messages have come that no listener has been given yet."""
        return len(self._arrived)

    @property
    def well(self) -> bool:
        return not (self._cut or self.deaf or self.mute)

    def publish(self, subject: str, payload: bytes) -> None:
        self.process.cross("publish")
        if self._closed:
            raise ClosedError(f"{self.url} was closed: open it again")
        if not self._cut:
            self.bus.publish(self, subject, payload)
        elif self.keeps:
            self._kept.append((subject, payload))
            for tell in self.bus.sent:
                tell(self.process, subject, payload)
        else:
            raise LedgerUnavailable(f"{self.url}: no connection")

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
        if self._task is not None and not self._closed and self.process.alive:
            self._arrived.append((subject, payload))
            for tell in self.bus.came:
                tell(self.process, payload)
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
                process.cross("message")
                subject, payload = self._arrived.popleft()
                for number, (wanted, on_message) in list(self._listeners.items()):
                    if wanted == subject and number in self._listeners:
                        try:
                            on_message(payload)
                        except Exception as error:
                            process.world.told(process, f"a listener raised {error!r}")
            if not self._closed:
                self._waiting = process.world.task().ticket
                process.block("bus")
