"""What tests of proofs of death stand on: a process that holds a lock, and waits for its end."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from pares.core.wire.records import Lock
from pares.runtime.death.lock import prove
from pares.runtime.death.watcher import DeathWatch

HOLDER = """
import os, sys, time
from pathlib import Path
import msgspec
from pares.runtime.death.lock import DeathLock
lock = DeathLock.take(Path(sys.argv[1]), sys.argv[2])
print(msgspec.json.encode(lock.statement).decode(), flush=True)
exec(sys.argv[3])
time.sleep(600)
"""


class Holder:
    """A process that holds the lock of `member`, and then does what `then` says."""

    def __init__(self, folder: Path, member: str = "a~1", then: str = "pass") -> None:
        command = [sys.executable, "-c", HOLDER, str(folder), member, then]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.lines = self.process.stdout
        self.statement = msgspec.json.decode(self.lines.readline(), type=Lock)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        self.lines.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def next_dead(watch: DeathWatch, within: float) -> list[str]:
    """Turns as a member's loop does, until somebody is proven dead or `within` seconds have passed."""
    end = time.monotonic() + within
    dead = watch.check()
    while not dead and (left := end - time.monotonic()) > 0:
        pause = watch.poll_interval()
        select.select(watch.filenos(), [], [], left if pause is None else min(pause, left))
        dead = watch.check()
    return dead


def until_proven(folder: Path, member: str, statement: Lock) -> float:
    began = time.monotonic()
    while not prove(folder, member, statement):
        assert time.monotonic() - began < 30
        time.sleep(0.001)
    return time.monotonic() - began
