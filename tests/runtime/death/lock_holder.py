"""A process that holds a death lock, whose end a test decides."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from pares.core.wire.records import Lock

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
