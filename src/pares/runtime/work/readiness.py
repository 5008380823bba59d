"""A health check of the user's that decides about leadership: while it says False, the member leads nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pares.runtime.host import Host

log: Final = logging.getLogger("pares.member")

SHORTEST: Final = 20_000_000
"""Nanoseconds between two questions, however short the session."""
PATIENCE: Final = 1_000_000_000
"""Nanoseconds for which an answer may be awaited, if the session is shorter than that."""


class Readiness:
    """Asks `ready()` twice a session, beside the loop: the check may take its time. An exception is a no; and so is no answer
    within a session (a second at least): a member that can't say that it is well is not."""

    def __init__(
        self,
        ready: Callable[[], bool],
        session: float,
        run: Callable[[Callable[[], object], str], None],
        tell: Callable[[bool], None],
        host: Host,
    ) -> None:
        self._now = host.now
        self._ready = ready
        self._every = max(int(session * 5e8), SHORTEST)
        self._patience = max(int(session * 1e9), PATIENCE)
        self._run = run
        """Runs the user's code on a thread of its own."""
        self._tell = tell
        self._next = 0
        self._asked = 0
        """When the question was put that is not answered yet; 0 if none is open."""
        self._was = False
        """What was told last."""
        self._lock = host.lock()
        """An answer may come in the moment in which it is no longer waited for: what is told last is what was said last."""

    def ask(self) -> None:
        """To be called again and again, by one thread."""
        now = self._now()
        asked = self._asked
        if asked:
            if now >= asked + self._patience and self._give_up():
                log.error("ready() has not returned for %.1f s: taken for False", (now - asked) / 1e9)
        elif now >= self._next:
            self._next, self._asked = now + self._every, now
            self._run(self._check, "ready")

    def _check(self) -> None:
        try:
            ready = bool(self._ready())
        except BaseException:  # SystemExit too: it is no way to end a thread of somebody else's
            log.exception("ready() raised: taken for False")
            ready = False
        with self._lock:
            self._asked = 0
            self._say(ready)

    def _give_up(self) -> bool:
        """The answer is not waited for any longer. Whether that changes anything."""
        with self._lock:
            return self._asked != 0 and self._say(False)

    def _say(self, ready: bool) -> bool:
        """By who has the lock. Whether it is another answer than the last."""
        if ready == self._was:
            return False
        self._was = ready
        self._tell(ready)
        return True
