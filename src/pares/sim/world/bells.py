"""What a member's loop waits for (`pares.runtime.driver.doorbell`): an append by anybody, a death, a request, or a time."""

from __future__ import annotations

from typing import Protocol

from pares.ledger import Log
from pares.sim.world.death import Deaths
from pares.sim.world.process import Process
from pares.sim.world.scheduler import Task


class Ringing(Protocol):
    """A simulated ledger, as far as bells are concerned."""

    has_bell: bool

    def wake_on_append(self, partition: int, ring: Bells) -> None: ...

    def wake_no_more(self, ring: Bells) -> None: ...


class Descriptors:
    """What stands behind numbers that are passed around as descriptors."""

    def __init__(self) -> None:
        self._known: dict[int, Deaths] = {}

    def add(self, what: Deaths) -> int:
        number = 10_000 + len(self._known)
        self._known[number] = what
        return number

    def get(self, number: int) -> Deaths:
        return self._known[number]


class Bells:
    """For one member; on one partition, or (`partitions`) on so many."""

    def __init__(self, process: Process, ledger: Log | None, partitions: tuple[int, ...]) -> None:
        process.cross("bells")
        self._process = process
        self._ledger: Ringing | None = ledger if hasattr(ledger, "wake_on_append") else None  # type: ignore[assignment]
        self.heard = False
        """A bell of the ledger has rung, or somebody that is watched died."""
        self._rang = False
        """It was a bell of the ledger."""
        self._pushed = False
        """`ring` was called."""
        self._closed = False
        self._waiting: list[tuple[Task, int, bool]] = []
        if self._ledger is not None and self._ledger.has_bell:
            for partition in partitions:
                self._ledger.wake_on_append(partition, self)

    @property
    def process(self) -> Process:
        return self._process

    @property
    def listens(self) -> bool | None:
        return None if self._ledger is None else self._ledger.has_bell

    def also(self, descriptors: list[int]) -> None:
        for number in descriptors:
            self._process.world.descriptors.get(number).on_wake = self._hear

    def sound(self) -> None:
        """A bell of the ledger rings. Not called by tasks of the process."""
        self._rang = True
        self._hear()

    def _hear(self) -> None:
        if not self._closed and not self.heard:
            self.heard = True
            self._wake(pushed=False)

    def _wake(self, *, pushed: bool) -> None:
        waiting, self._waiting = self._waiting, []
        for task, ticket, only_pushed in waiting:
            if pushed or not only_pushed:
                self._process.wake(task, ticket)
            else:
                self._waiting.append((task, ticket, only_pushed))

    def wait(self, seconds: float) -> bool:
        process = self._process
        process.cross("bells:wait")
        task = process.world.task()
        if not (self.heard or self._pushed) and seconds > 0:
            self._waiting.append((task, task.ticket, False))
            process.block("bells", process.deadline(seconds))
        rang = self._rang
        process.rounds += seconds > 0 and not self._pushed
        self.heard = self._pushed = self._rang = False
        task.waited_at = process.world.now
        return rang

    def rest(self, seconds: float) -> None:
        process = self._process
        process.cross("bells:rest")
        if not self._pushed and seconds > 0:
            task = process.world.task()
            self._waiting.append((task, task.ticket, True))
            process.block("bells", process.deadline(seconds))

    def ring(self) -> None:
        self._process.cross("notify")
        if not self._closed:
            self._pushed = True
            self._wake(pushed=True)

    def close(self) -> None:
        self._closed = True
        if self._ledger is not None:
            self._ledger.wake_no_more(self)

    close_in_child = close
