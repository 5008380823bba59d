"""The watchdog of a driver: real processes, no Spark."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

pytestmark = pytest.mark.processes
PATIENCE = 60.0
HEAD = """
import os, signal, sys, time
from pares.runtime.clock import stopwatch
from pares.spark.driving.leash import Leash
def say(word): print(word, flush=True)
"""


@contextlib.contextmanager
def driver(program: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HEAD + program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, said = process.communicate(timeout=PATIENCE)
    return process.returncode, out, said


@pytest.mark.parametrize(
    "hangs",
    [
        "leash.lasts(stopwatch() + 10**8); time.sleep(600)",  # nothing prolongs it: as when the guard's thread is stuck
        "leash.lasts(stopwatch() + 10**12); leash.over(); time.sleep(600)",
        "leash.lasts(stopwatch() + 10**8); os.kill(os.getpid(), signal.SIGSTOP); time.sleep(600)",
    ],
    ids=["stuck", "over", "frozen"],
)
def test_a_driver_that_does_not_stop_in_time_is_killed(hangs: str) -> None:
    with driver(f"with Leash(0.2) as leash: {hangs}") as process:
        code, _, said = end(process)
    assert code == -signal.SIGKILL
    assert "has not stopped its query in time" in said


def test_a_driver_that_stops_or_goes_on_is_left_alone() -> None:
    program = """
with Leash(0.3) as leash:
    for _ in range(20):
        leash.lasts(stopwatch() + 10**11)
    leash.over()
    leash.stopped()
    time.sleep(1.0)
    leash.lasts(stopwatch() + 10**11)
    time.sleep(0.5)
with Leash(None) as leash:
    leash.lasts(0); leash.over(); leash.stopped()
    time.sleep(0.5)
say("ended")
"""
    with driver(program) as process:
        assert end(process) == (0, "ended\n", "")


def test_a_watchdog_that_was_killed_is_replaced(tmp_path: object) -> None:
    program = """
with Leash(0.2) as leash:
    leash.lasts(stopwatch() + 10**12)
    first = leash._process
    first.kill(); first.wait()
    leash.lasts(stopwatch())
    time.sleep(600)
"""
    with driver(program) as process:
        code, _, said = end(process)
    assert code == -signal.SIGKILL
    assert "has not stopped" in said


def test_it_ends_with_its_driver_and_not_by_a_signal_to_the_group() -> None:
    program = """
leash = Leash(600)
leash.lasts(stopwatch() + 10**12)
print(leash._process.pid, flush=True)
sys.stdin.read()
"""
    with driver(program) as process:
        assert process.stdout is not None
        number = int(process.stdout.readline())
        watchdog = os.pidfd_open(number)
        try:
            for signum in (signal.SIGINT, signal.SIGTERM):
                signal.pidfd_send_signal(watchdog, signum)
            os.kill(number, 0)
            process.kill()
            process.wait(PATIENCE)
            import select

            assert select.select([watchdog], [], [], PATIENCE)[0], "it has ended"
        finally:
            os.close(watchdog)
