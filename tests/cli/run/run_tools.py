"""`pares run` as processes on one ledger, with commands that write down when they ran."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

BEATER = """
import os, signal, sys, time
path = os.path.join(sys.argv[1], os.environ["PARES_TOKEN"])
new = path + ".new"
if "ignore" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
first = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
signal.alarm(120)  # should a test fail, nothing of it stays for ever
while True:
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    with open(new, "w") as file: file.write(f"{first} {now} {os.getpid()}")
    os.rename(new, path)
    time.sleep(0.0005)
"""
SESSION = 30.0
"""Seconds: so long that no lease runs out by itself, on however busy a machine."""
BRIEF = ("--session", "1")
"""For whose lease is to run out."""


class Runs:
    """Wrappers on one ledger, and what their commands wrote: a file for each token."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.book = folder / "book"
        self.book.mkdir()
        self.ledger = f"sqlite:///{folder / 'work.db'}"
        self.wrappers: list[subprocess.Popen[str]] = []

    def start(self, *command: str, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        own = ("--role", "r", "--ledger", self.ledger, "--session", str(SESSION), *options)
        wrapper = subprocess.Popen(
            [sys.executable, "-m", "pares", "run", *own, "--", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        self.wrappers.append(wrapper)
        return wrapper

    def beat(self, *words: str, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        return self.start(sys.executable, "-S", "-c", BEATER, str(self.book), *words, options=options)

    def beats(self) -> list[tuple[int, int, int]]:
        """(first, last, pid) of the commands, in the order of their tokens."""
        files = sorted((path for path in self.book.iterdir() if path.suffix != ".new"), key=lambda path: int(path.name))
        return [(first, last, pid) for first, last, pid in (map(int, path.read_text().split()) for path in files)]

    def until_commands(self, count: int) -> None:
        until(lambda: len(self.beats()) >= count)

    def until_members(self, count: int) -> None:
        from pares import Observer

        with Observer(self.ledger, group="default") as observer:
            until(lambda: len(observer.world.members) >= count)

    def check(self) -> None:
        """No two of them ran at the same time."""
        beats = self.beats()
        for (_, last, _), (first, _, _) in itertools.pairwise(beats):
            assert last < first

    def line(self, wrapper: subprocess.Popen[str]) -> str:
        """The next one that the command prints. If it ends instead, what the wrapper said of that is in the failure."""
        assert wrapper.stdout is not None
        found = wrapper.stdout.readline()
        if not found:
            raise AssertionError(f"the command has ended: {wrapper.communicate(timeout=60)[1]}")
        return found

    def close(self) -> None:
        for wrapper in self.wrappers:
            wrapper.kill()
            wrapper.communicate()
        until(lambda: not any(alive(pid) for _, _, pid in self.beats()))


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
