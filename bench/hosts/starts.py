"""Hundreds of members that start within a second (a deploy): whether each comes into the group at its first try.

A few processes with many members each, so that it is the group that is measured and not the starting of interpreters.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pares
from bench.cases import Row, spread

PROCESSES: Final = 6
SESSION: Final = 10.0
WATCHED: Final = 3 * SESSION
"""Seconds for which all of them are watched when the last one is in its group."""
PATIENCE: Final = 300.0


class Heard(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            self.errors.append(record.getMessage())


def start(url: str, first: int, count: int, total: int) -> None:
    """In one of the processes: makes its members when it is told to, and says what became of them."""
    heard = Heard()
    logging.getLogger("pares").addHandler(heard)
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    members: list[pares.Member] = []
    roles = [f"r{number}" for number in range(total)]
    for number in range(first, first + count):
        time.sleep(max(0.0, began + (number - first) / count - time.monotonic()))
        members.append(pares.Member(url, group="starts", name=f"m{number}", roles=roles, session=SESSION))
    joined: dict[str, float] = {}
    while len(joined) < count and time.monotonic() < began + PATIENCE:
        joined |= {m.name: time.monotonic() - began for m in members if m.name not in joined and m.state == "live"}
        time.sleep(0.05)
    print("joined", flush=True)
    sys.stdin.readline()
    found = {"joined": list(joined.values()), "errors": heard.errors}
    print(json.dumps(found | {"restarts": sum(m.health().restarts for m in members)}), flush=True)
    for member in members:
        member.close(timeout=0)


def starts(quick: bool) -> Iterator[Row]:
    """Rows: when each was in its group, and how many began anew or logged an error."""
    total = 60 if quick else 300
    with tempfile.TemporaryDirectory() as folder:
        url = f"file://{Path(folder) / 'log'}?create=1"
        each = total // PROCESSES
        commands = [
            [sys.executable, "-m", "bench.hosts.starts", url, str(number * each), str(each), str(total)]
            for number in range(PROCESSES)
        ]
        processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for command in commands
        ]
        try:
            found = list(_played(processes, 5.0 if quick else WATCHED))
        finally:
            for process in processes:
                process.kill()
                process.communicate()
    joined = [seconds for one in found for seconds in one["joined"]]
    restarts, errors = sum(one["restarts"] for one in found), [text for one in found for text in one["errors"]]
    what = f"{total} members started within a second, session {SESSION:g} s"
    yield Row(f"{what}: in the group after", spread(joined, "s"), f"all {total}", len(joined) == total)
    yield Row(f"{what}: began anew", str(restarts), "0", restarts == 0)
    said = f"{len(errors)}: {errors[0]}" if errors else "0"
    yield Row(f"{what}: errors logged", said, "0", not errors)


def _played(processes: list[subprocess.Popen[str]], watched: float) -> Iterator[dict[str, Any]]:
    for word in ("ready", "joined"):
        for process in processes:
            assert process.stdout is not None
            line = process.stdout.readline()
            if line.strip() != word:
                raise RuntimeError(f"a process said {line!r} in the place of {word!r}")
        if word == "joined":
            time.sleep(watched)
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("on\n")
            process.stdin.flush()
    for process in processes:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())


if __name__ == "__main__":
    start(sys.argv[1], *(int(word) for word in sys.argv[2:5]))
