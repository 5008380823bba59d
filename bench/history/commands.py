"""What `pares audit` takes from the start of its process to its end: of a small log, and of one with many terms."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Final

from bench.cases import Row, spread
from bench.history.logs import GROUP, written
from bench.history.processes import Peak

Say = Callable[[str], None]
SMALL: Final = 214
"""Records: as many as a run of the first example leaves."""
START_S: Final = 6.0
ROUNDS: Final = 5
TERMS: Final = 10_000_000
JVM_MB: Final = 2048.0
DRIVER_MB: Final = 400.0
A_TERM: Final = 4
"""Records: that it was got, that it is led, that it is no longer, that it was given up."""
MANY_ROLES: Final = 1000
MOVES: Final = 900
"""Tried in each append; some 590 of the roles, as each changes hands once at the most."""
FULL: Final = 2500
"""Records in an append: few more than its terms take."""


def start(say: Say, memory: str, rounds: int = ROUNDS) -> Iterator[Row]:
    """A small log, judged by Spark, in a process of its own each time; the first one may have a class archive to make."""
    with tempfile.TemporaryDirectory(prefix="bench-start-") as folder:
        url = f"sqlite:///{folder}/log.db"
        written(url, SMALL, say).close()
        took: list[float] = []
        for turn in range(1 + rounds):
            say(f"audit {turn} of {SMALL} records")
            began = time.monotonic()
            _audited([*_command(url, memory)])
            took.append(time.monotonic() - began)
        yield Row(f"pares audit of {SMALL} records, the first", f"{took[0]:.1f} s")
        middle = sorted(took[1:])[rounds // 2]
        yield Row(f"pares audit of {SMALL} records", spread(took[1:], "s"), f"<= {START_S:g} s", middle <= START_S)


def terms(say: Say, records: int, memory: str) -> Iterator[Row]:
    """A log of which nearly every record is about a term: memory of the JVM and of the driver at their most."""
    with tempfile.TemporaryDirectory(prefix="bench-terms-") as folder:
        url = f"sqlite:///{folder}/log.db"
        written(url, records, say, roles=MANY_ROLES, moves=MOVES, batch=FULL).close()
        say(f"audits {records} records")
        began = time.monotonic()
        told, peak = _audited([*_command(url, memory)])
        took = time.monotonic() - began
        many = told["summary"]["terms"]
        what, enough = f"audit of {many} terms in {records} records, heap {memory}", many >= TERMS
        yield Row(what, f"{took:.1f} s, {many / took:.0f} terms/s")
        for name, most, bar in (("JVM", peak.jvm, JVM_MB), ("driver", peak.driver, DRIVER_MB)):
            met = most <= bar if enough else None
            yield Row(f"{what}: memory of the {name}", f"{most:.0f} MB", f"<= {bar:.0f} MB at 10 M terms", met)


def _command(url: str, memory: str) -> Iterator[str]:
    yield from (sys.executable, "-m", "pares", "audit", "--json", "--engine", "spark", "--memory", memory)
    yield from ("--ledger", url, "--group", GROUP)


def _audited(command: list[str]) -> tuple[dict[str, dict[str, int]], Peak]:
    """What the command says, and its memory. Raises `RuntimeError` for one that says nothing."""
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as process,
    ):
        peak = Peak(process.pid)
        try:
            out, _ = process.communicate()
        finally:
            process.kill()
            peak.end()
        if process.returncode not in (0, 3):
            said.seek(0)
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {said.read()[-2000:]}")
    return json.loads(out), peak
