"""Python's own clocks, sleeps, threads and locks, and `pares.open`, for code that runs in a process of a stage: there they are
its host's.

While a stage is open, the names below lead to functions that ask where they are called. In a process of a stage they answer by
virtual time; everywhere else, in the test itself and in other threads, they are what they always were. Modules that have such a
name from an earlier `from time import sleep` are given the new one, too. Not virtual: `datetime.now()`, sockets, subprocesses,
`threading.local`, and locks that were made outside of the stage.
"""

from __future__ import annotations

import _thread
import functools
import queue
import sys
import threading
import time
from asyncio import events
from collections.abc import Callable
from concurrent.futures import thread as pool
from typing import Any, Final

from pares.ledger import registry
from pares.runtime.here import HERE
from pares.sim.world.host import SimHost
from pares.sim.world.process import Process
from pares.sim.world.scheduler import Task
from pares.sim.world.sync import Lock
from pares.testing.event_loop import StageLoop

Call = Callable[..., Any]
MAIN: Final = "main"
"""The name of a process' first thread."""


class Waiter(Lock):
    """What `threading.Condition` makes for each wait, and takes and frees while it holds a lock that may be a real one: nobody
    else may run at these calls, as nobody could ever get that lock."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._held:
            self._held = True
            return True
        return super().acquire(blocking, timeout)

    def release(self) -> None:
        self._held = False
        self._wake_next()


def _here() -> SimHost | None:
    """The host of the process of a stage that calls."""
    host = HERE.get()
    return host if isinstance(host, SimHost) else None


def _either(real: Call, virtual: Callable[..., Any]) -> Call:
    """`virtual` is called with the host before the arguments."""

    @functools.wraps(real, updated=())
    def called(*args: Any, **kwargs: Any) -> Any:
        host = _here()
        return real(*args, **kwargs) if host is None else virtual(host, *args, **kwargs)

    return called


# Threads -------------------------------------------------------------------------------------------------------------

_start, _join, _is_alive = threading.Thread.start, threading.Thread.join, threading.Thread.is_alive


def _task(thread: threading.Thread) -> Task | None:
    return thread.__dict__.get("_pares_task")


def start(thread: threading.Thread) -> None:
    host = _here()
    if host is None:
        _start(thread)
    elif _task(thread) is not None:
        raise RuntimeError("threads can only be started once")
    else:
        _know(host.spawn(thread.run, thread.name), thread)
        thread._started.set()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


def join(thread: threading.Thread, timeout: float | None = None) -> None:
    task = _task(thread)
    if task is None:
        _join(thread, timeout)
    elif task.is_alive():
        task.join(timeout)


def is_alive(thread: threading.Thread) -> bool:
    task = _task(thread)
    return _is_alive(thread) if task is None else task.is_alive()


def _know(task: Task, thread: threading.Thread) -> None:
    thread.__dict__["_pares_task"] = task
    thread._ident = task.ident  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    task.thread = thread


def current(host: SimHost) -> threading.Thread:
    """Never the real main thread: so nobody takes it for the one that hears signals."""
    task = host.task()
    if not isinstance(task.thread, threading.Thread):
        _know(task, threading.Thread(name=task.name, daemon=task.name != MAIN))
    return task.thread  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def join_all(process: Process) -> None:
    """As Python does before it ends: threads that are no daemons are waited for."""
    me = process.world.task()
    for task in list(process.tasks):
        if task is not me and isinstance(task.thread, threading.Thread) and not task.thread.daemon:
            task.join()


# The names -----------------------------------------------------------------------------------------------------------

_VIRTUAL: Final[tuple[tuple[Call, Call], ...]] = (
    (time.sleep, lambda host, seconds: host.sleep(seconds)),
    (time.monotonic, lambda host: host.now() / 1e9),
    (time.monotonic_ns, lambda host: host.now()),
    (time.perf_counter, lambda host: host.now() / 1e9),
    (time.perf_counter_ns, lambda host: host.now()),
    (time.time, lambda host: host.wall_us() / 1e6),
    (time.time_ns, lambda host: host.wall_us() * 1000),
    (threading.Lock, lambda host: host.lock()),
    (threading.RLock, lambda host: host.rlock()),
    (threading.get_ident, lambda host: host.ident()),
    (threading.current_thread, current),
    (queue.SimpleQueue, lambda host: host.mailbox()),
    (events.new_event_loop, StageLoop),
    (registry.open, lambda host, url, **options: host.open(url, **options)),
    (registry.open_bus, lambda host, url, **options: host.open_bus(url, **options)),
)
_BY_ID: Final = {id(real): _either(real, virtual) for real, virtual in _VIRTUAL}
_BUILT_IN: Final = ("_thread", "_queue", __name__)
"""Modules whose names stay what they are: the import of modules has locks of its own."""

_places: list[tuple[Any, str]] = []
"""Where such a function goes by some name: in its own module, or where it was imported to."""
_searched: set[str] = set(_BUILT_IN)
_changed: list[tuple[Any, str, Any]] = []
"""What was changed: where, the name, and what it was."""
_open = 0  # stages


def begin() -> None:
    """A stage is open."""
    global _open
    _open += 1
    if _open > 1:
        return
    _search()
    for place, name in _places:
        if id(real := getattr(place, name, None)) in _BY_ID:
            _change(place, name, _BY_ID[id(real)])
    waiter = _either(_thread.allocate_lock, lambda host: Waiter(host.process))
    _change(threading, "_allocate_lock", waiter)
    for name, virtual in (("start", start), ("join", join), ("is_alive", is_alive)):
        _change(threading.Thread, name, virtual)
    # Held while a pool is given work: by tasks of one OS thread, which must not wait for each other here.
    _change(pool, "_global_shutdown_lock", threading.RLock())


def _search() -> None:
    """In what was imported since the last time."""
    for key, module in list(sys.modules.items()):
        if key not in _searched:
            _searched.add(key)
            _places.extend((module, name) for name, value in list(vars(module).items()) if id(value) in _BY_ID)


def end() -> None:
    """It is open no more."""
    global _open
    _open -= 1
    while not _open and _changed:
        place, name, real = _changed.pop()
        setattr(place, name, real)
    known: Any = pool._threads_queues  # pyright: ignore[reportAttributeAccessIssue]
    for thread in [thread for thread in known if (task := _task(thread)) is not None and task.process.world.dead]:
        del known[thread]  # Python would wait for it at its own end


def _change(place: Any, name: str, to: Any) -> None:
    _changed.append((place, name, getattr(place, name)))
    setattr(place, name, to)
