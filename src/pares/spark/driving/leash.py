"""The driver's end of its watchdog: starts it, and tells it by when the query has to have stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pares.runtime.clock import stopwatch

_PROGRAM: Final = Path(__file__).with_name("watchdog.py")
NOTHING: Final = 0


class Leash:
    """One watchdog. `grace`: seconds that a driver has after the end of its term; None: no watchdog, and all of this does
    nothing."""

    def __init__(self, grace: float | None) -> None:
        self._grace: Final = None if grace is None else int(grace * 1e9)
        self._now = stopwatch
        self._lock = threading.Lock()
        self._deadline = NOTHING
        self._process: subprocess.Popen[bytes] | None = None

    def lasts(self, until: int) -> None:
        """The term lasts up to `until`, if nothing prolongs it."""
        if self._grace is not None:
            self._say(until + self._grace)

    def over(self) -> None:
        """The term is over: from now on, if not before, the grace runs."""
        if self._grace is not None and self._deadline:
            self._say(min(self._deadline, self._now() + self._grace))

    def stopped(self) -> None:
        """There is nothing to watch any more."""
        if self._deadline:
            self._say(NOTHING)

    def _say(self, deadline: int) -> None:
        with self._lock:
            self._deadline = deadline
            for _ in range(2):
                if self._process is None:
                    self._process = self._start()
                try:
                    assert self._process.stdin is not None
                    self._process.stdin.write(b"%d\n" % deadline)
                    self._process.stdin.flush()
                    return
                except BrokenPipeError:
                    self._end()  # somebody has killed it: a driver goes on with a new one, or not at all
            raise OSError("the watchdog of this driver ends as soon as it is started")

    def _start(self) -> subprocess.Popen[bytes]:
        # Unlike a child of a session's leader, it outlives what a terminal does to its group.
        command = [sys.executable, "-I", "-S", str(_PROGRAM), str(os.getpid())]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0, start_new_session=True
        )

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._end()
