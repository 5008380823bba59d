"""Plays the tests in two ranks at once, for `make test`.

    python tests/play.py

In front, two at a time: all that waits for leases and sessions, and starts processes that must not be late. Nine tenths of its
time is waiting. Behind, on what the front leaves of the processors: what no clock decides (mark `timeless`), and pyright.

The front is not disturbed by that: what is behind runs under SCHED_IDLE, so a processor is taken from it at once by whoever
else wants it. (Within a session: with autogroups, Linux shares processors out among sessions first, whatever policy rules in
each. So both ranks stay in this one.) Where a system has no such policy (all but Linux), or does not keep to it, one rank plays
after the other.

What is said behind is printed at the end, and behind that, where something has failed, once more what it was: of thousands of
lines the last ones are read. Exits with 0 if nothing has failed in either rank.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import IO, Final

Command = Sequence[str]

PYTEST: Final = [sys.executable, "-m", "pytest"]
FRONT: Final = [*PYTEST, "-m", "not timeless and not brokers", "-n", "2", "--dist", "loadfile"]
CALM: Final = [*PYTEST, "-p", "no:cacheprovider", "--timeout=900", "-m", "timeless and not brokers"]
"""The cache of what has failed is the front's. Behind everybody else a test may take long, and does not hang for that."""
SPREAD: Final = ["-n", "logical", "--maxprocesses", "4", "--dist", "worksteal"]
FATAL: Final = "Fatal Python error"
"""What Python says when a signal ends it: behind the dots of a run, so it may begin no line."""
MOST: Final = 300
"""Characters of a line that is said once more: its end."""
SPARK: Final = "tests/spark"
"""Alone: Spark uses all processors by itself, and one JVM serves all of these tests."""
OPEN: Final = "--capture=sys"
"""So that what libraries of C say before they abort is not kept from the reader."""
BEHIND: Final = [[sys.executable, "-m", "pyright"], [*CALM, OPEN, SPARK], [*CALM, f"--ignore={SPARK}", *SPREAD]]


class Rank:
    """Commands that run one after the other, under SCHED_IDLE; all of them, whatever the first ones say."""

    def __init__(self, commands: Sequence[Command], said: IO[bytes]) -> None:
        self.codes: list[int] = []
        self.ends: list[int] = []
        """Where in what was said each command's part ends."""
        self._commands, self._said = commands, said
        self._running: subprocess.Popen[bytes] | None = None
        self._over = False
        self._thread = threading.Thread(target=self._run, name="behind")
        self._thread.start()

    def _run(self) -> None:
        for command in self._commands:
            if self._over:
                return
            self._running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said)
            give_way(self._running.pid)
            self.codes.append(self._running.wait())
            self.ends.append(os.fstat(self._said.fileno()).st_size)

    def wait(self) -> None:
        self._thread.join()

    def end(self) -> None:
        """What still runs is ended, and nothing more begins."""
        self._over = True
        if self._running is not None:
            with contextlib.suppress(ProcessLookupError):
                self._running.terminate()
        self._thread.join()


def give_way(pid: int) -> None:
    """Has that process, and all that it starts from now on, run only where nobody else wants to."""
    with contextlib.suppress(ProcessLookupError):
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


def can_give_way() -> bool:
    """Whether this system has that policy, and lets us have it: tried on a process that is there for nothing else. And whether
    the front is not under it itself."""
    if not hasattr(os, "SCHED_IDLE") or os.sched_getscheduler(0) == os.SCHED_IDLE:
        return False
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as trial:
        try:
            give_way(trial.pid)
            return os.sched_getscheduler(trial.pid) == os.SCHED_IDLE
        except OSError:
            return False


@contextlib.contextmanager
def behind(commands: Sequence[Command], said: IO[bytes]) -> Iterator[Rank]:
    rank = Rank(commands, said)
    try:
        yield rank
        rank.wait()
    finally:
        rank.end()


def failures(commands: Sequence[Command], codes: Sequence[int], said: Sequence[str]) -> Iterator[str]:
    """What has failed, by its command, and by what it said last."""
    for command, code, text in zip(commands, codes, said, strict=False):
        if code:
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exits with {code}"
            yield "\n".join([f"{' '.join(command[1:])}: {how}", *map("  {}".format, last_words(text))])


def last_words(text: str) -> list[str]:
    """The lines that tell why: of one that a signal ended what came right before, where it was, and in which test; of a run its
    summary."""
    lines = text.splitlines()
    fatal = next((at for at, line in enumerate(lines) if FATAL in line), None)
    if fatal is None:
        return [line for line in lines if line.startswith(("FAILED", "ERROR"))][:10] or lines[-3:]
    own = next((at for at, line in enumerate(lines[fatal:], fatal) if line.startswith("Current thread")), fatal + 1)
    tests = [line for line in lines[own + 12 :] if "/tests/" in line]
    return [line[-MOST:] for line in [*lines[max(0, fatal - 4) : fatal + 1], *lines[own : own + 12], *tests]]


def play(front: Command, others: Sequence[Command]) -> int:
    """0 if `front` and all `others` exit with 0; else the first other code."""
    if not can_give_way():
        codes = [subprocess.run(command, check=False).returncode for command in [*others, front]]
        return next(filter(None, codes), 0)
    with tempfile.TemporaryFile() as said:
        with behind(others, said) as rank:
            code = subprocess.run(front, check=False).returncode
        said.seek(0)
        told = said.read()
        sys.stdout.flush()
        sys.stdout.buffer.write(told)
        sys.stdout.flush()
        parts = [told[begin:end].decode(errors="replace") for begin, end in itertools.pairwise([0, *rank.ends])]
        for failure in failures([front, *others], [code, *rank.codes], ["", *parts]):
            print(failure, file=sys.stderr, flush=True)
        return next(filter(None, [code, *rank.codes]), 0)


if __name__ == "__main__":
    sys.exit(play(FRONT, BEHIND))
