"""How soon `pares audit --follow` tells, while 5,000 records a second are written to the log, and what its memory does.

A member says ten times a second that it leads by a token that the log gave to nobody; the alarm's latency is from the time
that its record names to the arrival of the line. Memory is what no file backs (RssAnon) of the follower's process; with Spark
its JVM is another one.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from bench.cases import Row, spread
from bench.consume.memory import anonymous, growth
from bench.history.logs import GROUP, Writer, at_rate

RATE: Final = 5000
P99_MS: Final = 3000.0
FLAT_MB: Final = 20.0
"""An hour."""
LOOK_S: Final = 1.0
KEPT_S: Final = 120
"""So much of the log is kept, so that its file does not grow with the time of a run."""
WARM: Final = 0.1


def cases(say: Callable[[str], None], seconds: float, rate: int = RATE) -> Iterator[Row]:
    for engine in ("python", "spark"):
        try:
            yield from _followed(engine, seconds, rate, say)
        except TimeoutError as error:
            yield Row(f"follow, {engine}", str(error), "", met=False)


def _followed(engine: str, seconds: float, rate: int, say: Callable[[str], None]) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="bench-follow-") as folder:
        url = f"sqlite:///{folder}/log.db"
        with closing(Writer(url)) as writer:
            command = [
                sys.executable,
                "-m",
                "pares",
                "audit",
                "--follow",
                "--json",
                "--engine",
                engine,
                "--ledger",
                url,
            ]
            command += ["--group", GROUP, "--checkpoint", str(Path(folder) / "mark")]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                hearing = _Hearing(process)
                try:
                    yield from _run(engine, writer, process, hearing, seconds, rate, say)
                finally:
                    process.kill()


class _Hearing:
    """The lines of a follower, with the times of their arrival."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.late_ms: list[float] = []
        self.end: dict[str, object] = {}
        self._process = process
        self.thread = threading.Thread(target=self._hear, daemon=True)
        self.thread.start()

    def _hear(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            now, told = time.time_ns() / 1e6, json.loads(line)
            if "exit_code" in told:
                self.end = told
            elif told["rule"] == "no_such_term" and told["what"] == "raised":
                self.late_ms.append(now - told["from_ms"])


def _run(
    engine: str,
    writer: Writer,
    process: subprocess.Popen[str],
    hearing: _Hearing,
    seconds: float,
    rate: int,
    say: Callable[[str], None],
) -> Iterator[Row]:
    writer.append(100, plant=True)
    _until(lambda: bool(hearing.late_ms), 120, "the follower told nothing within two minutes")
    hearing.late_ms.clear()
    planted, looks, places = writer.planted, list[tuple[float, float]](), list[tuple[float, int]]()
    began, done = time.monotonic(), 0
    for done in at_rate(writer, rate):
        past = time.monotonic() - began
        if past >= seconds:
            break
        if len(looks) < past / LOOK_S:
            looks.append((past, anonymous(process.pid)))
            places.append((past, writer.ledger.end()))
            while places[0][0] < past - KEPT_S:
                writer.ledger.trim(places.pop(0)[1])
            if len(looks) % 30 == 0:
                say(f"{engine}: {done} records, {len(hearing.late_ms)} alarms, {looks[-1][1]:.0f} MB")
    took = time.monotonic() - began
    planted = writer.planted - planted
    _until(lambda: len(hearing.late_ms) >= planted, 60, f"{len(hearing.late_ms)} of {planted} alarms came")
    process.send_signal(signal.SIGINT)
    process.wait(60)
    hearing.thread.join(10)
    late = sorted(hearing.late_ms)
    p99 = late[min(len(late) - 1, int(len(late) * 0.99))]
    what = f"follow, {engine}, {seconds:g} s"
    met = done / took >= 0.95 * RATE if rate >= RATE else None
    yield Row(f"{what}: records a second", f"{done / took:.0f} (read: {hearing.end.get('records')})", f">= {RATE}", met)
    yield Row(f"{what}: alarms", f"{len(late)} of {planted} planted", "all", len(late) == planted)
    yield Row(
        f"{what}: alarm latency p50, p99", f"{late[len(late) // 2]:.0f}, {p99:.0f} ms", "p99 <= 3000 ms", p99 <= P99_MS
    )
    yield Row(f"{what}: memory", spread([mb for _, mb in looks], "MB"))
    if seconds >= 600:
        more = growth(looks)
        yield Row(f"{what}: memory's growth an hour", f"{more:+.1f} MB", f"<= {FLAT_MB:g} MB", more <= FLAT_MB)


def _until(done: Callable[[], bool], seconds: float, otherwise: str) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(otherwise)
        time.sleep(0.05)
