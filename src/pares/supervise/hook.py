"""What `pares run --on-lost` runs: a command of its own after each term, which nothing waits for but the next term's command.

It begins when nothing of the term's command is left any more, so it can't hold the kill back; and beside the handover, so it
can't hold that back either: others may lead already while it runs. It gets `SECONDS`, TERM a second before they are over, and
KILL then, by a watchdog as the command has one (watchdog.py), so that it ends also with its wrapper.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pares.core.errors import ConfigError
from pares.supervise.child import Outcome, Supervisor
from pares.supervise.watchdog import now_ns

SECONDS: Final = 10.0
GRACE: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Allowance:
    """The time that it may take, in the shape of a term."""

    role: str
    seat: int
    token: int
    deadline_ns: int


class Hook:
    """Runs one command after each term. `told` is called, on another thread, with what is to be said of one that did not end
    with 0. `begin`, `wait` and `close` belong to one thread; `stop` may come from a signal handler."""

    def __init__(self, command: Sequence[str], told: Callable[[str], object]) -> None:
        self.command: Final = tuple(command)
        self._told = told
        self._thread: threading.Thread | None = None
        self._running: tuple[Supervisor, int] | None = None

    def begin(self, role: str, seat: int, token: int, environment: Mapping[str, str]) -> None:
        """Starts it, and returns. The last one must be over (`wait`)."""
        supervisor = Supervisor(
            self.command, session=SECONDS, grace=GRACE, environment={**environment, "PARES_ROLE": role}
        )
        self._running = supervisor, token
        allowed = _Allowance(role, seat, token, now_ns() + int(SECONDS * 1e9))
        self._thread = threading.Thread(target=self._run, args=(supervisor, allowed), name="on-lost", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until the one that runs is over: as long as it may take, at the most."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def stop(self) -> None:
        """Kills it, if it runs."""
        if self._running is not None:
            supervisor, token = self._running
            supervisor.stop(token, at_once=True)

    def _run(self, supervisor: Supervisor, allowed: _Allowance) -> None:
        try:
            outcome = supervisor.run(allowed)
            said = self._words(outcome)
        except (ConfigError, OSError) as error:
            said = f"--on-lost: {error}"
        finally:
            supervisor.close()
            self._running = None
        if said:
            self._told(said)

    def _words(self, outcome: Outcome) -> str:
        if outcome.why == "lost":
            return f"--on-lost: {self.command[0]} took longer than {SECONDS:g} s, and was ended"
        if outcome.why == "watchdog":
            return f"--on-lost: the watchdog of {self.command[0]} was killed, so it was killed too"
        return f"--on-lost: {self.command[0]} ended with {outcome.code}" if outcome.code else ""
