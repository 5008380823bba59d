"""A command that runs only while this process leads: what `pares run` is made of.

Nobody else leads before the lease has run out, so the command must be gone by then, whatever becomes of the processes
around it. What ends it in time:

    the wrapper lives, the lease runs out       the watchdog (watchdog.py): TERM, then KILL before the end
    the wrapper is frozen                       the watchdog: it counts by itself, to the last deadline that it was given
    the wrapper is killed                       the watchdog: KILL, at once
    the watchdog is frozen                      the wrapper: KILL of the process group, before the end
    the watchdog is killed                      the kernel: KILL of the command; the wrapper: KILL of its process group

What is not covered: watchdog and wrapper frozen, or killed, both of them; and what the command asks others to do. As
everywhere, it is the fence that covers the rest: the command has its token in `PARES_TOKEN`.

Renewals cost a store into shared memory, and are passed on every tick; a deadline that is passed on late is a lower
one, so that errs on the safe side.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from pares.core.errors import CapabilityError, ConfigError
from pares.runtime.config.protocols import ProtocolName
from pares.supervise import watchdog as child_watchdog
from pares.supervise.grace import Limits, check_grace, limits, rhythm
from pares.supervise.watchdog import Deadline, adopt_orphans, now_ns, signal_group

CLOSE_SECONDS: Final = 10.0
FORWARDED: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)
"""The signals that a wrapper passes on to its command."""


class Leadership(Protocol):
    """A term, as far as a supervisor needs it."""

    @property
    def role(self) -> str: ...

    @property
    def seat(self) -> int: ...

    @property
    def token(self) -> int: ...

    @property
    def deadline_ns(self) -> int:
        """Up to when, by `watchdog.now_ns`, nobody else may lead; 0 = others may already. Asked for often."""
        ...


class Outcome(NamedTuple):
    """How a command ended."""

    code: int
    """Its exit code as a shell reports it: 128 + n when signal n ended it."""
    why: str
    """"ended": by itself; "lost": the lease ran out; "stopped": by `stop`; "watchdog": the watchdog died."""


_NOT_RUN: Final = {
    errno.ENOENT: "it is not there, or what its first line names (#!) is not",
    errno.ENOEXEC: "a script begins with a line like #!/bin/sh; a command is a program and its arguments, never a line for "
    "a shell",
}
"""What to do about a command that can't be started."""


class _Inbox:
    """Requests from other threads and from signal handlers, for the thread that runs the command."""

    def __init__(self) -> None:
        self._requests: deque[tuple[int, str]] = deque()
        self._lock = threading.RLock()
        """A number that `close` has given back may be somebody else's file a moment later."""
        self._woken, self._wake = os.pipe()
        for descriptor in (self._woken, self._wake):
            os.set_blocking(descriptor, False)

    def put(self, token: int, line: str) -> None:
        self._requests.append((token, line))
        with self._lock, contextlib.suppress(OSError):  # full: then the loop is awake already; or closed
            os.write(self._wake, b"!")

    def take(self, token: int) -> list[str]:
        """What is there for the command of that term. What was meant for an earlier one is over."""
        with contextlib.suppress(OSError):
            os.read(self._woken, 4096)
        lines: list[str] = []
        while self._requests:
            wanted, line = self._requests.popleft()
            if wanted == token:
                lines.append(line)
        return lines

    def fileno(self) -> int:
        return self._woken

    def close(self) -> None:
        with self._lock:
            wake, self._wake = self._wake, -1
            os.close(wake)
        os.close(self._woken)


