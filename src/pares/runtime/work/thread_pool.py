"""User code on threads that exist only while there is something to run."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from pares.runtime.host import Host

log: Final = logging.getLogger("pares.barrier")


class Lane:
    """Runs jobs on at most `most` threads: those of one key one after the other, in order."""

    def __init__(self, name: str, most: int, host: Host) -> None:
        self._name = name
        self._host = host
        self._most = most
        self._lock = host.lock()
        self._ready: deque[object] = deque()
        self._jobs: dict[object, deque[Callable[[], object]]] = {}
        self._threads = 0

    def add(self, key: object, job: Callable[[], object]) -> None:
        """Runs `job` as soon as what was added before under `key` is through. What it raises is logged."""
        with self._lock:
            queue = self._jobs.get(key)
            if queue is not None:
                queue.append(job)
                return
            self._jobs[key] = deque([job])
            self._ready.append(key)
            if self._threads >= self._most:
                return
            self._threads += 1
        try:
            self._host.spawn(self._run, self._name)
        except RuntimeError:
            # No new threads while the interpreter shuts down: then the caller's own has to do.
            self._run()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._ready:
                    self._threads -= 1
                    return
                key = self._ready.popleft()
                job = self._jobs[key].popleft()
            try:
                job()
            except BaseException as error:
                # SystemExit too: it would end this thread and, with it, every later call for this seat.
                log.error("%s raised %r", self._name, error, exc_info=error)
            with self._lock:
                if self._jobs[key]:
                    self._ready.append(key)
                else:
                    del self._jobs[key]
