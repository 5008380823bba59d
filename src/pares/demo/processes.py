"""The demo's members as processes, and what is done to them.

Nothing outlives the demo: what is started here is ended here, frozen ones too, and a process whose conductor was
itself killed is ended by the kernel (see `worker`). Signals go to process ids that this process has started and not yet
waited for, so none can hit a stranger that got a recycled id.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pares.demo.in_flight import file_of, full
from pares.demo.quotes import TICK_MS, now_ms
from pares.demo.schedule import FREEZE_SECONDS, member_name

CLOSE_SECONDS: Final = 8.0
FREEZE_TRIES: Final = 40
WELL_TIMED_TRIES: Final = 20
"""So many of them for a moment in which it has quotes in its hands. A process that leads nothing any more never has."""
LOOKING_MS: Final = 12
"""So long after the beginning of a tick every leader has looked at its term and waits for the exchange."""


@dataclass(slots=True)
class Actor:
    """One member's process."""

    name: str
    process: subprocess.Popen[bytes]
    errors: Path
    state: str = "live"
    """live, frozen, cut off, drains, killed or gone."""
    until: float = 0.0
    since: float = field(default_factory=time.monotonic)

    @property
    def there(self) -> bool:
        return self.state not in ("killed", "gone")


@dataclass(frozen=True, slots=True)
class Settings:
    """What every member of the demo is started with."""

    ledger: str
    group: str
    quotes: Path
    roles: list[str]
    protocol: str
    overlap: bool
    settle: float
    seed: int
    folder: Path


class Cast:
    """Starts members, harms them, and ends them all."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.epoch_ms = now_ms()
        self.actors: dict[str, Actor] = {}
        self._started = 0

    def start(self) -> Actor:
        """A new member, under a name that nobody had."""
        name = member_name(self._started)
        self._started += 1
        one = self.settings
        errors = one.folder / f"{name}.log"
        command = [sys.executable, "-m", "pares.demo.worker", "--ledger", one.ledger, "--group", one.group]
        command += ["--name", name, "--roles", ",".join(one.roles), "--quotes", str(one.quotes)]
        command += [
            "--epoch-ms",
            str(self.epoch_ms),
            "--protocol",
            one.protocol,
            *(["--overlap"] if one.overlap else []),
        ]
        command += [
            "--rank",
            str(self._started - 1),
            "--settle",
            str(one.settle),
            "--seed",
            str(one.seed),
            "--parent",
            str(os.getpid()),
        ]
        with errors.open("wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=output)
        actor = self.actors[name] = Actor(name, process, errors)
        return actor

    def kill(self, actor: Actor) -> None:
        actor.process.kill()
        actor.state = "killed"
        actor.process.wait()

    def freeze(self, actor: Actor, harmless: Callable[[], bool]) -> None:
        """SIGSTOP between a look at the term and the write that follows it.

        A process that stands still *inside* a SQLite transaction keeps that file's write lock, and everybody waits for
        it: a matter of SQLite, which would hide what this is to show. `harmless` says that it did not happen; if it
        did, or if on this machine the moment was not the one that it should have been, the next tick is tried.
        """
        hands = file_of(self.settings.folder, actor.name)
        for tried in range(FREEZE_TRIES):
            phase = (now_ms() - self.epoch_ms) % TICK_MS
            time.sleep(((LOOKING_MS - phase - 1) % TICK_MS + 1) / 1000)  # a whole tick, if it has just been tried
            _stop(actor.process)
            if (full(hands) or tried >= WELL_TIMED_TRIES) and harmless():
                actor.state = "frozen"
                return
            actor.process.send_signal(signal.SIGCONT)
        raise RuntimeError(f"{actor.name} was inside a transaction whenever it was frozen ({FREEZE_TRIES} times)")

    def thaw(self, actor: Actor) -> None:
        actor.process.send_signal(signal.SIGCONT)
        actor.state = "live"

    def cut(self, actor: Actor) -> None:
        self._tell(actor, f"cut {FREEZE_SECONDS}")
        actor.state, actor.until = "cut off", time.monotonic() + FREEZE_SECONDS

    def drain(self, actor: Actor) -> None:
        """Asks a member to hand everything over; for groups that no administrator steers."""
        self._tell(actor, "drain")

    def close(self, actor: Actor) -> None:
        """Asks a member to hand everything over and leave."""
        self._tell(actor, "close")

    def look(self) -> list[Actor]:
        """Notes who is back and who is gone; returns the members that ended without having been asked to."""
        lost: list[Actor] = []
        for actor in self.actors.values():
            if actor.state == "cut off" and time.monotonic() >= actor.until:
                actor.state = "live"
            if actor.there and actor.process.poll() is not None:
                if actor.state != "drains":
                    lost.append(actor)
                actor.state = "gone"
        return lost

    def end(self) -> None:
        """Ends every process: politely where that works, in any case within `CLOSE_SECONDS`."""
        for actor in self.actors.values():
            if actor.process.poll() is None:
                actor.process.send_signal(signal.SIGCONT)
                self.close(actor)
        deadline = time.monotonic() + CLOSE_SECONDS
        for actor in self.actors.values():
            try:
                actor.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._kill(actor)
            actor.state = "killed" if actor.state == "killed" else "gone"

    def end_at_once(self) -> None:
        """For Ctrl-C and errors."""
        for actor in self.actors.values():
            self._kill(actor)

    def _kill(self, actor: Actor) -> None:
        if actor.process.poll() is None:
            actor.process.kill()
            actor.process.wait()
        if actor.process.stdin is not None:
            try:
                actor.process.stdin.close()
            except OSError:
                pass

    def _tell(self, actor: Actor, line: str) -> None:
        assert actor.process.stdin is not None
        try:
            actor.process.stdin.write(f"{line}\n".encode())
            actor.process.stdin.flush()
        except OSError:
            pass  # It is gone already; `look` notes that.


def _stop(process: subprocess.Popen[bytes]) -> None:
    """SIGSTOP; returns when it stands still, where the system can say so."""
    process.send_signal(signal.SIGSTOP)
    if hasattr(os, "waitid"):
        with contextlib.suppress(ChildProcessError):  # it has ended, and was waited for
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
