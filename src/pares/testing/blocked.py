"""Finds a process of a stage that waits in real time, where nothing would ever wake it, and ends the test with what to do."""

from __future__ import annotations

import linecache
import signal
import sysconfig
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from pares.sim.world.simulation import World

LOOK: Final = 0.25
"""Seconds of real time between two looks."""
SIGNAL: Final = signal.SIGVTALRM
"""Ends a wait of the main thread; nobody else uses this one."""


class Blocked(BaseException):
    """Ends the task that waits. Not an `Exception`, which the code under test might catch."""


class Watchdog:
    """A real thread that looks whether tasks of `world` come back. `patience`: seconds of real time for which one may do
    nothing at all; one that computes is left alone. Works where the stage runs in the main thread, as pytest's tests do."""

    def __init__(self, world: World, patience: float) -> None:
        self._world = world
        self._patience = patience
        self._lock = threading.Lock()
        self._running = False
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self) -> Generator[None, None, None]:
        """While the world runs."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(SIGNAL, self._interrupt)
        with self._lock:
            self._running = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="pares stage", daemon=True)
            self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._running = False
            signal.signal(SIGNAL, before)

    def close(self) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        thread = threading.main_thread()
        main = thread.ident or 0
        switches, since, used = -1, 0.0, 0.0
        while not self._end.wait(LOOK):
            with self._lock:
                if not self._running or self._world.current is None:
                    switches = -1
                elif self._world.switches != switches or _runnable(thread.native_id):
                    switches, since, used = self._world.switches, time.monotonic(), time.process_time()
                elif (waited := time.monotonic() - since) > self._patience and time.process_time() - used < waited / 10:
                    switches = -1
                    signal.pthread_kill(main, SIGNAL)

    def _interrupt(self, _: int, frame: FrameType | None) -> None:
        if (task := self._world.current) is None:
            return
        text = (
            f"process {task.process.name!r} of the stage has waited for {self._patience:g} s of real time {_where(frame)}: on "
            "a stage only virtual time passes. Wait by time.sleep, threading, queue or asyncio, made and called within the "
            "process; nothing else can wake it: not a lock that was made before the stage, and no socket, subprocess or "
            "file. Give the code a double for what it waits for"
        )
        self._world.fail(RuntimeError(text))
        raise Blocked(text)


def _runnable(thread: int | None) -> bool:
    """Whether it would compute if it had a processor. [where others keep all processors busy, a thread that computes may get
    next to no time, as one that waits] False where the system doesn't say so; then the time it has had must do."""
    try:
        with open(f"/proc/self/task/{thread}/stat", "rb", buffering=0) as stat:
            return stat.read(512).rpartition(b")")[2].split()[0] == b"R"
    except (OSError, IndexError):
        return False


def _where(place: Any) -> str:
    """The line of the user's code that waits."""
    while place.f_back is not None and place.f_code.co_filename.startswith(sysconfig.get_path("stdlib")):
        place = place.f_back
    file, line = place.f_code.co_filename, place.f_lineno
    return f"at {file}:{line} ({linecache.getline(file, line).strip()})"
