"""How soon `pares audit --follow` tells, while 5,000 records a second are written to the log, and what its memory does.

A member says ten times a second that it leads by a token that the log gave to nobody; the alarm's latency is from the time
that its record names to the arrival of the line. Memory is what no file backs (RssAnon) of the follower's process, and
with Spark of its JVM, which is another one.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Final

from bench.cases import Row, spread
from bench.consume.memory import growth
from bench.history.logs import GROUP, Writer, at_rate
from bench.history.processes import jvm_of
from bench.history.processes import memory as memory_of

RATE: Final = 5000
P99_MS: Final = 3000.0
FLAT_MB: Final = 20.0
"""An hour."""
LOOK_S: Final = 1.0
KEPT_S: Final = 120
"""So much of the log is kept, so that its file does not grow with the time of a run."""


def cases(
    say: Callable[[str], None], seconds: float, engines: Sequence[str], memory: str, rate: int = RATE
) -> Iterator[Row]:
    """All followers read one log at the same time. [one after the other, the machine is another one for the second]"""
    with tempfile.TemporaryDirectory(prefix="bench-follow-") as folder, ExitStack() as open_:
        url = f"sqlite:///{folder}/log.db"
        writer = open_.enter_context(closing(Writer(url)))
        followers = [open_.enter_context(_Follower(engine, url, Path(folder) / engine, memory)) for engine in engines]
        yield from _run(writer, followers, seconds, rate, say)


class _Follower:
    """One `pares audit --follow`: its lines, with the times of their arrival, and its memory."""

    def __init__(self, engine: str, url: str, checkpoint: Path, memory: str) -> None:
        self.engine = engine
        self.late_ms: list[float] = []
        self.end: dict[str, object] = {}
        self.looks: dict[str, list[tuple[float, float]]] = {"": [], " of the JVM": []}
        """(seconds, MB), of the process and of its JVM."""
        command = [sys.executable, "-m", "pares", "audit", "--follow", "--json", "--engine", engine, "--ledger", url]
        command += ["--group", GROUP, "--checkpoint", str(checkpoint)]
        self.process = subprocess.Popen(
            command + (["--memory", memory] if engine == "spark" else []), stdout=subprocess.PIPE, text=True
        )
        self.thread = threading.Thread(target=self._hear, daemon=True)
        self.thread.start()

    def __enter__(self) -> _Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.thread.join(10)

    def look(self, past: float) -> None:
        for name, pid in (("", self.process.pid), (" of the JVM", jvm_of(self.process.pid))):
            if (mb := memory_of(pid)) is not None:
                self.looks[name].append((past, mb))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        self.thread.join(10)

    def _hear(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            now, told = time.time_ns() / 1e6, json.loads(line)
            if "exit_code" in told:
                self.end = told
            elif told["rule"] == "no_such_term" and told["what"] == "raised":
                self.late_ms.append(now - told["from_ms"])


def _run(
    writer: Writer, followers: Sequence[_Follower], seconds: float, rate: int, say: Callable[[str], None]
) -> Iterator[Row]:
    writer.append(100, plant=True)
    _until(lambda: all(one.late_ms for one in followers), 120, "a follower told nothing within two minutes")
    for one in followers:
        one.late_ms.clear()
    planted, places, looks = writer.planted, list[tuple[float, int]](), 0
    began, done = time.monotonic(), 0
    for done in at_rate(writer, rate):
        past = time.monotonic() - began
        if past >= seconds:
            break
        if looks < past / LOOK_S:
            looks += 1
            for one in followers:
                one.look(past)
            places.append((past, writer.ledger.end()))
            while places[0][0] < past - KEPT_S:
                writer.ledger.trim(places.pop(0)[1])
            if looks % 30 == 0:
                alarms = ", ".join(f"{one.engine} {len(one.late_ms)}" for one in followers)
                say(f"{done} records, alarms: {alarms}")
    took, planted = time.monotonic() - began, writer.planted - planted
    with suppress(TimeoutError):  # the rows say what came
        _until(lambda: all(len(one.late_ms) >= planted for one in followers), 60, "")
    for one in followers:
        one.stop()
        yield from _told(one, seconds, planted, done / took, rate)


def _told(one: _Follower, seconds: float, planted: int, a_second: float, rate: int) -> Iterator[Row]:
    late = sorted(one.late_ms)
    what = f"follow, {one.engine}, {seconds:g} s"
    met = a_second >= 0.95 * RATE if rate >= RATE else None
    yield Row(f"{what}: records a second", f"{a_second:.0f} (read: {one.end.get('records')})", f">= {RATE}", met)
    yield Row(f"{what}: alarms", f"{len(late)} of {planted} planted", "all", len(late) == planted)
    if late:
        p99 = late[min(len(late) - 1, int(len(late) * 0.99))]
        figures = f"{late[len(late) // 2]:.0f}, {p99:.0f} ms"
        yield Row(f"{what}: alarm latency p50, p99", figures, "p99 <= 3000 ms", p99 <= P99_MS)
    for name, looks in one.looks.items():
        if not looks:
            continue
        yield Row(f"{what}: memory{name}", spread([mb for _, mb in looks], "MB"))
        if seconds >= 600:
            more = growth(looks)
            yield Row(
                f"{what}: growth of memory{name} an hour", f"{more:+.1f} MB", f"<= {FLAT_MB:g} MB", more <= FLAT_MB
            )


def _until(done: Callable[[], bool], seconds: float, otherwise: str) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(otherwise)
        time.sleep(0.05)
