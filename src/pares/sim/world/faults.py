"""What may strike a process at a call of its host, and at which call.

Calls are counted per process, so that "at call 217" is one place in one history; a fault can also wait for its turn among
calls of one kind. Kinds are what the host is asked for: "now", "lock", "append", and with a colon a place inside of such a
call: "append:sent" (handed over, not acknowledged yet), "read:fetched", "lock:held".
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

Action = Literal["kill", "freeze", "starve", "raise"]

NEVER_RAISES: Final = frozenset({"now", "wall", "release", "notify", "lock:held", "append:sent"})
"""Calls that fail on no system, or where a failure is not what the call could say."""


class Strike(Struct, frozen=True):
    """Something that strikes one process, once."""

    action: Action
    at: int
    """At the call of this number, counted from when the strike was armed and from 1; of `kind` alone, if it names one."""
    kind: str = ""
    length: int = 0
    """Nanoseconds of true time, for freeze and starve."""
    error: Literal["MemoryError", "OSError", "RuntimeError"] = "MemoryError"
    late: bool = False
    """For "now" and "wall": after the clock was read, so that its reading is old when it is used."""


def error_of(strike: Strike, kind: str) -> BaseException:
    """What is raised."""
    text = f"simulated, at {kind}"
    if strike.error == "OSError":
        return OSError(24, f"Too many open files ({text})")
    return MemoryError(text) if strike.error == "MemoryError" else RuntimeError(f"can't start new thread ({text})")
