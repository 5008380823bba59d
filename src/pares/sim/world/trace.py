"""What happened, as lines that a person can read and that two runs of one seed share; messages that are logged included."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol

from pares.sim.engine import SECOND

LOGGED: Final = logging.INFO


class Trace:
    """Lines `seconds  process  text`; none are kept unless it is `told`."""

    def __init__(self, *, told: bool) -> None:
        self.told = told
        self.lines: list[str] = []

    def add(self, at: int, who: str, text: str) -> None:
        if self.told:
            self.lines.append(f"{at / SECOND:12.6f}  {who:<10} {text}")

    def add_line(self, at: int, who: str, text: str) -> None:
        self.add(at, who, text.replace("\n", " | "))


class Named(Protocol):
    """A process, as far as its name goes."""

    name: str


class Traced(Protocol):
    """A world, as far as a trace is kept of it."""

    now: int
    dead: bool
    trace: Trace
    current: Any
    """The task that runs."""

    def looking(self) -> AbstractContextManager[None]: ...


class _Capture(logging.Handler):
    """What is logged by simulated processes goes to the trace, and nowhere else."""

    def __init__(self, world: Traced) -> None:
        super().__init__()
        self.world = world

    def createLock(self) -> None:
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Without a lock, which from 3.14 on `Handler.handle` takes for granted: only one task runs at a time."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        world = self.world
        if world.dead or not world.trace.told:
            return
        task = world.current
        who = "--" if task is None else task.process.name
        with world.looking():
            text = record.getMessage()
        world.trace.add_line(world.now, who, f"{record.levelname.lower()}: {text}")


@contextmanager
def captured(world: Traced) -> Generator[None, None, None]:
    """While this lasts nothing that pares logs is printed."""
    logger, handler = logging.getLogger("pares"), _Capture(world)
    before = logger.handlers, logger.propagate, logger.level
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(LOGGED if world.trace.told else logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.handlers, logger.propagate = before[0], before[1]
        logger.setLevel(before[2])


def name_of(process: Named | None) -> str:
    return "--" if process is None else process.name
