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
from pares.runtime.here import here
from pares.runtime.term import Term
from pares.spark.driving.leash import Leash
def say(word): print(word, flush=True)
def term(lasts): return Term("r", 0, 1, "m", stopwatch() + int(lasts * 1e9), here())
def ended():
    found = term(1000)
    found._end("the test says so")
    return found
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
        "with leash.on(term(0.1)): time.sleep(600)",
        "with leash.on(fenced := term(1000)): fenced._end('the test says so'); time.sleep(600)",
        "with leash.on(ended()): time.sleep(600)",
        "with leash.on(term(0.1)): os.kill(os.getpid(), signal.SIGSTOP); time.sleep(600)",
        "with leash.on(term(0.1)): import ctypes; ctypes.PyDLL(None).sleep(600)",  # a library that holds the interpreter
    ],
    ids=["lapsed", "fenced", "over before", "frozen", "held"],
)
def test_a_driver_that_does_not_stop_in_time_is_killed(hangs: str) -> None:
    with driver(f"with Leash(0.2) as leash:\n    {hangs}") as process:
        code, _, said = end(process)
    assert code == -signal.SIGKILL
    assert "has not stopped its query in time" in said


def test_a_driver_that_stops_or_goes_on_is_left_alone() -> None:
    program = """
with Leash(1.0) as leash:
    renewed = term(0.5)
    with leash.on(renewed):
        assert renewed._renew(stopwatch() + 10**12)
        time.sleep(2.0)  # busy for longer than it was told at first, in a term that lasts
    with leash.on(renewed):
        renewed._end("the test says so")
    with leash.on(ended()):
        pass
    time.sleep(1.5)
    with leash.on(renewing := term(1.0)):
        os.kill(leash._process.pid, signal.SIGSTOP)  # the watchdog is the one that stands still
        renewing._renew(stopwatch() + 10**12)
        time.sleep(2.5)
        os.kill(leash._process.pid, signal.SIGCONT)
        time.sleep(0.3)
with Leash(None) as leash, leash.on(ended()):
    pass
say("ended")
"""
    with driver(program) as process:
        assert end(process) == (0, "ended\n", "")


def test_a_watchdog_that_was_killed_is_replaced(tmp_path: object) -> None:
    program = """
with Leash(0.2) as leash:
    with leash.on(fenced := term(1000)):
        first = leash._process
        first.kill(); first.wait()
        while leash._process in (first, None):
            time.sleep(0.01)
        fenced._end("the test says so")
        time.sleep(600)
"""
    with driver(program) as process:
        code, _, said = end(process)
    assert code == -signal.SIGKILL
    assert "has not stopped" in said


def test_it_ends_with_its_driver_and_not_by_a_signal_to_the_group() -> None:
    program = """
leash = Leash(600)
with leash.on(term(1000)):
    print(leash._process.pid, flush=True)
    time.sleep(600)
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
