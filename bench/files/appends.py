"""The file ledger, beside SQLite in turns within one run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Final

import pares

PAYLOAD: Final = b'{"k":"beat","v":2,"g":"pricing","m":"a~6115ac90","n":5,"b":1795379032306905,"s":250}'
TURNS: Final = 5
WRITERS: Final = 8
WRITER: Final = """
import sys, time
import pares
ledger = pares.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
begin = time.perf_counter()
for _ in range(int(sys.argv[2])):
    ledger.append_many([b"x" * 100], urgent=False)
print(time.perf_counter() - begin, flush=True)
"""


def timed(action: Callable[[], object], count: int) -> list[float]:
    """Microseconds of each call."""
    found: list[float] = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        action()
        found.append((time.perf_counter_ns() - begin) / 1e3)
    return found


def measured(quick: bool) -> dict[str, list[float]]:
    """By what was measured: microseconds."""
    count = 200 if quick else 2000
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="pares-bench-") as folder:
        file, sqlite = pares.open(f"file://{folder}/file"), pares.open(f"sqlite:///{folder}/bench.db")
        place = os.open(f"{folder}/plain", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

        def reads_back() -> None:
            (offset,) = file.append_many([PAYLOAD], urgent=False)
            file.read(offset)

        def syncs() -> None:
            os.write(place, PAYLOAD)
            os.fdatasync(place)

        for _ in range(TURNS):
            for what, action, times in (
                ("beat", lambda: file.append_many([PAYLOAD], urgent=False), count),
                ("read back", reads_back, count),
                ("urgent", lambda: file.append(PAYLOAD), count // 20),
                ("write and fdatasync", syncs, count // 20),
                ("sqlite", lambda: sqlite.append(PAYLOAD), count // 20),
            ):
                found.setdefault(what, []).extend(timed(action, times))
        os.close(place)
        file.close()
        sqlite.close()
    return found


def together(quick: bool) -> float:
    """Appends a second of several processes that begin together, all of them."""
    each = 500 if quick else 10_000
    with tempfile.TemporaryDirectory(prefix="pares-bench-") as folder:
        url = f"file://{folder}/file"
        pares.open(url).close()
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, url, str(each)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(WRITERS)
        ]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        slowest = max(float(writer.communicate(timeout=600)[0]) for writer in writers)
    return WRITERS * each / slowest


def rows(quick: bool) -> Iterator[tuple[str, list[float], str, bool | None]]:
    """What, its microseconds (of the last: appends a second), the target, and whether it is met."""
    found = measured(quick)
    middle = {what: statistics.median(values) for what, values in found.items()}
    yield "file append of a beat", found["beat"], "p50 <= 10 us", middle["beat"] <= 10
    yield "file append of a beat, and reading it back", found["read back"], "p50 <= 20 us", middle["read back"] <= 20
    least = middle["write and fdatasync"]
    yield "file append of an urgent record", found["urgent"], "p50 <= below + 20 us", middle["urgent"] <= least + 20
    yield "write and fdatasync of the same, alone", found["write and fdatasync"], "", None
    yield "SQLite append, synchronous=full, in turns with these", found["sqlite"], "", None
    rate = together(quick)
    yield f"file appends a second, {WRITERS} processes", [rate], ">= 50,000", rate >= 50_000
