"""Which stopwatch a process reads: processes that read the same one may compare what they read.

CLOCK_BOOTTIME is one stopwatch for all processes since the machine started, but a time namespace shifts it for those inside.
So a stopwatch is named by the boot and the shift. The boot alone says whether the machine has been off meanwhile, and
with it whether what was not synced may be gone.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Final

UNKNOWN: Final = "0" * 8
"""Stands for the boot where the system does not tell it."""
NO_CLOCK: Final = b"-"
"""Stands for the stopwatch where it is nobody else's."""

_BOOTTIME: Final = getattr(time, "CLOCK_BOOTTIME", None)
SHARED: Final = _BOOTTIME is not None
"""Whether there is a stopwatch here that processes share."""


def _pick() -> Callable[[], int]:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC)
    return time.monotonic_ns


own_stopwatch: Final[Callable[[], int]] = _pick()
"""Nanoseconds of the stopwatch of this process, which runs while the machine sleeps, where there is one that does."""


def stopwatch() -> int:
    """Nanoseconds, also while the machine sleeps; 0 where there is no stopwatch that processes share."""
    return 0 if _BOOTTIME is None else time.clock_gettime_ns(_BOOTTIME)


@cache
def boot_id() -> str:
    """What is the same for all processes since the machine started, and another after the next start. "" if unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


@cache
def boot() -> str:
    """Eight digits that are the same for all processes since the machine started; `UNKNOWN` if the system has none."""
    whole = boot_id()
    return sha256(whole.encode()).hexdigest()[:8] if whole else UNKNOWN


def clock() -> bytes:
    """Names the stopwatch of this process. Ask when a ledger is opened: a process enters another namespace when it begins."""
    whole = boot_id()
    if not whole or _BOOTTIME is None:
        return NO_CLOCK
    try:
        shift = _shift()
    except FileNotFoundError:
        shift = ""  # a kernel that has no such namespaces
    except (OSError, ValueError):
        return NO_CLOCK
    return _named(whole, shift)


def _shift() -> str:
    """By how much the namespace of this process shifts the stopwatch. Its number would not do: the kernel gives that to another
    one later."""
    lines = Path("/proc/self/timens_offsets").read_text("ascii").splitlines()
    if os.readlink("/proc/self/ns/time") != os.readlink("/proc/self/ns/time_for_children"):
        raise ValueError("these are the shifts of another namespace, which only children will be in")
    (shift,) = [line.split()[1:] for line in lines if line.startswith("boottime")]
    return " ".join(shift)


def same(theirs: bytes, own: bytes) -> bool:
    """Whether stopwatches of these names are one."""
    return theirs == own != NO_CLOCK


def not_ahead(stamps: list[int | None]) -> list[int | None]:
    """The same, but None for what the own stopwatch has not reached. It is read here: after the stamps were, so that a true one
    is not ahead."""
    now = stopwatch()
    return [stamp if stamp is not None and 0 < stamp <= now else None for stamp in stamps]


@cache
def _named(whole: str, shift: str) -> bytes:
    return sha256(f"{whole} {shift}".encode()).hexdigest()[:16].encode()