class Supervisor:
    """Runs a command, a term after the other, each time only as long as that term lasts.

    Promised: when `run` has returned, nothing of the command is left that is its descendant (if the watchdog was
    killed: that is in its process group). It is sent SIGTERM `grace` seconds, and killed shortly, before the deadline
    of the term; also if this process is frozen, and at once when it is killed. The command is never run
    through a shell. Not promised: anything about processes that are not descendants, or about both this process and
    the watchdog standing still; see the top of this module.

    `command`: a program and its arguments. `session`, `drift`, `protocol` and NELI's `clock_error` are those of the member, and
    decide what `grace` fits.
    `descriptors` are inherited by the command and by its watchdog (the lock of R7). `environment`: added to this
    process'. `run` belongs to one thread; `stop` and `forward` may come from any, and from signal handlers.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        session: float,
        grace: float,
        drift: float = 0.1,
        protocol: ProtocolName = "claims",
        clock_error: float = 0.0,
        descriptors: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if sys.platform != "linux":
            raise CapabilityError("only Linux can end a command in time for certain; use pares.Member in Python here")
        if not command:
            raise ConfigError("there is no command to run: give one after --")
        check_grace(grace, session, drift, protocol, clock_error)
        self.command: Final = tuple(command)
        self._limits = limits(rhythm(protocol, session, drift, clock_error).span, grace)
        self._descriptors = _identified(descriptors)
        self._environment = dict(environment or {})
        self._inbox = _Inbox()
        self._gone = threading.Condition()
        self._running: int | None = None
        self._over = -1
        """The highest token whose term is over: no command of it is started any more."""
        self._spare: _Watchdog | None = None

    def prepare(self, descriptors: Sequence[int] | None = None) -> None:
        """Starts the watchdog of the next `run` now, so that the command starts as soon as this process leads. With
        `descriptors`, from now on it and its command inherit those."""
        if descriptors is not None and (wanted := _identified(descriptors)) != self._descriptors:
            self._descriptors = wanted
            self._drop_spare()
        if self._spare is not None and self._spare.process.poll() is not None:
            self._drop_spare()
        if self._spare is None:
            self._spare = _Watchdog(self.command, self._limits, self._descriptors.keys(), self._environment)

    def run(self, term: Leadership, started: Callable[[], object] = lambda: None) -> Outcome:
        """Runs the command for this term and returns when nothing of it is left. `started` is called once it runs: it is not
        started at all when what is left of the lease would not even do for its grace. Raises `ConfigError` if it can't be
        run."""
        with self._gone:
            if term.token <= self._over:
                return Outcome(128 + signal.SIGTERM, "stopped")
            self._running = term.token
        self.prepare()
        watchdog, self._spare = self._spare, None
        assert watchdog is not None
        adopt_orphans()  # so that the command's processes are ours to bury if its watchdog is killed
        try:
            return _Run(self.command[0], watchdog, term, self._limits, self._inbox, started).outcome()
        finally:
            watchdog.close()
            adopt_orphans(False)
            with self._gone:
                self._running = None
                self._gone.notify_all()

    def stop(self, token: int, *, number: int = signal.SIGTERM, at_once: bool = False) -> None:
        """Ends the command of the term with this token, and no other: sends it the signal, and kills it after `grace`
        seconds (or `at_once`), and before the deadline. If it has not started, it never will. Returns immediately."""
        with self._gone:
            self._over = max(self._over, token)
        self._inbox.put(token, f"stop {int(number)} {0 if at_once else self._limits.grace}")

    def wait_gone(self, token: int, timeout: float | None = None) -> bool:
        """Waits until nothing of the command of this term is left; False if that took longer than `timeout` seconds."""
        with self._gone:
            return self._gone.wait_for(lambda: self._running != token, timeout)

    def forward(self, number: int) -> None:
        """Sends a signal to the command's process group, if one runs."""
        token = self._running
        if token is not None:
            self._inbox.put(token, f"signal {int(number)}")

    def close(self) -> None:
        """Ends the watchdog that waits for a next run. For use when nothing runs, and once."""
        self._drop_spare()
        self._inbox.close()

    def _drop_spare(self) -> None:
        if self._spare is not None:
            self._spare.close()
            self._spare = None


def _identified(descriptors: Sequence[int]) -> dict[int, tuple[int, int]]:
    """With the file that each is: a number may have been used again."""
    return {number: (found.st_dev, found.st_ino) for number in descriptors for found in [os.fstat(number)]}


class _Watchdog:
    """The wrapper's end of a watchdog process."""

    def __init__(
        self, command: Sequence[str], limits: Limits, descriptors: Collection[int], environment: Mapping[str, str]
    ) -> None:
        memory = os.memfd_create("pares-deadline")
        self.socket, theirs = socket.socketpair()
        try:
            os.ftruncate(memory, child_watchdog.SIZE)
            self.deadline = Deadline(memory)
            numbers = (theirs.fileno(), memory, limits.grace, limits.margin, os.getpid())
            script = str(Path(child_watchdog.__file__))
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", script, *map(str, numbers), "--", *command],
                env={**os.environ, **environment},
                pass_fds=[theirs.fileno(), memory, *descriptors],
                start_new_session=True,
            )
        except BaseException:
            self.socket.close()
            raise
        finally:
            theirs.close()
            os.close(memory)
        self._received = b""

    def send(self, line: str) -> None:
        with contextlib.suppress(OSError):  # gone: its end of the socket says so
            self.socket.sendall(line.encode() + b"\n")

    def receive(self) -> list[list[str]] | None:
        """What it has said since; None when it is gone."""
        try:
            received = self.socket.recv(4096)
        except ConnectionError:
            received = b""
        if not received:
            return None
        *lines, self._received = (self._received + received).split(b"\n")
        return [line.decode().split() for line in lines]

    def close(self) -> None:
        """Its socket closed, it kills what is left of its command and ends."""
        self.socket.close()
        try:
            self.process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:  # frozen
            self.process.kill()
            self.process.wait()
        self.deadline.close()


