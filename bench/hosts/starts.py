"""Hundreds of members that start within a second (a deploy): whether each comes into the group at its first try.

    python -m bench.hosts.starts [--members 300] [--history 8192] [--ledger kafka]

A few processes with many members each, so that it is the group that is measured and not the starting of interpreters. Each
member opens the ledger for itself, as a process of its own would.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pares
from bench.cases import Row, spread
from bench.hosts.before import HISTORY, lived_on
from bench.processes import Troupe
from bench.sections import CROWDS, line, or_why

MEMBERS: Final = 300
PROCESSES: Final = 6
GROUP: Final = "starts"
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
    roles = names(total)
    for number in range(first, first + count):
        time.sleep(max(0.0, began + (number - first) / count - time.monotonic()))
        members.append(pares.Member(url, group=GROUP, name=f"m{number}", roles=roles, session=SESSION))
    joined: dict[str, float] = {}
    while len(joined) < count and time.monotonic() < began + PATIENCE:
        joined |= {m.name: time.monotonic() - began for m in members if m.name not in joined and m.state == "live"}
        time.sleep(0.05)
    print("joined", flush=True)
    sys.stdin.readline()
    found = {"joined": list(joined.values()), "errors": heard.errors}
    said = [text for m in members for text in m.health().problems if text.startswith("restarted: ")]
    print(json.dumps(found | {"restarts": sum(m.health().restarts for m in members), "why": said}), flush=True)
    for member in members:
        member.close(timeout=0)


def names(total: int) -> list[str]:
    return [f"r{number}" for number in range(total)]


def starts(quick: bool, url: str | None = None) -> Iterator[Row]:
    """The case of `python -m bench`, on files unless a URL is given: on a log that is empty or not, as it comes."""
    with Troupe(url) as troupe:
        total, watched = (24, 2.0) if quick else (MEMBERS, WATCHED)
        yield from started(troupe.url, total, watched)


def on_history(quick: bool, url: str | None = None) -> Iterator[Row]:
    """The same on a log on which the group has lived before, so that joiners begin at a snapshot."""
    with Troupe(url) as troupe:
        total, watched, history = (24, 2.0, 1000) if quick else (MEMBERS, WATCHED, HISTORY)
        yield from started(troupe.url, total, watched, history)


def started(url: str, total: int, watched: float, history: int = 0) -> Iterator[Row]:
    """Rows: when each was in its group, and how many began anew or logged an error. `history`: records before them."""
    ledger = url.partition(":")[0]
    what = f"{total} members started within a second, session {SESSION:g} s, {ledger}"
    what += ", a group with a history" if history else ", an empty log"
    yield from or_why(what, _measured(what, url, total, watched, history))


def _measured(what: str, url: str, total: int, watched: float, history: int) -> Iterator[Row]:
    pares.open(url).close()
    if history:
        records, snapshots = lived_on(url, GROUP, names(total), history)
        said = f"{records} records, {snapshots} snapshots"
        yield Row(f"{what}: there before", said, "a snapshot", snapshots > 0)
    each, more = divmod(total, PROCESSES)
    shares = [each + (number < more) for number in range(PROCESSES)]
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "bench.hosts.starts",
                "--play",
                url,
                *map(str, (sum(shares[:number]), share, total)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for number, share in enumerate(shares)
    ]
    try:
        found = list(_played(processes, watched))
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    joined = [seconds for one in found for seconds in one["joined"]]
    restarts, errors = sum(one["restarts"] for one in found), [text for one in found for text in one["errors"]]
    said = spread(joined, "s") if joined else "never"
    yield Row(f"{what}: in the group after", said, f"all {total}", len(joined) == total)
    why = Counter(text for one in found for text in one["why"]).most_common(1)
    said = f"{restarts}; mostly {why[0][0]}" if why else str(restarts)
    yield Row(f"{what}: began anew", said, "0", restarts == 0)
    said = f"{len(errors)}: {errors[0]}" if errors else "0"
    yield Row(f"{what}: errors logged", said, "0", not errors)


def _played(processes: list[subprocess.Popen[str]], watched: float) -> Iterator[dict[str, Any]]:
    for word in ("ready", "joined"):
        for process in processes:
            assert process.stdout is not None
            said = process.stdout.readline()
            if said.strip() != word:
                raise ChildProcessError(f"a process said {said!r} in the place of {word!r}")
        if word == "joined":
            time.sleep(watched)
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("on\n")
            process.stdin.flush()
    for process in processes:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.hosts.starts", description=__doc__)
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--history", type=int, default=0, metavar="RECORDS", help="that the group has written before")
    parser.add_argument("--ledger", choices=["file", "sqlite", "kafka"], default="file")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the rows between the marks of this file")
    options = parser.parse_args()
    rows: list[Row] = []
    with ExitStack() as stack:
        url: str | None = None
        if options.ledger == "kafka":
            from bench.on_kafka import cluster
            from bench.on_kafka import url as fresh

            url = fresh(stack.enter_context(cluster(1)))
        Troupe.begins = options.ledger
        troupe = stack.enter_context(Troupe(url))
        for row in started(troupe.url, options.members, WATCHED, options.history):
            rows.append(row)
            print(line(row), flush=True)
    if options.write is not None:
        CROWDS.write(options.write, rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--play"]:
        start(sys.argv[2], *(int(word) for word in sys.argv[3:6]))
    else:
        main()
