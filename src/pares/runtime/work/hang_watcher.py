"""Watches for work that does not come back: one thread for all of a member's, and none while nothing is watched.

A term is of no use to anybody while its work hangs, and its holder's beats go on, for they have a thread of their own. So
work that takes longer than its user allows ends the term. It may go on hanging: then its member does not keep a later term of
that role either, for the work that belongs to it would not run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from pares.core.errors import ParesError
from pares.runtime.host import Host

log: Final = logging.getLogger("pares.work")

LINGER: Final = 5.0
"""Seconds that the thread stays when nothing is watched any more: the next call may come soon."""


class Run:
    """A piece of work under way."""

    __slots__ = ("after", "due", "give_up", "late", "role")

    def __init__(self, role: str, after: float, give_up: Callable[[], None], now: int) -> None:
        self.role = role
        self.after = after
        self.give_up = give_up
        self.due = now + int(after * 1e9)
        self.late = False


class Watch:
    """One member's."""

    def __init__(self, name: str, host: Host) -> None:
        self._name = name
        self._host = host
        self._runs: dict[Run, None] = {}
        self._changed = host.condition()
        self._next = 0
        """When the thread looks again; 0 while there is none."""
        self._closed = False

    def stuck(self) -> tuple[str, ...]:
        """The roles whose work is late. Takes no lock: it may be asked in a forked child."""
        return tuple(sorted({run.role for run in list(self._runs) if run.late}))

    @contextmanager
    def over(self, role: str, after: float, give_up: Callable[[], None]) -> Generator[None, None, None]:
        """Calls `give_up` when the body takes longer than `after` seconds, and again each time that long."""
        run = Run(role, after, give_up, self._host.now())
        with self._changed:
            if not self._next:
                self._host.spawn(self._run, f"{self._name}: stuck work")
                self._next = run.due
            self._runs[run] = None
            if run.due < self._next:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                del self._runs[run]
                if self._closed:
                    self._changed.notify()
            if run.late:
                log.warning("work for %r that was stuck has come to its end", role)

    def close(self) -> None:
        """The member is: the thread stays for what runs still, and no longer."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                now = self._host.now()
                late = [run for run in self._runs if run.due <= now]
                for run in late:
                    run.late, run.due = True, now + int(run.after * 1e9)
                if not late:
                    idle = not self._runs
                    if idle and self._closed:
                        self._next = 0
                        return
                    self._next = now + int(LINGER * 1e9) if idle else min(run.due for run in self._runs)
                    self._changed.wait((self._next - now) / 1e9)
                    if idle and not self._runs and self._host.now() >= self._next:
                        self._next = 0
                        return
            for run in late:
                log.error("work for %r is stuck for more than %g s: stepping down", run.role, run.after)
                try:
                    run.give_up()
                except ParesError as error:
                    log.info("%s", error)