class _Run:
    """One command, for one term."""

    def __init__(
        self,
        name: str,
        watchdog: _Watchdog,
        term: Leadership,
        limits: Limits,
        inbox: _Inbox,
        started: Callable[[], object],
    ) -> None:
        self.name, self.watchdog, self.term, self.limits, self.inbox = name, watchdog, term, limits, inbox
        self.started = started
        self.asked = False
        """The watchdog was told to start the command."""
        self.group = 0
        self.killing = False
        """The watchdog has said that it kills: it is awake, and will see it through."""
        self.kill_at = 0
        """When a stop that was asked for turns into a KILL; 0 = none was."""
        self.late_at = 0

    def outcome(self) -> Outcome:
        """Starts the command, and turns until it has ended."""
        poll, watched = select.poll(), self.watchdog.socket.fileno()
        poll.register(watched, select.POLLIN)
        poll.register(self.inbox, select.POLLIN)
        while True:
            deadline, now = self.pass_deadline(), now_ns()
            if not self.asked:
                if self.kill_at:
                    return Outcome(128 + signal.SIGTERM, "stopped")
                if deadline <= now:
                    return Outcome(128 + signal.SIGTERM, "lost")
                if deadline - self.limits.grace - self.limits.margin > now:
                    self.asked = True
                    self.watchdog.send(f"start {self.term.token} {self.term.seat}")
            late = self.late_from(deadline)
            pause = min(self.limits.tick, late - now if late > now else self.limits.margin // 2)
            ready = [descriptor for descriptor, _ in poll.poll(pause / 1e6)]
            if self.inbox.fileno() in ready:
                self.pass_on()
            if watched in ready:
                said = self.watchdog.receive()
                if said is None:
                    return self.without_watchdog()
                for words in said:
                    if (outcome := self.hear(words)) is not None:
                        return outcome
            elif self.group and not self.killing and now_ns() >= self.late_from(self.pass_deadline()):
                self.kill(poll)

    def pass_deadline(self) -> int:
        """The deadline now; whatever is decided by it here, the watchdog has been told."""
        deadline = self.term.deadline_ns
        self.watchdog.deadline.store(deadline)
        return deadline

    def pass_on(self) -> None:
        for line in self.inbox.take(self.term.token):
            self.watchdog.send(line)
            if line.startswith("stop"):
                kill_at = now_ns() + int(line.split()[2])
                self.kill_at = min(self.kill_at or kill_at, kill_at)

    def hear(self, words: list[str]) -> Outcome | None:
        match words:
            case ["started", group]:
                self.group = int(group)
                self.started()
            case ["late"]:
                self.asked = False
            case ["killing"]:
                self.killing = True
            case ["error", number]:
                advice = _NOT_RUN.get(int(number), "check its permissions, and those of the folders that it is in")
                raise ConfigError(f"{self.name!r} can't be run: {os.strerror(int(number))}; {advice}")
            case ["exit", status, why]:
                code = os.waitstatus_to_exitcode(int(status))
                return Outcome(code if code >= 0 else 128 - code, "stopped" if self.kill_at else why)
            case _:
                pass
        return None

    def late_from(self, deadline: int) -> int:
        """From when on the watchdog should have killed, and must be taken for frozen if it says nothing."""
        late = deadline - self.limits.margin // 2
        return min(late, self.kill_at + self.limits.margin) if self.kill_at else late

    def kill(self, poll: select.poll) -> None:
        """Does the watchdog's work. While it says nothing the command is its child, so the group's number is nobody
        else's; it is asked once more, since this process may itself just have been frozen for a long time."""
        if poll.poll(0):
            return
        signal_group(self.group, signal.SIGKILL)
        if not self.late_at:
            self.late_at = now_ns()
            self.watchdog.send("look")
        elif now_ns() >= self.late_at + self.limits.margin:
            self.watchdog.process.kill()

    def without_watchdog(self) -> Outcome:
        """The watchdog is dead, so the kernel has killed the command. Its children are ours now, to kill and bury: as soon as
        it is gone, which is a moment after its socket."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.watchdog.process.wait(CLOSE_SECONDS)
        if self.group:
            signal_group(self.group, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while True:
                    os.waitid(os.P_PGID, self.group, os.WEXITED)
        return Outcome(1, "watchdog")
