"""Server processes: their start, their identity, and signals that reach them and nobody else.

A process id alone means little: once the process is gone, the number may be somebody else's. So a process is known by its
id, the moment of its start and the boot it belongs to. Where the system has process descriptors, a signal goes through one
that was opened before the identity was checked.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

_GUARD: Final = Path(__file__).with_name("guard.py")
_LOOK: Final = 0.02


class Identity(msgspec.Struct, frozen=True):
    """One process, among all that ever had its number. `started` is in the system's own unit."""

    pid: int
    started: str
    boot: str

    def alive(self) -> bool:
        """Whether that very process is there and has not ended (one that ended but was not waited for has ended)."""
        return _look(self.pid) == (self.started, self.boot)

    def signal(self, number: int) -> bool:
        """Sends it to that very process; False if it is gone."""
        with contextlib.ExitStack() as stack:
            descriptor = None
            if sys.platform == "linux":
                try:
                    descriptor = os.pidfd_open(self.pid)
                except ProcessLookupError:
                    return False
                except OSError:
                    pass  # an old kernel
                else:
                    stack.callback(os.close, descriptor)
            if not self.alive():
                return False
            try:
                if descriptor is not None and sys.platform == "linux":
                    signal.pidfd_send_signal(descriptor, number)
                else:
                    os.kill(self.pid, number)
            except ProcessLookupError:
                return False
        return True

    def wait(self, timeout: float) -> bool:
        """Whether it has ended within `timeout` seconds."""
        end = time.monotonic() + timeout
        while self.alive():
            if time.monotonic() >= end:
                return False
            time.sleep(_LOOK)
        return True


class Started:
    """A process that this one has started, and buries."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self.identity = identify(popen.pid)

    def ended(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._popen.poll()

    def freeze(self) -> None:
        """Returns when it stands still, or is gone."""
        if self.identity.signal(signal.SIGSTOP):
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.identity.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def wait(self, timeout: float) -> bool:
        try:
            self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True


class Adopted:
    """A process that another program has started and left running."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity

    def ended(self) -> int | None:
        """-1 (nobody can tell any more how it ended) once it is gone; None while it runs."""
        return None if self.identity.alive() else -1

    def freeze(self) -> None:
        self.identity.signal(signal.SIGSTOP)

    def wait(self, timeout: float) -> bool:
        return self.identity.wait(timeout)


def identify(pid: int) -> Identity:
    """The identity of a process that is known to be there."""
    found = _look(pid) or ("", "")
    return Identity(pid, *found)


def start(
    command: Sequence[str], *, log: Path, folder: Path, survive: bool, user: tuple[int, int] | None = None
) -> Started:
    """Starts a server, in a session of its own, so that a Ctrl-C meant for this program does not reach it.

    Its output is added to `log`, its working folder is `folder`. Unless it is to `survive`, it is killed when this process
    ends, however that happens (on Linux). `user`: ids of the user that it runs as, and of its group.
    """
    argv = list(command) if survive else guarded(command, user)
    other = user if survive else None  # else the guard becomes that user

    def run() -> Started:
        with log.open("ab") as output:
            popen: subprocess.Popen[bytes] = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                start_new_session=True,
                user=other and other[0],
                group=other and other[1],
                extra_groups=other and [],
            )
            return Started(popen)

    return run() if survive else _keeper.call(run)


def guarded(command: Sequence[str], user: tuple[int, int] | None = None) -> list[str]:
    """A command that is killed (on Linux) when the thread that starts it ends."""
    who = ":".join(map(str, (os.getpid(), *(user or ()))))
    return [sys.executable, "-I", "-S", str(_GUARD), who, *command]


class _Keeper:
    """The thread that starts what must not outlive us: the kernel takes the death of the *thread* that started a process for
    its parent's, and a caller's thread may end at any time. This one does not."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._pid = 0

    def call(self, run: Callable[[], Started]) -> Started:
        with self._guard:
            if self._pid != os.getpid():  # also in a forked child, which has no such thread
                self._pid = os.getpid()
                self._calls = queue.SimpleQueue()
                threading.Thread(target=self._work, args=(self._calls,), name="pares-dev-keeper", daemon=True).start()
        answer: queue.SimpleQueue[Started | BaseException] = queue.SimpleQueue()

        def do() -> None:
            try:
                answer.put(run())
            except BaseException as error:
                answer.put(error)

        self._calls.put(do)
        result = answer.get()
        if isinstance(result, BaseException):
            raise result
        return result

    @staticmethod
    def _work(calls: queue.SimpleQueue[Callable[[], None]]) -> None:
        while True:
            calls.get()()


_keeper: Final = _Keeper()


def _look(pid: int) -> tuple[str, str] | None:
    """(moment of start, boot) of a process; None if there is none, or only what is left of one that has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else _look_by_ps(pid)
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    return None if fields[0] in "ZX" else (fields[19], boot)


def _look_by_ps(pid: int) -> tuple[str, str] | None:
    done = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    state, _, started = done.stdout.strip().partition(" ")
    return None if done.returncode != 0 or state.startswith("Z") else (started.strip(), "")


def parents() -> Iterator[tuple[int, int]]:
    """Every process, and its parent."""
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
        for line in listed.stdout.splitlines():
            child, parent = line.split()
            yield int(child), int(parent)
        return
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                yield int(place.name), int((place / "stat").read_text().rpartition(")")[2].split()[1])
