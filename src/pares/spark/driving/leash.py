"""The driver's end of its watchdog: starts it, and tells it by when the query has to have stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pares.runtime.clock import stopwatch
from pares.runtime.term import Term

_PROGRAM: Final = Path(__file__).with_name("watchdog.py")
NOTHING: Final = 0
LOOK: Final = 0.1
"""Seconds between two words to the watchdog."""


class Leash:
    """One watchdog. `grace`: seconds that a driver has after the end of its term; None: no watchdog, and all of this does
    nothing. `error`: why the watchdog hears nothing any more, if that is so."""

    def __init__(self, grace: float | None) -> None:
        self._grace: Final = None if grace is None else int(grace * 1e9)
        self._deadline = NOTHING
        self._process: subprocess.Popen[bytes] | None = None
        self.error: OSError | None = None

    @contextmanager
    def on(self, term: Term) -> Generator[None, None, None]:
        """While the body runs, the watchdog hears how long the term lasts; if the body still runs `grace` seconds after the
        term's end, this process is killed.

        It hears it from a thread of its own. [from the one that runs the query: a query that takes minutes to start, or to
        stop, in a term that lasts, would look like one that hangs] When a library holds the interpreter, that thread stands
        still as all others do, and the last deadline that it has told of passes.
        """
        if self._grace is None:
            yield
            return
        grace, over = self._grace, threading.Event()
        self._say((term.deadline_ns or stopwatch()) + grace)  # 0: the term is over
        thread = threading.Thread(target=self._follow, args=(term, grace, over), name="leash", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            if self.error is None:
                self._say(NOTHING)

    def _follow(self, term: Term, grace: int, over: threading.Event) -> None:
        try:
            while not over.is_set():
                if term.wait_lost(LOOK):
                    self._say(min(self._deadline, stopwatch() + grace))
                    over.wait()
                elif until := term.deadline_ns:
                    self._say(until + grace)
        except OSError as error:
            self.error = error

    def _say(self, deadline: int) -> None:
        self._deadline = deadline
        for _ in range(2):
            if self._process is None:
                self._process = self._start()
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(b"%d\n" % deadline)
                return
            except BrokenPipeError:
                self._end()  # somebody has killed it: a driver goes on with a new one, or not at all
        raise OSError("the watchdog of this driver ends as soon as it is started")

    def _start(self) -> subprocess.Popen[bytes]:
        # A session of its own: so it outlives what a terminal does to the driver's group.
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
        self._end()
