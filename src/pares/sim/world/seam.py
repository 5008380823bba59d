"""What the parts of a world know of those that stand on them: so none imports what imports it, for its type either."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Protocol

from greenlet import greenlet

from pares.ledger import Log
from pares.runtime.host import Host, Leaver


class ProcessHost(Host, Protocol):
    """The host of a simulated process (`host`)."""

    provable: bool
    members: dict[int, Leaver]

    def bells(self, ledger: Log | None, partitions: Sequence[int] = (0,)) -> Any: ...

    def death_lock(self, folder: Path, member: str) -> Any: ...

    def context(self) -> contextvars.Context: ...

    def exit(self) -> None: ...


class Owner(Protocol):
    """A process (`process`), as its tasks know it."""

    name: str
    alive: bool
    frozen: bool
    calls: int
    world: Ground
    host: ProcessHost
    context: contextvars.Context
    deferred: list[tuple[Any, int, bool]]
    failures: list[tuple[str, BaseException]]

    def cross(self, kind: str) -> None: ...

    def deadline(self, seconds: float | None) -> int | None: ...

    def block(self, what: str, deadline: int | None = None) -> bool: ...

    def wake(self, task: Any, ticket: int) -> None: ...

    def ended(self, task: Any) -> None: ...


class Ground(Protocol):
    """A world (`simulation`), as all that is in it knows it."""

    now: int
    _count: int
    events: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]]
    hub: greenlet
    current: Any
    """The task that runs."""
    dead: bool
    quiet: bool
    burden: int
    busy_until: dict[str, int]
    descriptors: Any
    locks: Any
    handles: list[Any]

    def at(self, when: int, call: Callable[..., object], *args: Any) -> None: ...

    def after(self, delay: int, call: Callable[..., object], *args: Any) -> None: ...

    def put(self, when: int, call: Callable[..., object], args: tuple[Any, ...]) -> None: ...

    def task(self) -> Any: ...

    def resume(self, task: Any, ticket: int, value: bool) -> None: ...

    def drop(self, tasks: list[Any]) -> None: ...

    def told(self, process: Any, text: str) -> None: ...

    def random(self, what: str) -> Random: ...

    def log(self, name: str = "log", partitions: int = 1) -> Any: ...

    def ledger(self, process: Any, log: Any, weather: Any = ..., *, many_at_once: bool = ...) -> Any: ...

    def sent(self, process: Any, ledger: Any, partition: int, payloads: Sequence[bytes]) -> None: ...

    def kill(self, process: Any) -> None: ...

    def freeze(self, process: Any, length: int | None = None) -> None: ...

    def hindered(self, process: Any) -> None: ...
