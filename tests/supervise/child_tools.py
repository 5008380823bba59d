"""A wrapper with a command under its supervisor, in processes of their own, and a book of when each of them ran.

The command writes what time it is, as fast as it can, into a file; so do its child, its child that has a session of its own,
and the wrapper, which writes up to when it may believe. What is checked is that no time in the file is later than that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pares.core.wire.records import Lock

COMMAND, CHILD, ESCAPED, WRAPPER = range(4)
SESSION, GRACE = 1.0, 0.2

BEATER = """
import os, signal, sys, time
book, ignore = os.open(sys.argv[1], os.O_RDWR), sys.argv[2] == "ignore"
def write(slot, field, number): os.pwrite(book, b"%31d\\n" % number, slot * 128 + field * 32)
def beat(slot):
    write(slot, 0, os.getpid())
    signal.alarm(120)  # should a test fail, nothing of it stays for ever
    while True:
        write(slot, 1, time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        time.sleep(0.0005)
def terminated(*_):
    write(slot, 2, time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    if not ignore: sys.exit(7)
slot = 0
signal.signal(signal.SIGTERM, terminated)
if os.fork() == 0: slot = 1; beat(1)
if os.fork() == 0: slot = 2; os.setsid(); beat(2)
beat(0)
"""

HARNESS = """
import json, os, signal, sys, threading
from pathlib import Path
import msgspec
from pares.supervise.child import FORWARDED, Supervisor
from pares.supervise.watchdog import now_ns
from pares.runtime.death.lock import DeathLock

book_path, folder, session, grace, *command = sys.argv[1:]
book = os.open(book_path, os.O_RDWR)
def tell(**what): os.write(1, (json.dumps(what) + chr(10)).encode())

class Lease:
    '''Renewed every time it is asked for, until it is cut; its own clock is the one of the command.'''
    role, seat, token, mode, until = "r", 2, 41, "renew", 0
    @property
    def deadline_ns(self):
        if self.mode == "renew": self.until = now_ns() + int(float(session) * 0.75e9)
        if self.mode == "lose": self.until = 0
        os.pwrite(book, b"%31d\\n" % self.until, 3 * 128)
        return self.until

lease = Lease()
lock = DeathLock.take(Path(folder), "w~1")
supervisor = Supervisor(command, session=float(session), grace=float(grace), descriptors=[lock.descriptor],
                        environment={"PARES_ROLE": "r"})
for number in FORWARDED: signal.signal(number, lambda n, _: supervisor.forward(n))
supervisor.prepare()
tell(lock=msgspec.to_builtins(lock.statement), watchdog=supervisor._spare.process.pid)

def obey():
    for line in sys.stdin:
        match line.split():
            case ["stop"]: supervisor.stop(lease.token)
            case ["stop", "now"]: supervisor.stop(lease.token, at_once=True)
            case ["gone"]: tell(gone=supervisor.wait_gone(lease.token, 60))
            case [mode]: lease.mode = mode

threading.Thread(target=obey, daemon=True).start()
try:
    tell(outcome=supervisor.run(lease))
except Exception as error:
    tell(error=f"{type(error).__name__}: {error}")
supervisor.close()
signal.pause()
"""


def beater(book: Path, mode: str) -> list[str]:
    return [sys.executable, "-S", "-c", BEATER, str(book), mode]


class Wrapper:
    """A process that supervises a command, and what its command wrote."""

    def __init__(self, folder: Path, *command: str, mode: str = "obey") -> None:
        self.folder = folder
        self.book = folder / "book"
        self.book.write_bytes(b"%31d\n" % 0 * 16)
        arguments = [str(self.book), str(folder / "locks"), str(SESSION), str(GRACE)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", HARNESS, *arguments, *(command or beater(self.book, mode))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        first = self.read()
        self.lock = Lock(**first["lock"])
        self.watchdog: int = first["watchdog"]
        if not command:
            self.until(lambda: all(self.entry(slot, 1) for slot in (COMMAND, CHILD, ESCAPED)))

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the wrapper has ended"
        return json.loads(line)

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def entry(self, slot: int, field: int) -> int:
        """What a process wrote: its pid, the last time it ran, when it got TERM; of the wrapper, its deadline."""
        with open(self.book, "rb") as book:
            return int(os.pread(book.fileno(), 31, slot * 128 + field * 32) or 0)

    @property
    def deadline(self) -> int:
        return self.entry(WRAPPER, 0)

    def pids(self) -> list[int]:
        return [self.entry(slot, 0) for slot in (COMMAND, CHILD, ESCAPED)]

    def until(self, true: Callable[[], object]) -> None:
        end = time.monotonic() + 60
        while not true():
            assert time.monotonic() < end
            time.sleep(0.002)

    def until_all_dead(self) -> None:
        self.until(lambda: not any(alive(pid) for pid in (*self.pids(), self.watchdog)))

    def last_beat(self) -> int:
        return max(self.entry(slot, 1) for slot in (COMMAND, CHILD, ESCAPED))

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.until_all_dead()


def alive(pid: int) -> bool:
    """Whether it can still do something: not one that is dead and not buried yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", code)
