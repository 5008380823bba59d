"""The watchdog of a guarded driver: a small process that kills the driver when its time is over.

The driver's own threads can't be relied on for that: they may be frozen with it, or wait for the interpreter behind a library
that does not let go of it. This process reads deadlines from its standard input, one a line, in nanoseconds of the stopwatch
that runs while the machine sleeps; 0: there is nothing to watch now. The last one counts. When it has passed, the driver is
killed, with SIGKILL, which ends a stopped process too; and its JVM with it, which ends when its standard input does. When the
driver is gone, so is this process.

It is run by path, without `site` and without pares, so that it starts in milliseconds and stays small:
    python -I -S watchdog.py DRIVER
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

LOOK = 1.0
"""Seconds between two looks at the clock, at most: timers stand still while the machine sleeps."""


def now_ns() -> int:
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def watch(driver: int) -> None:
    """Until the driver is gone. Its number can't mean another process: it is this one's parent, or it is not looked at."""
    deadline, buffer = 0, b""
    while os.getppid() == driver:
        left = (deadline - now_ns()) / 1e9 if deadline else LOOK
        if select.select([0], [], [], max(0.0, min(left, LOOK)))[
            0
        ]:  # first: this process may be the one that stood still
            received = os.read(0, 4096)
            if not received:
                return
            *lines, buffer = (buffer + received).split(b"\n")
            deadline = int(lines[-1]) if lines else deadline
        elif left <= 0:
            say(f"driver {driver} has not stopped its query in time after the end of its term, and is killed")
            os.kill(driver, signal.SIGKILL)
            return


def say(text: str) -> None:
    try:
        os.write(2, f"pares: {text}\n".encode())
    except OSError:
        pass  # what the driver wrote to is gone


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a group's signal may be one that the driver outlives
    watch(int(sys.argv[1]))
